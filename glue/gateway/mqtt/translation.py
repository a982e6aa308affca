"""The properties of MQTT 5 as the properties of glue's messages, and the other way round.

    MQTT 5                      glue
    content_type                content-type
    response_topic              response-topic
    correlation_data            correlation-data, in base64
    user_property NAME VALUE    NAME

Of several user properties with the same name the last counts. Properties of one connection alone are not passed on. A
message expiry interval is a lifespan.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping

from glue.contract.metadata import fault_of_properties
from glue.gateway.mqtt.properties import Properties

TEXTS = {"content_type": "content-type", "response_topic": "response-topic"}
CORRELATION = "correlation-data"
FROM_LOG = "mqtt-log"
"""A property that doors of a cluster set: other doors have the message from the log of the cluster."""


def for_network(properties: Properties | None) -> tuple[dict[str, str] | None, bool]:
    """The properties that a client's message has in glue, None for none; and whether they were too large."""
    if not properties:
        return None, False
    found = {name: value for name, value in properties.get("user_property", ()) if name}
    found |= {name: properties[own] for own, name in TEXTS.items() if own in properties}
    if "correlation_data" in properties:
        found[CORRELATION] = b64encode(properties["correlation_data"]).decode()
    if fault_of_properties(found):
        return None, True
    return found or None, False


def for_clients(properties: Mapping[str, str]) -> Properties | None:
    """The properties that a message of glue has at clients of MQTT 5, None for none."""
    if not properties:
        return None
    found: Properties = {}
    pairs = []
    for name, value in properties.items():
        if name == FROM_LOG:
            continue
        if name == CORRELATION:
            try:
                found["correlation_data"] = b64decode(value, validate=True)
            except (Base64Error, ValueError):
                pairs.append((name, value))
        elif name == "content-type":
            found["content_type"] = value
        elif name == "response-topic" and value and not set(value) & set("+#\0"):
            found["response_topic"] = value
        else:
            pairs.append((name, value))
    if pairs:
        found["user_property"] = pairs
    return found
