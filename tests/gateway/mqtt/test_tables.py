"""Numbers, reason codes and properties are those of the tables of MQTT 5.0."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.properties import read_properties, write_properties
from tests.support import mqtt

REASONS = {
    codes.CONNACK: {*range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F},
    codes.PUBACK: {0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    codes.PUBREC: {0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    codes.PUBREL: {0x92},
    codes.PUBCOMP: {0x92},
    codes.SUBACK: {1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    codes.DISCONNECT: {
        4, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
        0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
    },
}  # fmt: skip
"""The reason codes beside success in the tables of MQTT 5.0, sections 3.2.2.2 to 3.14.2.1."""


OF_CLIENTS = {
    codes.PUBACK: {0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    codes.PUBREC: {0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    codes.PUBREL: {0x92},
    codes.PUBCOMP: {0x92},
    codes.DISCONNECT: {4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99},
}
"""Those that a client may send, by the column "sent by" and the words of these tables."""


@pytest.mark.parametrize("kind", OF_CLIENTS)
def test_a_reason_code_that_only_a_server_sends_is_refused(kind: int) -> None:
    number = b"" if kind == codes.DISCONNECT else b"\0\7"
    for code in range(1, 256):
        decoder = Decoder()
        list(decoder.feed(mqtt.connect(version=5)))
        data = mqtt.packet(kind << 4 | (2 if kind == codes.PUBREL else 0), number, bytes((code,)))
        refused = 0
        try:
            list(decoder.feed(data))
        except ProtocolError as error:
            refused = error.code
        assert refused == (0 if code in OF_CLIENTS[kind] else codes.PROTOCOL_ERROR), code


@pytest.mark.parametrize("kind", REASONS)
def test_a_packet_never_has_a_reason_code_that_its_table_lacks(kind: int) -> None:
    for code in range(1, 256):
        if kind == codes.CONNACK:
            found = encoder.connack(codes.V5, code)[3]
        elif kind == codes.SUBACK:
            found = encoder.suback(codes.V5, 7, [code])[-1]
        elif kind == codes.DISCONNECT:
            found = encoder.disconnect(code)[2]
        else:
            found = encoder.acknowledgement(codes.V5, kind, 7, code)[4]
        assert found == (code if code in REASONS[kind] else 0x80)


PROPERTIES = """
01 payload_format_indicator 01 PUBLISH,will
02 message_expiry_interval 00000102 PUBLISH,will
03 content_type 0002c3bc PUBLISH,will
08 response_topic 0002c3bc PUBLISH,will
09 correlation_data 0002c3bc PUBLISH,will
0b subscription_identifier 8202 PUBLISH,SUBSCRIBE
11 session_expiry_interval 00000102 CONNECT,CONNACK,DISCONNECT
12 assigned_client_identifier 0002c3bc CONNACK
13 server_keep_alive 0102 CONNACK
15 authentication_method 0002c3bc CONNECT,CONNACK,AUTH
16 authentication_data 0002c3bc CONNECT,CONNACK,AUTH
17 request_problem_information 01 CONNECT
18 will_delay_interval 00000102 will
19 request_response_information 01 CONNECT
1a response_information 0002c3bc CONNACK
1c server_reference 0002c3bc CONNACK,DISCONNECT
1f reason_string 0002c3bc CONNACK,PUBACK,PUBREC,PUBREL,PUBCOMP,SUBACK,UNSUBACK,DISCONNECT,AUTH
21 receive_maximum 0102 CONNECT,CONNACK
22 topic_alias_maximum 0102 CONNECT,CONNACK
23 topic_alias 0102 PUBLISH
24 maximum_qos 01 CONNACK
25 retain_available 01 CONNACK
26 user_property 0002c3bc00017a *
27 maximum_packet_size 00000102 CONNECT,CONNACK
28 wildcard_subscription_available 01 CONNACK
29 subscription_identifier_available 01 CONNACK
2a shared_subscription_available 01 CONNACK
"""
"""Table 2-4 of MQTT 5.0: number, name, a value as it travels, and the packets in which it may stand."""
VALUES = {"01": 1, "00000102": 258, "0102": 258, "0002c3bc": "ü", "8202": [258], "0002c3bc00017a": [("ü", "z")]}


@pytest.mark.parametrize("line", PROPERTIES.split("\n")[1:-1])
def test_a_property_has_the_number_the_form_and_the_packets_of_the_specification(line: str) -> None:
    number, name, form, where = line.split()
    data = bytes.fromhex(number + form)
    value = "ü".encode() if name in ("correlation_data", "authentication_data") else VALUES[form]
    assert write_properties({name: value}) == bytes([len(data)]) + data
    if name == "authentication_data":  # which has to have a method
        data, value = bytes.fromhex("15000161") + data, {"authentication_method": "a", name: value}
    else:
        value = {name: value}
    for packet, title in enumerate(codes.NAMES):
        if packet in (0, codes.PINGREQ, codes.PINGRESP):
            continue
        block = bytes([len(data)]) + data
        if where == "*" or title in where.split(","):
            assert read_properties(block, 0, len(block), packet)[0] == value
        else:
            with pytest.raises(ProtocolError):
                read_properties(block, 0, len(block), packet)


def test_packets_and_reasons_have_the_numbers_of_the_specification() -> None:
    packets = (
        "CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP"
    )
    for number, name in enumerate([*packets.split(), "DISCONNECT", "AUTH"], 1):
        assert (getattr(codes, name), codes.NAMES[number]) == (number, name)
    reasons = {
        "SUCCESS": 0x00, "DISCONNECT_WITH_WILL": 0x04, "NO_MATCHING_SUBSCRIBERS": 0x10, "NO_SUBSCRIPTION_EXISTED": 0x11,
        "UNSPECIFIED_ERROR": 0x80, "MALFORMED_PACKET": 0x81, "PROTOCOL_ERROR": 0x82, "IMPLEMENTATION_ERROR": 0x83,
        "UNSUPPORTED_VERSION": 0x84, "CLIENT_ID_NOT_VALID": 0x85, "BAD_CREDENTIALS": 0x86, "NOT_AUTHORIZED": 0x87,
        "SERVER_UNAVAILABLE": 0x88, "SERVER_BUSY": 0x89, "BANNED": 0x8A, "SERVER_SHUTTING_DOWN": 0x8B,
        "BAD_AUTHENTICATION_METHOD": 0x8C, "KEEP_ALIVE_TIMEOUT": 0x8D, "SESSION_TAKEN_OVER": 0x8E,
        "TOPIC_FILTER_INVALID": 0x8F, "TOPIC_NAME_INVALID": 0x90, "PACKET_ID_IN_USE": 0x91, "PACKET_ID_NOT_FOUND": 0x92,
        "RECEIVE_MAXIMUM_EXCEEDED": 0x93, "TOPIC_ALIAS_INVALID": 0x94, "PACKET_TOO_LARGE": 0x95,
        "MESSAGE_RATE_TOO_HIGH": 0x96, "QUOTA_EXCEEDED": 0x97, "PAYLOAD_FORMAT_INVALID": 0x99,
        "RETAIN_NOT_SUPPORTED": 0x9A, "QOS_NOT_SUPPORTED": 0x9B, "USE_ANOTHER_SERVER": 0x9C, "SERVER_MOVED": 0x9D,
        "SHARED_NOT_SUPPORTED": 0x9E, "WILDCARDS_NOT_SUPPORTED": 0xA2,
    }  # fmt: skip
    assert {name: getattr(codes, name) for name in reasons} == reasons
    assert codes.LARGEST_PACKET == 256 * 1024 * 1024 - 1
    assert codes.OLD_CONNACK == {0x00: 0, 0x84: 1, 0x85: 2, 0x88: 3, 0x89: 3, 0x86: 4, 0x87: 5, 0x8A: 5}
