"""The properties of MQTT 5 as those of glue's messages, and the other way round; messages of glue as runs.

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
from collections.abc import Mapping, Sequence

import orjson

from glue.contract.metadata import fault_of_properties
from glue.endpoint.message import Message
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.properties import Properties

TEXTS = {"content_type": "content-type", "response_topic": "response-topic"}
CORRELATION = "correlation-data"
FROM_LOG = "mqtt-log"
"""A property that doors of a cluster set: other doors have the message from the log of the cluster."""


FROM_NETWORK_QOS = 2
"""QoS of what other endpoints publish: a client gets it with the QoS that it subscribed with."""


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


def run_of(messages: Sequence[Message]) -> Publish:
    """Messages of one publisher and topic as a run."""
    first = messages[0]
    payloads = [_bytes(message) for message in messages]
    run = Publish(first.topic, payloads, FROM_NETWORK_QOS, first.retained, for_clients(first.properties))
    run.expires = first.delivery.expires
    if run.expires != float("inf"):  # what is left is set when it is sent
        run.properties = {**(run.properties or {}), "message_expiry_interval": 0}
    return run


def _bytes(message: Message) -> bytes:
    """A payload for clients: bytes unchanged, other values as encoded by their codec, or as JSON."""
    if message.encoded is not None:
        return message.encoded
    return message.payload if isinstance(message.payload, bytes) else orjson.dumps(message.payload)
