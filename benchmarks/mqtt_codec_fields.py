"""Tells what different codecs have read in one form, so that it can be compared: dictionaries of plain values.

Bytes are strings of the characters U+0000 to U+00FF. Properties have the door's names. Properties that have the value
which stands for their absence are left out, because `mqtt5` does not tell one from the other.
"""

from __future__ import annotations

import re
from typing import Any

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.packets import (
    Acknowledgement,
    Auth,
    Connect,
    Disconnect,
    Packet,
    Publish,
    Subscribe,
    Unsubscribe,
)

Fields = dict[str, Any]

ABSENT = {
    "session_expiry_interval": 0, "will_delay_interval": 0, "payload_format_indicator": 0, "topic_alias_maximum": 0,
    "request_problem_information": 1, "request_response_information": 0, "receive_maximum": 65_535, "maximum_qos": 2,
    "retain_available": 1, "wildcard_subscription_available": 1, "subscription_identifier_available": 1,
    "shared_subscription_available": 1, "user_property": [], "subscription_identifier": [],
}  # fmt: skip
"""What a property means where it is not there."""
MQTT5_NAMES = {
    "request_problem_info": "request_problem_information", "request_response_info": "request_response_information",
    "receive_max": "receive_maximum", "topic_alias_max": "topic_alias_maximum", "user_properties": "user_property",
    "max_packet_size": "maximum_packet_size", "subscription_ids": "subscription_identifier", "max_qos": "maximum_qos",
    "subscription_id": "subscription_identifier", "subscription_id_available": "subscription_identifier_available",
    "reason_str": "reason_string", "assigned_client_id": "assigned_client_identifier", "packet_id": "id",
    "response_info": "response_information", "reason_code": "code", "duplicate": "dup", "clean_start": "clean",
}  # fmt: skip
MQTT_PACKET_NAMES = {
    "user_properties": "user_property", "maximum_qo_s": "maximum_qos", "protocol_version": "version",
    "subscription_identifiers_available": "subscription_identifier_available", "message_id": "id",
    "granted": "codes", "keepalive": "keep_alive", "reason_code": "code", "return_code": "code",
    "unsubscriptions": "filters",
}  # fmt: skip
_OF_PUBLISH = ("qos", "dup", "retain")


def latin(value: Any) -> Any:
    """Bytes as a string; any other value as it is."""
    return str(value, "latin1") if isinstance(value, bytes | bytearray) else value


def plain(properties: Fields | None) -> Fields:
    """Properties in the common form."""
    found = {name: latin(value) for name, value in (properties or {}).items()}
    if "user_property" in found:
        found["user_property"] = [list(pair) for pair in found["user_property"]]
    return {name: value for name, value in found.items() if value is not None and value != ABSENT.get(name)}


def of_glue(packet: Packet) -> Fields:
    """The fields that the door's decoder has read; for a run, those of the first packet."""
    if isinstance(packet, Publish):
        found = {name: getattr(packet, name) for name in ("topic", *_OF_PUBLISH)}
        found |= {"kind": codes.PUBLISH, "payload": latin(packet.payloads[0])} | _numbered(packet.ids)
    elif isinstance(packet, Acknowledgement):
        found = {"kind": packet.kind, "code": packet.code} | _numbered(packet.ids)
    elif isinstance(packet, Connect):
        found = {name: latin(getattr(packet, name)) for name in ("version", "client_id", "clean", "keep_alive")}
        found |= {
            name: latin(getattr(packet, name)) for name in ("username", "password") if getattr(packet, name) is not None
        }
        found["kind"] = codes.CONNECT
        if packet.will is not None:
            will = packet.will
            found["will"] = {
                "topic": will.topic,
                "payload": latin(will.payload),
                "qos": will.qos,
                "retain": will.retain,
            }
            found["will"]["properties"] = plain(will.properties)
    elif isinstance(packet, Subscribe):
        rows = [
            [one.filter, one.qos, one.no_local, one.retain_as_published, one.retain_handling] for one in packet.wanted
        ]
        found = {"kind": codes.SUBSCRIBE, "id": packet.id, "filters": rows}
    elif isinstance(packet, Unsubscribe):
        found = {"kind": codes.UNSUBSCRIBE, "id": packet.id, "filters": packet.filters}
    elif isinstance(packet, Disconnect | Auth):
        found = {"kind": codes.NAMES.index(type(packet).__name__.upper()), "code": packet.code}
    else:
        found = {"kind": codes.PINGREQ}
    return found | {"properties": plain(getattr(packet, "properties", None))}


def _numbered(ids: Any) -> Fields:
    return {"id": ids[0]} if ids else {}


def of_mqtt5(packet: Any) -> Fields:
    """Return the fields of a packet of `mqtt5`."""
    kind = codes.NAMES.index(type(packet).__name__.removesuffix("Packet").upper())
    found = {
        MQTT5_NAMES.get(name, name): getattr(packet, name) for name in dir(packet) if name[0] != "_" and name != "write"
    }
    will = found.pop("will", None)
    if "topic_filters" in found:
        rows = found.pop("topic_filters")
        found["filters"] = [
            [one.pattern, one.max_qos, one.no_local, one.retain_as_published, one.retain_handling] for one in rows
        ]
        if found["subscription_identifier"] is not None:
            found["subscription_identifier"] = [found["subscription_identifier"]]
    if "patterns" in found:
        found["filters"] = found.pop("patterns")
    if "reason_codes" in found:
        found["codes"] = found.pop("reason_codes")
    if will is not None:
        found["will"] = _sorted(0, {name: getattr(will, name) for name in dir(will) if name[0] != "_"})
        found["will"]["payload"] = found["will"].get("payload", "")
        del found["will"]["kind"]
    if kind == codes.CONNECT:
        found["version"] = codes.V5
    return _sorted(kind, found)


_FIELDS = {
    "kind", "version", "client_id", "clean", "keep_alive", "username", "password", "will", "topic", "payload", "qos",
    "retain", "dup", "id", "code", "codes", "filters", "session_present",
}  # fmt: skip


def _sorted(kind: int, values: Fields) -> Fields:
    """Fields, and the properties among them in a dictionary of their own."""
    values = {MQTT5_NAMES.get(name, name): value for name, value in values.items() if value is not None}
    found = {name: latin(value) for name, value in values.items() if name in _FIELDS}
    found |= {"kind": kind, "properties": plain({name: values[name] for name in values.keys() - _FIELDS})}
    return found


def of_mqtt_packet(packet: Fields) -> Fields:
    """Return the fields of a packet of `mqtt-packet`."""
    kind = codes.NAMES.index(packet["cmd"].upper())
    found = {_snake(name): value for name, value in packet.items() if value is not None}
    found = {name: value for name, value in found.items() if name in _FIELDS}
    if kind != codes.PUBLISH:
        for name in _OF_PUBLISH:
            found.pop(name, None)
    if kind not in (codes.CONNECT, codes.PUBLISH):
        for name in ("topic", "payload"):
            found.pop(name, None)
    if "subscriptions" in packet:
        found["filters"] = [
            [one["topic"], one["qos"], one.get("nl", False), one.get("rap", False), one.get("rh", 0)]
            for one in packet["subscriptions"]
        ]
    if kind in range(codes.PUBACK, codes.SUBSCRIBE) or kind == codes.DISCONNECT:
        found.setdefault("code", 0)
    if "will" in packet:
        will = packet["will"]
        found["will"] = {name: value for name, value in will.items() if name != "properties"}
        found["will"]["properties"] = _properties(will.get("properties"))
    return found | {"kind": kind, "properties": _properties(packet.get("properties"))}


def _snake(name: str) -> str:
    name = re.sub("[A-Z]", lambda match: "_" + match[0].lower(), name)
    return MQTT_PACKET_NAMES.get(name, name)


def _properties(found: Fields | None) -> Fields:
    """Properties of `mqtt-packet`: its user properties are values by name."""
    named = {_snake(name): int(value) if isinstance(value, bool) else value for name, value in (found or {}).items()}
    user = named.pop("user_property", {})
    numbers = named.pop("subscription_identifier", [])
    named["subscription_identifier"] = numbers if isinstance(numbers, list) else [numbers]
    return plain(named) | ({"user_property": user} if user else {})


def by_name(fields: Fields) -> Fields:
    """Fields with user properties as `mqtt-packet` has them: without their order among different names."""
    if "properties" not in fields:
        return fields
    properties = fields["properties"]
    if "user_property" in properties:
        user: dict[str, Any] = {}
        for name, value in properties["user_property"]:
            user.setdefault(name, []).append(value)
        merged = {name: values if len(values) > 1 else values[0] for name, values in user.items()}
        properties = properties | {"user_property": merged}
    found = fields | {"properties": properties}
    if "will" in found:
        found["will"] = by_name(found["will"])
    return found
