"""Turn a group of messages into deliveries for the application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from glue.contract import CodedDelivery, Delivery
from glue.topics.bundle import KEPT, MessageGroup, decoded
from glue.topics.wrapped import is_wrapped, unwrapped

JSON_WEIGHT = 512
"""Bytes that a decoded JSON payload is taken to weigh beside its properties."""


def deliveries(
    statistics: Counter[str],
    group: MessageGroup,
    name: str,
    endpoint_id: str,
    incarnation: int,
    tokens: tuple[Hashable, ...],
    expires: float,
) -> list[Delivery]:
    """The deliveries of a group: usually one; payloads with malformed JSON are counted and split the group."""
    replayed = group.retain == KEPT
    at = group.at / 1e6
    type, topic = group.type, group.topic
    if not group.json:
        kind = Delivery if group.metadata is None or group.metadata.codec is None else CodedDelivery
        found = [kind(topic, group.payloads, type, name, endpoint_id, incarnation, group.sequence, at, replayed,
                      tokens, expires, group.length)]  # fmt: skip
    else:
        runs = decoded(group.payloads, group.sequence)
        missing = len(group.payloads) - sum(len(values) for _, values in runs)
        if missing:
            statistics["malformed JSON payload"] += missing
        found = [
            Delivery(topic, values, type, name, endpoint_id, incarnation, sequence, at, replayed, tokens, expires)
            for sequence, values in runs
        ]
    if group.metadata is not None:
        for delivery in found:
            _annotate(delivery, group)
    return found


def _annotate(delivery: Delivery, group: MessageGroup) -> None:
    """Set the metadata of a delivery, and count its properties for each message: each may be kept without the others.

    The properties of messages in one group are one object, so the weight errs on the safe side.
    """
    assert group.metadata is not None
    delivery.metadata = group.metadata
    properties = group.metadata.size
    if properties:
        average = JSON_WEIGHT if group.json else -(-group.size // len(group.payloads))
        delivery.length = average + properties


def unwrap(delivery: Delivery) -> Delivery:
    """Take the wrapping off a delivery's topic; any other delivery stays as it is."""
    if is_wrapped(delivery.topic):
        delivery.wrapped = delivery.topic
        delivery.topic = unwrapped(delivery.topic)
    return delivery
