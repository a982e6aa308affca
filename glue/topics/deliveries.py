"""Turn a group of messages into deliveries for the application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from glue.contract import Delivery
from glue.topics.bundle import KEPT, MessageGroup, decoded
from glue.topics.wrapped import is_wrapped, unwrapped


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
        return [Delivery(topic, group.payloads, type, name, endpoint_id, incarnation, group.sequence, at, replayed,
                         tokens, expires, group.length)]  # fmt: skip
    runs = decoded(group.payloads, group.sequence)
    missing = len(group.payloads) - sum(len(values) for _, values in runs)
    if missing:
        statistics["malformed JSON payload"] += missing
    return [
        Delivery(topic, values, type, name, endpoint_id, incarnation, sequence, at, replayed, tokens, expires)
        for sequence, values in runs
    ]


def unwrap(delivery: Delivery) -> Delivery:
    """Take the wrapping off a delivery's topic; any other delivery stays as it is."""
    if is_wrapped(delivery.topic):
        delivery.wrapped = delivery.topic
        delivery.topic = unwrapped(delivery.topic)
    return delivery
