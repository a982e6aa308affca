"""Numbers of the MQTT specifications: versions, packet types, reason codes, and the error that carries one.

Sources: MQTT 3.1.1 (OASIS, 2014) and MQTT 5.0 (OASIS, 2019), section 2.4 for the reason codes.
"""

from __future__ import annotations

from typing import Final

V31, V311, V5 = 3, 4, 5
"""Protocol levels of MQTT 3.1 ("MQIsdp"), 3.1.1 and 5."""

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE = range(1, 9)
SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(9, 16)
"""Packet types: the upper four bits of a packet's first byte."""

WILL = 16
"""Not a packet: where the properties of a will stand."""

NAMES: Final = (
    "reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE",
    "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH", "will",
)  # fmt: skip

SUCCESS = 0x00
DISCONNECT_WITH_WILL = 0x04
NO_MATCHING_SUBSCRIBERS = 0x10
NO_SUBSCRIPTION_EXISTED = 0x11
UNSPECIFIED_ERROR = 0x80
MALFORMED_PACKET = 0x81
PROTOCOL_ERROR = 0x82
IMPLEMENTATION_ERROR = 0x83
UNSUPPORTED_VERSION = 0x84
CLIENT_ID_NOT_VALID = 0x85
BAD_CREDENTIALS = 0x86
NOT_AUTHORIZED = 0x87
SERVER_UNAVAILABLE = 0x88
SERVER_BUSY = 0x89
BANNED = 0x8A
SERVER_SHUTTING_DOWN = 0x8B
BAD_AUTHENTICATION_METHOD = 0x8C
KEEP_ALIVE_TIMEOUT = 0x8D
SESSION_TAKEN_OVER = 0x8E
TOPIC_FILTER_INVALID = 0x8F
TOPIC_NAME_INVALID = 0x90
PACKET_ID_IN_USE = 0x91
PACKET_ID_NOT_FOUND = 0x92
RECEIVE_MAXIMUM_EXCEEDED = 0x93
TOPIC_ALIAS_INVALID = 0x94
PACKET_TOO_LARGE = 0x95
MESSAGE_RATE_TOO_HIGH = 0x96
QUOTA_EXCEEDED = 0x97
PAYLOAD_FORMAT_INVALID = 0x99
RETAIN_NOT_SUPPORTED = 0x9A
QOS_NOT_SUPPORTED = 0x9B
USE_ANOTHER_SERVER = 0x9C
SERVER_MOVED = 0x9D
SHARED_NOT_SUPPORTED = 0x9E
WILDCARDS_NOT_SUPPORTED = 0xA2

LISTED: Final = {
    CONNACK: frozenset({SUCCESS, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F}),
    PUBACK: frozenset({SUCCESS, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    PUBREC: frozenset({SUCCESS, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    PUBREL: frozenset({SUCCESS, 0x92}),
    PUBCOMP: frozenset({SUCCESS, 0x92}),
    SUBACK: frozenset({SUCCESS, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    UNSUBACK: frozenset({SUCCESS, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    DISCONNECT: frozenset({SUCCESS, 4, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}),
    AUTH: frozenset({SUCCESS, 0x18, 0x19}),
}
"""The reason codes that each packet may have (MQTT 5.0, sections 3.2 to 3.15)."""

OF_CLIENTS: Final = LISTED | {
    PUBACK: LISTED[PUBACK] - {NO_MATCHING_SUBSCRIBERS},
    PUBREC: LISTED[PUBREC] - {NO_MATCHING_SUBSCRIBERS},
    DISCONNECT: frozenset({SUCCESS, 4, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)}),
    AUTH: frozenset({0x18, 0x19}),
}
"""Those of them that a client may send (sections 3.4.2.1, 3.5.2.1, 3.14.2.1, 3.15.2.1); only servers send the rest."""

OLD_CONNACK = {
    SUCCESS: 0,
    UNSUPPORTED_VERSION: 1,
    CLIENT_ID_NOT_VALID: 2,
    SERVER_UNAVAILABLE: 3,
    SERVER_BUSY: 3,
    BAD_CREDENTIALS: 4,
    NOT_AUTHORIZED: 5,
    BANNED: 5,
}
"""Return codes of a CONNACK of MQTT 3 (3.1.1, table 3.1) for reason codes; other reasons close without a CONNACK."""

LARGEST_PACKET = 268_435_455
"""Bytes after the fixed header that its four length bytes can say (3.1.1, section 2.2.3)."""


def listed(packet: int, code: int) -> int:
    """Return a reason code as this packet may have it: if it is not listed there, "unspecified error"."""
    return code if code in LISTED[packet] else UNSPECIFIED_ERROR


class ProtocolError(ValueError):
    """A client broke the protocol; `code` is the reason code of MQTT 5. Never leaves the gateway."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
