"""Lone messages take an express way up, too; what comes of them must be what the long way makes of them."""

from __future__ import annotations

import weakref
from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Event, Inbound, Missed, PeerAdded, Subscribe, Unsubscribe, Upward
from glue.topics import Topics
from glue.topics.bundle import MessageGroup, encode
from glue.topics.plain import PLAIN_INDEX_PATTERN, PlainBundles
from tests.topics.parties import added, endpoint_id, removed, topics

TOPICS = ("a", "room/1", "room/2", 'b/"quoted"', "c/\u00e9", "c/\ufffd")
KINDS: tuple[dict[str, Any], ...] = (
    *[{}] * 20, {"json": True}, {"type": "t"}, {"retain": 1}, {"retain": 2}, {"lifespan_ms": 5000}, {"position": 1},
)  # fmt: skip
SPLICES = (b"0", b"9", b"-1", b".", b"e1", b" ", b",", b'"', b"\\u0061", b"]", b'"json":1', b"\n", b"\xff", b"\xc3")


def told(up: list[Event]) -> list[tuple[Any, ...]]:
    """Everything that is to be seen of what goes up."""
    return [
        (item.__class__, *[0.0 if slot == "age" else getattr(item, slot, None) for slot in item.__slots__])
        for item in up
        if isinstance(item, Delivery | Missed)
    ]


def body(rng: Random, numbers: dict[str, int]) -> bytes:
    """A lone message, mostly the next one of its topic; its parts are a real bundle's."""
    topic = rng.choice(TOPICS)
    jump = rng.choice((1,) * 30 + (0, 2, -5))
    numbers[topic] = sequence = max(1, numbers.get(topic, 0) + jump)
    payload = rng.choice((b"", b"1", b"{}", b"not JSON", rng.randbytes(20)))
    at = rng.choice((1_700_000_000_000_000,) * 9 + (0, -5, 2**53 - 1, 2**53))
    options = rng.choice(KINDS)
    group = MessageGroup(topic, sequence, at, [payload], len(payload), **options)
    return encode([group])


def changed(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(SPLICES) + data[at + rng.choice((0, 1, 1, 2)) :]


def inbound(peer: str, data: bytes, incarnation: int, is_reliable: bool) -> Inbound:
    return Inbound(endpoint_id(peer), incarnation, ("127.0.0.1", 1), {}, [data], 0.5, is_reliable)


def otherwise(data: bytes) -> bytes:
    """The same in the hand of another writer, for whom there is no express way."""
    return data.replace(b"{", b"{ ", 1) if data.startswith(b"{") else data


def change(rng: Random, layers: tuple[Topics, Topics], now: float) -> None:
    """Now and then something changes about the subscriptions or the peers."""
    choice = rng.randrange(40)
    pattern = rng.choice((*TOPICS, "room/+", "#"))
    news: list[Upward] = []
    if choice == 0:
        news = [removed("ann"), added("ann", rng.randrange(1, 3))]
    elif choice == 1:
        news = [PeerAdded(endpoint_id("bob"), 1, rng.choice(("bob", "rob")), ("127.0.0.1", 1))]
    for layer in layers:
        if choice == 2:
            layer.send(now, [Subscribe("late", pattern)])
        elif choice == 3:
            layer.send(now, [Unsubscribe("late")])
        layer.receive(now, news)


@pytest.mark.parametrize("seed", range(20))
def test_a_lone_message_is_taken_as_one_written_otherwise(seed: int) -> None:
    rng = Random(seed)
    layers = express, long_way = topics(), topics()
    pattern = rng.choice(("#", "room/+"))
    for layer in layers:
        layer.receive(0.0, [added("ann"), added("bob")])
        layer.send(0.0, [Subscribe("first", pattern)])
    numbers: dict[str, dict[str, int]] = {"ann": {}, "bob": {}}
    for step in range(400):
        now = step / 100
        change(rng, layers, now)
        peer = rng.choice(("ann", "ann", "bob"))
        data = body(rng, numbers[peer])
        if rng.random() < 0.2:
            data = changed(rng, data)
        item = peer, rng.choice((1,) * 20 + (2,)), rng.random() < 0.95
        up, _ = express.receive(now, [inbound(item[0], data, *item[1:])])
        as_well, _ = long_way.receive(now, [inbound(item[0], otherwise(data), *item[1:])])
        assert told(up) == told(as_well), data
    assert express.statistics == long_way.statistics
    assert express.statistics["messages received"] > 20


def test_bytes_that_are_no_utf_8_are_no_topic_however_well_the_rest_fits() -> None:
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe("all", "#")])
    good = b'{"groups":[{"topic":"caf\xc3\xa9","sequence":%d,"at":1,"length":1}]}\nx'
    (first,), _ = layer.receive(0.0, [inbound("ann", good % 1, 1, True)])
    assert isinstance(first, Delivery)
    assert layer.receive(0.0, [inbound("ann", (good % 2).replace(b"\xa9", b""), 1, True)]) == ([], [])
    assert layer.statistics["malformed bundle: index is not JSON"] == 1


def test_a_subscription_that_has_ended_is_not_kept_by_what_it_heard() -> None:
    class Handler:
        """Of a subscription: with all that it holds on to."""

    layer, handler = topics(), Handler()
    last = weakref.ref(handler)
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe(handler, "job/1")])
    for number in range(1, 4):
        data = encode([MessageGroup("job/1", number, 1, [b"x"], 1)])
        assert layer.receive(0.0, [inbound("ann", data, 1, True)])[0]
    layer.send(0.0, [Unsubscribe(handler)])
    del handler
    assert last() is None


def test_the_ways_of_streams_take_no_more_than_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainBundles, "LIMIT", 10)
    layer = topics()
    layer.receive(0.0, [added("ann")])
    layer.send(0.0, [Subscribe("all", "#")])
    for number in (1, 2):
        for topic in range(100):
            data = encode([MessageGroup(f"t/{topic}", number, 1, [b"x"], 1)])
            assert layer.receive(0.0, [inbound("ann", data, 1, True)])[0]
    assert 0 < len(layer.plain_bundles._recipients) <= 10


@pytest.mark.parametrize("part", ["topic", "sequence", "at", "length"])
def test_a_huge_message_that_begins_like_a_lone_one_is_not_read_to_its_end(part: str) -> None:
    longest = {"topic": 65_535, "sequence": 16, "at": 16, "length": 16}
    for excess in (0, 1):
        values = [b"1" * (size + excess if name == part else 1) for name, size in longest.items()]
        index = b'{"groups":[{"topic":"%b","sequence":%b,"at":%b,"length":%b}]}\n' % tuple(values)
        assert bool(PLAIN_INDEX_PATTERN.match(index)) is not bool(excess)
