"""Properties and codecs between endpoints, in virtual time."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from glue import ConfigurationError, Gap, PayloadError
from glue.codecs import registry
from glue.contract import Metadata, Options, Publication
from glue.simulation import SimulatedEndpoint, World

ALL = {f"name {number}": "é" * 50 for number in range(64)}


class Reversed:
    name = "reversed"

    def encode(self, value: str) -> bytes:
        return value[::-1].encode()

    def decode(self, data: bytes | memoryview) -> str:
        return bytes(data).decode("ascii")[::-1]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {"reversed": Reversed()})


def pair() -> tuple[World, SimulatedEndpoint, SimulatedEndpoint]:
    world = World()
    one, other = world.endpoint("one"), world.endpoint("other")
    assert world.run_until(lambda: one.peers and other.peers, 5)
    return world, one, other


def test_properties_arrive_with_their_message_and_with_no_other() -> None:
    world, one, other = pair()
    heard, own = other.subscribe("t"), one.subscribe("t")
    world.run(0.1)
    for properties in (None, {"a": "1"}, {"a": "1"}, {"a": "2"}, {}, ALL):
        one.publish("t", b"x", properties=properties)
    one.publish("t", {"json": 1}, properties={"content-type": "application/json"})
    world.run(1)
    for received in (heard.received, own.received):
        told = [dict(message.properties) for message in received]
        assert told == [{}, {"a": "1"}, {"a": "1"}, {"a": "2"}, {}, ALL, {"content-type": "application/json"}]
    with pytest.raises(TypeError):
        heard.received[1].properties["a"] = "3"  # type: ignore[index]


def test_a_later_change_of_the_mapping_changes_no_message() -> None:
    world, one, other = pair()
    heard, properties = other.subscribe("t"), {"a": "1"}
    world.run(0.1)
    one.publish("t", b"x", properties=properties)
    properties["a"] = "2"
    world.run(1)
    assert dict(heard.received[0].properties) == {"a": "1"}


def test_a_late_joiner_gets_the_properties_and_the_codec_of_a_retained_value() -> None:
    world, one, other = pair()
    one.publish("t", "abc", retain=True, properties={"a": "1"}, codec="reversed")
    world.run(1)
    late = other.subscribe("t")
    world.run(1)
    again = other.subscribe("t")  # from what this endpoint remembers
    world.run(1)
    for subscription in (late, again):
        (message,) = subscription.received
        assert (message.payload, message.codec, message.encoded) == ("abc", "reversed", b"cba")
        assert (dict(message.properties), message.retained) == ({"a": "1"}, True)


@pytest.mark.parametrize(
    "properties",
    [
        {"a": 1}, {1: "a"}, {"": "a"}, {"a": "x" * 8192}, {str(number): "" for number in range(65)}, ["a"], "ab",
        {"a": "\ud800"},
    ],
)  # fmt: skip
def test_properties_that_cannot_travel_raise(properties: Any) -> None:
    _, one, _ = pair()
    with pytest.raises(ConfigurationError, match="properties="):
        one.publish("t", b"x", properties=properties)


def test_a_payload_that_a_codec_refuses_raises_and_an_unknown_codec_too() -> None:
    _, one, _ = pair()
    with pytest.raises(PayloadError, match="cannot encode a int"):
        one.publish("t", 7, codec="reversed")
    for codec in ("none such", 7, None.__class__):
        with pytest.raises(ConfigurationError, match="codec"):
            one.publish("t", "x", codec=codec)  # type: ignore[arg-type]


def test_a_codec_that_is_not_there_is_a_gap_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    world, one, other = pair()
    gaps: list[Gap] = []
    other.on_gap = gaps.append
    heard = other.subscribe("#")
    world.run(0.1)
    for tag in ("theirs", 999, "theirs", 999):
        forge(one, Metadata(None, tag))
    one.publish("t", b"last")
    with caplog.at_level(logging.ERROR):
        world.run(1)
    assert [message.payload for message in heard.received] == [b"last"]
    assert [(gap.cause, gap.topic, gap.publisher) for gap in gaps] == [("unknown codec", "t", "one")] * 4
    assert other.statistics["endpoint"]["messages dropped: unknown codec"] == 4
    assert other.accounting.missed["unknown codec"] == 4
    assert [("'theirs'" in text, "'999'" in text) for text in caplog.messages] == [(True, False), (False, True)]


def test_a_payload_that_the_codec_refuses_is_a_gap_between_its_neighbours() -> None:
    world, one, other = pair()
    gaps: list[Gap] = []
    other.on_gap = gaps.append
    heard = other.subscribe("t")
    world.run(0.1)
    forge(one, Metadata({"a": "1"}, "reversed"), b"one", b"\xff", b"two", b"three")
    world.run(1)
    assert [(message.sequence, message.payload, message.encoded) for message in heard.received] == [
        (1, "eno", b"one"), (3, "owt", b"two"), (4, "eerht", b"three"),
    ]  # fmt: skip
    assert [(gap.cause, gap.count) for gap in gaps] == [("malformed payload", 1)]


def test_properties_count_towards_what_a_slow_reader_may_hold() -> None:
    world = World()
    one, other = world.endpoint("one"), world.endpoint("other", receive_limit=1 << 20)
    slow = other.subscribe("t", handling_time=0.01)
    assert world.run_until(lambda: one.subscribers("t"), 5)
    for number in range(1000):
        one.publish("t", b"", properties={"n": str(number), "long": "x" * 8000})
        world.run(0.001)
    assert other.statistics["endpoint"]["senders stopped"] > 0
    world.run(60)
    assert len(slow.received) == 1000


def forge(endpoint: SimulatedEndpoint, metadata: Metadata, *payloads: bytes) -> None:
    """Publish what `publish` would refuse."""
    world_clock = endpoint.host.unix_time
    wish = Publication("t", list(payloads or (b"x",)), world_clock, options=Options(metadata=metadata))
    endpoint._order(wish)
