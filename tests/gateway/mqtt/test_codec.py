"""Reading packets: the short way and the ordinary way agree, in whatever pieces bytes come, and damage never raises."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.packets import Acknowledgement, Connect, Packet, Publish, Will
from glue.gateway.mqtt.properties import read_integer, read_properties, write_integer, write_properties
from glue.gateway.mqtt.runs import read_publications
from tests.support import mqtt

VERSIONS = (3, 4, 5)


def decoder(version: int) -> Decoder:
    made = Decoder()
    list(made.feed(mqtt.connect(version=version)))
    return made


def flat(packets: list[Packet]) -> list[object]:
    """Runs as single messages, so that runs of different lengths compare."""
    found: list[object] = []
    for packet in packets:
        if isinstance(packet, Publish):
            for place, payload in enumerate(packet.payloads):
                number = packet.ids[place] if packet.ids else 0
                found.append((packet.topic, payload, packet.qos, packet.retain, packet.dup, number, packet.properties))
        elif isinstance(packet, Acknowledgement):
            found += [(packet.kind, number, packet.code, packet.properties) for number in packet.ids]
        else:
            found.append(packet)
    return found


def read(version: int, pieces: list[bytes]) -> tuple[list[object], int]:
    """What pieces of bytes give, and the reason code of the error that ends it, 0 without one."""
    made, found = decoder(version), list[Packet]()
    try:
        for piece in pieces:
            found += made.feed(piece)
    except ProtocolError as error:
        return flat(found), error.code
    return flat(found), 0


def stream(random: Random) -> tuple[int, bytes]:
    """A version, and packets of a client of it: many alike, some not."""
    version = random.choice(VERSIONS)
    out = []
    for _ in range(random.randint(1, 5)):
        topic, size = random.choice(("t", "a/b", "ü" * 70)), random.choice((0, 1, 60, 130, 16_500))
        qos, retain = random.randrange(3), random.random() < 0.3
        raw = b"\x01\x01" if version == 5 and random.random() < 0.3 else b""
        numbers = range(1, random.randint(2, 7))
        out += [mqtt.publish(topic, bytes(size), qos, n, retain, False, version, raw) for n in numbers]
        out += [mqtt.acknowledge(4, number) for number in range(1, random.randint(1, 5))]
        out += random.choice(([], [mqtt.PING], [mqtt.acknowledge(6, 7)]))
    return version, b"".join(out)


def test_packets_are_the_same_in_whatever_pieces_they_come() -> None:
    for seed in range(200):
        random = Random(seed)
        version, data = stream(random)
        whole = read(version, [data])
        assert whole[1] == 0, seed
        sizes = [random.randint(1, 300) for _ in range(3)]
        assert read(version, list(mqtt.chunks(data, sizes))) == whole, seed
        start = data[:400]
        assert read(version, [bytes((byte,)) for byte in start]) == read(version, [start]), seed


@pytest.mark.parametrize("seed", range(300))
def test_damaged_packets_give_the_same_in_whatever_pieces_and_raise_nothing_else(seed: int) -> None:
    random = Random(seed)
    version, data = stream(random)
    damaged = bytearray(data)
    for _ in range(random.randint(1, 3)):
        damaged[random.randrange(len(damaged))] = random.randrange(256)
    packets, code = read(version, [bytes(damaged)])
    again, code_again = read(version, list(mqtt.chunks(bytes(damaged), [random.randint(1, 500)])))
    assert again == packets
    assert code_again == code


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=9), st.sampled_from(VERSIONS), st.integers(0, 2))
def test_what_is_written_for_receivers_is_what_a_client_reads(payloads: list[bytes], version: int, qos: int) -> None:
    run = Publish("a/b", payloads, 2)
    ids = range(7, 7 + len(payloads)) if qos else ()
    found = [mqtt.publication(sent, version) for sent in mqtt.split(encoder.publish(version, run, qos, False, ids))]
    assert [one.payload for one in found] == payloads
    assert [one.number for one in found] == (list(ids) or [0] * len(payloads))
    assert {(one.topic, one.qos, one.retain, one.dup) for one in found} == {("a/b", qos, False, False)}
    assert {one.properties for one in found} == {b""}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_run_that_is_passed_on_as_it_came_is_what_was_published(version: int, qos: int) -> None:
    data = b"".join(mqtt.publish("t", b"%03d" % number, qos, number, version=version) for number in range(1, 300))
    (run,) = decoder(version).feed(data)
    assert isinstance(run, Publish)
    assert run.count == 299
    out = encoder.publish(version, run, qos, False, range(1, 300) if qos else ())
    assert out == data


@pytest.mark.parametrize("qos", [0, 1])
def test_a_length_of_more_bytes_than_it_needs_is_not_passed_on(qos: int) -> None:
    short = mqtt.publish("t", b"x", qos, 7)
    (run,) = decoder(4).feed(bytes((short[0], short[1] | 128, 0)) + short[2:])
    assert isinstance(run, Publish)
    assert encoder.publish(4, run, qos, False, [7] if qos else ()) == short


def test_numbers_are_written_as_they_are_read() -> None:
    for value in (0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, codes.LARGEST_PACKET):
        raw = write_integer(value)
        assert raw == mqtt.length(value)
        assert read_integer(raw, 0, len(raw)) == (value, len(raw))
        longer = raw[:-1] + bytes((raw[-1] | 128, 0))
        with pytest.raises(ProtocolError):
            read_integer(longer, 0, len(longer))
        assert read_integer(b"\x80" + raw + b"\x01", 1, len(raw) + 1) == (value, len(raw) + 1)


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff", b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x7f"])
def test_a_number_of_more_than_four_bytes_or_without_an_end_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="a variable byte integer does not end"):
        read_integer(b"\x01" + raw, 1, len(raw) + 1)


def test_properties_are_written_as_they_are_read() -> None:
    found = {
        "message_expiry_interval": 7,
        "correlation_data": b"\0\1",
        "content_type": "text/plain",
        "user_property": [("a", "1"), ("a", "2")],
    }
    raw = write_properties(found)
    assert read_properties(raw, 0, len(raw), codes.PUBLISH) == (found, len(raw))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connect_is_read_field_by_field(version: int) -> None:
    greeting = mqtt.connect("\ufeffid", version, False, 300, ("w", b"will", 2, True), "user", b"\0\xff")
    assert list(Decoder().feed(greeting)) == [
        Connect(version, "\ufeffid", False, 300, "user", b"\0\xff", Will("w", b"will", 2, True))
    ]


NO_TEXT = b"\x00\x01\xff"
CONNECTED = [  # what a connected client may not send, and some that it may: version, bytes, reason code or 0
    (4, b"\x00\x00", codes.PROTOCOL_ERROR),
    (4, b"\xf0\x00", codes.PROTOCOL_ERROR),
    (4, mqtt.connect(), codes.PROTOCOL_ERROR),
    (4, b"\x20\x02\x00\x00", codes.PROTOCOL_ERROR),
    (4, b"\x36\x05\x00\x01t\x00\x01", codes.MALFORMED_PACKET),
    (4, b"\x38\x04\x00\x01tx", codes.MALFORMED_PACKET),
    (4, b"\x32\x05\x00\x01t\x00\x00", codes.MALFORMED_PACKET),
    (4, b"\x32\x04\x00\x01t\x00", codes.MALFORMED_PACKET),
    (4, b"\x30\x02\x00\x05", codes.MALFORMED_PACKET),
    (4, b"\x30\x02\x00\x00", codes.TOPIC_NAME_INVALID),
    (4, mqtt.publish("a/+", b""), codes.TOPIC_NAME_INVALID),
    (4, mqtt.publish("a/#", b""), codes.TOPIC_NAME_INVALID),
    (4, b"\x30\x03\x00\x01\x00", codes.MALFORMED_PACKET),
    (4, b"\x30\x05\x00\x03\xed\xa0\x80", codes.MALFORMED_PACKET),
    (4, b"\x30\xff\xff\xff\xff\x01", codes.MALFORMED_PACKET),
    (4, b"\x42\x02\x00\x01", codes.MALFORMED_PACKET),
    (4, b"\x40\x02\x00\x00", codes.MALFORMED_PACKET),
    (4, b"\x40\x03\x00\x01\x00", codes.MALFORMED_PACKET),
    (4, b"\x60\x02\x00\x01", codes.MALFORMED_PACKET),
    (4, b"\x80\x06\x00\x01\x00\x01t\x00", codes.MALFORMED_PACKET),
    (4, b"\x82\x02\x00\x01", codes.PROTOCOL_ERROR),
    (4, mqtt.packet(0x82, b"\x00\x01", NO_TEXT, b"\x00"), codes.MALFORMED_PACKET),
    (4, mqtt.packet(0xA2, b"\x00\x01", NO_TEXT), codes.MALFORMED_PACKET),
    (4, b"\xa0\x05\x00\x01\x00\x01t", codes.MALFORMED_PACKET),
    (4, mqtt.unsubscribe(0, "t"), codes.MALFORMED_PACKET),
    (4, mqtt.subscribe(0, ("t", 0)), codes.MALFORMED_PACKET),
    (4, mqtt.subscribe(1, ("t", 3)), codes.MALFORMED_PACKET),
    (4, mqtt.subscribe(1, ("t", 4)), codes.MALFORMED_PACKET),
    (4, mqtt.subscribe(1, ("a#", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("#/a", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("a+/b", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("$share/g", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("$share/a+/t", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("$share//t", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.subscribe(1, ("$share/g/", 0)), codes.TOPIC_FILTER_INVALID),
    (4, mqtt.unsubscribe(1), codes.PROTOCOL_ERROR),
    (4, b"\xc0\x01\x00", codes.MALFORMED_PACKET),
    (4, b"\xc1\x00", codes.MALFORMED_PACKET),
    (4, b"\xe0\x01\x00", codes.MALFORMED_PACKET),
    (4, b"\xe1\x00", codes.MALFORMED_PACKET),
    (5, b"\xf1\x00", codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x08" + NO_TEXT), codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x03" + NO_TEXT), codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x26" + NO_TEXT + mqtt.text("v")), codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x26" + mqtt.text("k") + NO_TEXT), codes.MALFORMED_PACKET),
    (5, mqtt.subscribe(1, ("t", 0x30), version=5), codes.MALFORMED_PACKET),
    (5, mqtt.subscribe(1, ("t", 0x40), version=5), codes.MALFORMED_PACKET),
    (5, mqtt.subscribe(1, ("$share/g/t", 4), version=5), codes.PROTOCOL_ERROR),
    (5, mqtt.subscribe(1, ("t", 0), version=5, raw=b"\x0b\x00"), codes.PROTOCOL_ERROR),
    (5, mqtt.subscribe(1, ("t", 0), version=5, raw=b"\x0b\x01\x0b\x02"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x0b\x01"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x01\x02"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x01\x00\x01\x00"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x23\x00\x00"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x11\x00\x00\x00\x00"), codes.PROTOCOL_ERROR),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x7f"), codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x02\x00"), codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x08" + mqtt.text("a/+")), codes.TOPIC_NAME_INVALID),
    (5, mqtt.publish("", b"", version=5), codes.TOPIC_NAME_INVALID),
    (5, b"\x30\x04\x00\x01t\x09", codes.MALFORMED_PACKET),
    (5, b"\xc0\x80\x00", codes.MALFORMED_PACKET),
    (5, b"\x30\x85\x80\x00\x00\x01t\x00x", codes.MALFORMED_PACKET),
    (5, b"\x30\x85\x00\x00\x01t\x00x", codes.MALFORMED_PACKET),
    (5, b"\x32\x87\x00\x00\x01t\x00\x01\x00x", codes.MALFORMED_PACKET),
    (5, b"\x30\x06\x00\x01t\x80\x00x", codes.MALFORMED_PACKET),
    (5, mqtt.publish("t", b"", version=5, raw=b"\x81\x00\x01"), codes.MALFORMED_PACKET),
    (5, mqtt.subscribe(1, ("t", 0), version=5, raw=b"\x0b\x81\x00"), codes.MALFORMED_PACKET),
    (5, b"\x40\x03\x00\x01\x92", codes.PROTOCOL_ERROR),
    (5, b"\x50\x03\x00\x01\x01", codes.PROTOCOL_ERROR),
    (5, b"\x62\x04\x00\x01\x10\x00", codes.PROTOCOL_ERROR),
    (5, b"\x70\x03\x00\x01\x80", codes.PROTOCOL_ERROR),
    (5, b"\xe0\x01\x05", codes.PROTOCOL_ERROR),
    (5, b"\xf0\x06\x1a\x04\x15\x00\x01m", codes.PROTOCOL_ERROR),
    (5, b"\xf0\x06\x18\x04\x15\x00\x01m", 0),
    (5, b"\xf0\x00", codes.PROTOCOL_ERROR),
    (5, b"\xf0\x06\x00\x04\x15\x00\x01m", codes.PROTOCOL_ERROR),
    (5, b"\xe0\x06\x00\x04\x1c\x00\x01s", codes.PROTOCOL_ERROR),
    (5, b"\xe0\x06\x00\x04\x1f\x00\x01s", 0),
    (5, b"\xf0\x01\x18", codes.PROTOCOL_ERROR),
    (5, b"\xf0\x02\x18\x00", codes.PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("version", "data", "code"), CONNECTED, ids=lambda value: str(value)[:40])
def test_a_malformed_packet_ends_with_its_reason(version: int, data: bytes, code: int) -> None:
    assert read(version, [data])[1] == code
    assert read(version, [bytes((byte,)) for byte in data])[1] == code


BEFORE_CONNECT = [
    (mqtt.PING, codes.PROTOCOL_ERROR),
    (b"\x11\x00", codes.PROTOCOL_ERROR),
    (b"GET / HTTP/1.1\r\n", codes.PROTOCOL_ERROR),
    (b"\x10\xff\xff\xff\x7f", codes.PACKET_TOO_LARGE),
    (b"\x10\x02\x00\x04", codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x06\x02\x00\x00", mqtt.text("c")), codes.UNSUPPORTED_VERSION),
    (mqtt.packet(0x10, mqtt.text("MQTX"), b"\x04\x02\x00\x00", mqtt.text("c")), codes.UNSUPPORTED_VERSION),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x03\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x18\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x1e\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x0a\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x22\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x06\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x82\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x05\x42\x00\x00\x00", mqtt.text("c")), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x02\x00\x00"), codes.MALFORMED_PACKET),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x02\x00\x00", NO_TEXT), codes.MALFORMED_PACKET),
    (
        mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x06\x00\x00", mqtt.text("c"), NO_TEXT, b"\0\0"),
        codes.MALFORMED_PACKET,
    ),
    (mqtt.packet(0x10, mqtt.text("MQTT"), b"\x04\x82\x00\x00", mqtt.text("c"), NO_TEXT), codes.MALFORMED_PACKET),
    (mqtt.connect(password=b"x"), codes.MALFORMED_PACKET),
    (mqtt.connect(), 0),
    (mqtt.packet(0x10, mqtt.connect()[2:], b"x"), codes.MALFORMED_PACKET),
    (mqtt.connect(will=("a/#", b"", 0, False)), codes.TOPIC_NAME_INVALID),
    (mqtt.connect(version=5, raw=b"\x21\x00\x00"), codes.PROTOCOL_ERROR),
    (mqtt.connect(version=5, raw=b"\x16\x00\x00"), codes.PROTOCOL_ERROR),
    (mqtt.connect(version=5), 0),
    (b"\x10\x8e\x00" + mqtt.connect(version=5)[2:], codes.MALFORMED_PACKET),
    (b"\x10\x8d\x00" + mqtt.connect()[2:], 0),
    (mqtt.connect(version=5, will=("t", b"", 0, False), will_raw=b"\x08" + mqtt.text("a/+")), codes.TOPIC_NAME_INVALID),
    (mqtt.connect(version=5, will=("t", b"", 0, False), will_raw=b"\x08" + mqtt.text("a/b")), 0),
]


@pytest.mark.parametrize(("data", "code"), BEFORE_CONNECT, ids=lambda value: str(value)[:40])
def test_what_is_no_connect_ends_with_its_reason(data: bytes, code: int) -> None:
    made, found = Decoder(), 0
    try:
        list(made.feed(data))
    except ProtocolError as error:
        found = error.code
    assert found == code


def test_a_packet_larger_than_the_limit_is_refused_before_it_has_come() -> None:
    made = Decoder(limit=100)
    list(made.feed(mqtt.connect()))
    with pytest.raises(ProtocolError, match="101 bytes; 100 are allowed"):
        list(made.feed(mqtt.publish("t", bytes(98))[:10]))


@pytest.mark.parametrize("size", [1, 100, 124, 125, 126, 127, 128, 200, 1000, 16_000])
@pytest.mark.parametrize("version", [4, 5])
def test_equal_packets_of_any_length_below_16_kib_are_one_run(size: int, version: int) -> None:
    data = mqtt.publish("t", bytes(size), version=version) * 3
    run, end = read_publications(data, 0, len(data), version, 1 << 20)
    assert run is not None
    assert ([*map(len, run.payloads)], end) == ([size] * 3, len(data))
