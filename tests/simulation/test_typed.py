"""Typed topics in virtual time: values arrive, and types that do not fit are told at both ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from glue import ConfigurationError, Mismatch, PayloadError, TopicError
from glue.contract import Options, Publication
from glue.simulation import SimulatedEndpoint, World


@dataclass
class Old:
    celsius: float


@dataclass
class New:
    celsius: float
    place: str = "?"


@dataclass
class Strict:
    celsius: float
    place: str


def party(*names: str) -> tuple[World, list[SimulatedEndpoint], dict[str, list[Mismatch]]]:
    """Endpoints that know each other, and the mismatches told to each."""
    world, told = World(), {}
    endpoints = [world.endpoint(name) for name in names]
    for endpoint in endpoints:
        told[endpoint.name] = list[Mismatch]()
        endpoint.on_mismatch = told[endpoint.name].append
    assert world.run_until(lambda: all(len(one.peers) == len(names) - 1 for one in endpoints), 5)
    return world, endpoints, told


def test_a_value_arrives_as_it_was_and_at_the_publisher_itself() -> None:
    world, (one, other), told = party("one", "other")
    far, near = (endpoint.topic("home/+/t", New).subscribe() for endpoint in (other, one))
    world.run(0.1)
    one.topic("home/+/t", New).publish(New(21.5, "kitchen"), "home/kitchen/t", properties={"a": "1"})
    world.run(1)
    for subscription in (far, near):
        (message,) = subscription.received
        assert (message.value, message.topic, message.publisher) == (New(21.5, "kitchen"), "home/kitchen/t", "one")
        assert message.message.properties["a"] == "1"
    assert told == {"one": [], "other": []}


@pytest.mark.parametrize(("writer", "reader"), [(Old, New), (New, Old), (Strict, New), (Strict, Old)])
def test_types_that_fit_are_no_event(writer: Any, reader: Any) -> None:
    world, (one, other), told = party("one", "other")
    heard = other.topic("t", reader).subscribe()
    world.run(0.1)
    value = writer(1.0) if writer is not Strict else Strict(1.0, "x")
    one.topic("t", writer).publish(value)
    world.run(1)
    assert [message.value.celsius for message in heard.received] == [1.0]
    assert told == {"one": [], "other": []}


@pytest.mark.parametrize("publisher_first", [True, False])
def test_types_that_do_not_fit_are_told_at_both_ends_once(publisher_first: bool) -> None:
    world, (one, other), told = party("one", "other")
    publishing = one.topic("home/t", Old)
    if publisher_first:
        publishing.publish(Old(0.0))
        world.run(1)
    heard = other.topic("home/+", Strict).subscribe()
    world.run(0.1)
    publishing.publish(Old(1.0))
    publishing.publish(Old(2.0))
    world.run(2)
    assert heard.received == []
    announced = {name: [m for m in mismatches if m.message is None] for name, mismatches in told.items()}
    difference = ("field 'place' is required here, and missing there",)
    (here,), (there,) = announced["other"], announced["one"]
    assert (here.topic, here.peer, here.differences) == ("home/+", "one", difference)
    assert (there.topic, there.peer, there.differences) == ("home/t", "other", difference)
    assert (here.here, here.there) == (there.there, there.here)
    unread = [mismatch for mismatch in told["other"] if mismatch.message is not None]
    assert [mismatch.message.payload for mismatch in unread if mismatch.message] == [{"celsius": 1.0}, {"celsius": 2.0}]
    assert unread[0].differences == ("Strict.place: required, and missing",)
    assert unread[0].there == here.there


def test_a_plain_message_on_a_typed_topic_is_told_with_the_message() -> None:
    world, (one, other), told = party("one", "other")
    heard = other.topic("t", Old).subscribe()
    world.run(0.1)
    for payload in (b"bytes", {"celsius": "warm"}, {"celsius": 1}):
        one.publish("t", payload)
    world.run(1)
    assert [message.value for message in heard.received] == [Old(1.0)]
    assert [mismatch.message.payload for mismatch in told["other"] if mismatch.message] == [
        b"bytes",
        {"celsius": "warm"},
    ]
    assert other.statistics["endpoint"]["typed messages that do not fit"] == 2


def test_forged_schemas_are_counted_and_dropped() -> None:
    world, (one, other), told = party("one", "other")
    other.topic("t", Strict).subscribe()
    one.topic("t", Old)._types.order(_schema(one, "0123abcd", b'{"type":"object"}'))
    one._order(_announcement("0123abcd"))
    world.run(1)
    assert told["other"] == []
    assert other.statistics["endpoint"]["malformed schemas"] > 0


def _schema(endpoint: SimulatedEndpoint, hash: str, document: bytes) -> Publication:
    return Publication(f"$glue/schema/{hash}", [document], endpoint.host.unix_time, True, options=Options(retain=True))


def _announcement(hash: str) -> Any:
    from glue.contract import Subscribe

    return Subscribe("forged", f"$glue/typed/publish/Old/{hash}/t")


def test_a_closed_topic_is_announced_no_more() -> None:
    world, (one, other), _ = party("one", "other")
    topic = one.topic("t", Old)
    topic.publish(Old(1.0))
    world.run(1)
    assert [told.label for _, told in other._core.types.directory] == [topic.type]
    topic.close()
    world.run(1)
    assert list(other._core.types.directory) == []


def test_mistakes_raise() -> None:
    _, (one,), _ = party("one")
    topic = one.topic("home/+", Old)
    with pytest.raises(TopicError, match="names the one"):
        topic.publish(Old(1.0))
    with pytest.raises(TopicError, match="does not match"):
        topic.publish(Old(1.0), "garden/x")
    with pytest.raises(PayloadError, match="expected a Old"):
        topic.publish({"celsius": 1.0}, "home/x")  # type: ignore[arg-type]
    with pytest.raises(TopicError):
        one.topic("$glue/x", Old)
    with pytest.raises(ConfigurationError, match="writable"):
        one.topic("t", Old, writable=True)
    with pytest.raises(ConfigurationError, match="codec"):
        one.topic("t", Old, codec="none such")
    with pytest.raises(ConfigurationError, match="expected a dataclass"):
        one.topic("t", int)


def test_another_codec_and_arrays() -> None:
    pytest.importorskip("msgpack")
    numpy = pytest.importorskip("numpy")
    world, (one, other), told = party("one", "other")
    heard = other.topic("t", New).subscribe()
    arrays = other.topic("a", numpy.ndarray, writable=True).subscribe()
    world.run(0.1)
    one.topic("t", New, codec="msgpack").publish(New(1.0))
    one.topic("a", numpy.ndarray).publish(numpy.arange(3))
    world.run(1)
    assert (heard.received[0].value, heard.received[0].message.codec) == (New(1.0), "msgpack")
    arrays.received[0].value[0] = 7
    assert arrays.received[0].value.tolist() == [7, 1, 2]
    assert told["other"] == []
