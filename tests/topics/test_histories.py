"""Random histories of three endpoints: each subscription hears exactly what a few lines of model say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from glue.contract import Subscribe, Unsubscribe
from tests.topics.parties import Wire, message

NAMES = ("ann", "bob", "cid")
PATTERNS = {"a": {"a"}, "b": {"b"}, "+": {"a", "b"}, "#": {"a", "b", "a/c"}, "a/#": {"a", "a/c"}}

names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("subscribe"), names, st.sampled_from(sorted(PATTERNS))),
    st.tuples(st.just("unsubscribe"), names, st.integers(0, 40)),
    st.tuples(st.just("publish"), names, st.sampled_from(["a", "b", "a/c"]), st.booleans(), st.booleans()),
)
Heard = tuple[str, int, str, str, bytes, bool]  # endpoint, token, publisher, topic, payload, retained


class Model:
    """What ought to be heard, on a wire that loses nothing and takes no time."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}
        self.subscribed: dict[tuple[str, int], str] = {}

    def subscribe(self, name: str, token: int, pattern: str) -> list[Heard]:
        self.subscribed[name, token] = pattern
        return [
            (name, token, publisher, topic, payload, True)
            for (publisher, topic), payload in self.kept.items()
            if topic in PATTERNS[pattern]
        ]

    def publish(self, name: str, topic: str, payload: bytes, retain: bool) -> list[Heard]:
        if retain and payload:
            self.kept[name, topic] = payload
        elif retain:
            self.kept.pop((name, topic), None)
        return [
            (endpoint, token, name, topic, payload, False)
            for (endpoint, token), pattern in self.subscribed.items()
            if topic in PATTERNS[pattern]
        ]


def heard_on(wire: Wire) -> Counter[Heard]:
    """Everything heard since the last time."""
    heard: Counter[Heard] = Counter()
    for name, events in wire.heard.items():
        for event in events:
            for payload in event.payloads:
                for token in event.tokens:
                    assert isinstance(token, int)
                    heard[name, token, event.publisher, event.topic, payload, event.retained] += 1
        wire.heard[name] = []
    return heard


@given(st.lists(steps, max_size=40))
def test_each_subscription_hears_each_message_once_and_the_last_values_when_it_begins(history: list[Any]) -> None:
    wire, model = Wire(*NAMES), Model()
    for number, (action, name, *rest) in enumerate(history):
        expected: list[Heard] = []
        if action == "subscribe":
            expected = model.subscribe(name, number, rest[0])
            wire.send(0.0, name, Subscribe(number, rest[0]))
        elif action == "unsubscribe":
            model.subscribed.pop((name, rest[0]), None)
            wire.send(0.0, name, Unsubscribe(rest[0]))
        else:
            topic, retain, clear = rest
            payload = b"" if clear else b"%d" % number
            expected = model.publish(name, topic, payload, retain)
            wire.send(0.0, name, message(topic, payload, retain=retain))
        assert heard_on(wire) == Counter(expected)
    assert all(not layer.backlog for layer in wire.layers.values())
