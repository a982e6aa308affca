"""Types of topics: what is announced, fetched, compared and told, and readers of typed messages, without a network."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import glue
import glue.aio.typed
import glue.sync.typed
from glue import schema
from glue.contract import Delivery, Publication, Subscribe, Unsubscribe
from glue.endpoint import typed
from glue.endpoint.typed import SCHEMA, Types, check_typed, check_untyped
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType, adapter_of, type_interest


@dataclass
class Reading:
    celsius: float


@dataclass
class Level:
    litres: int


READING, LEVEL = adapter_of(Reading), adapter_of(Level)
THERE = AnnouncedType(PUBLISH, LEVEL.name, LEVEL.hash, "t/+")


def changed(**fields: str) -> AnnouncedType:
    """What is announced there, with other fields."""
    return AnnouncedType(**{"way": PUBLISH, "name": LEVEL.name, "hash": LEVEL.hash, "pattern": "t/+", **fields})


class Side:
    """The typed topics of one endpoint, with what it asks and tells."""

    def __init__(self, counts: bool = True, has_callback: bool = True, is_aio: bool = False) -> None:
        self.asked: list[Any] = []
        self.told: list[glue.Mismatch] = []
        self.counted: Counter[str] = Counter()
        self.statistics: Counter[str] = Counter()
        self.peers: list[tuple[str, AnnouncedType]] = []
        self.published: list[Any] = []
        owner: Any = SimpleNamespace(
            settled=lambda outcome, count: self.counted.update({outcome: count}),
            handled=lambda delivery: self.counted.update(done=1),
        )
        core: Any = SimpleNamespace(
            requests=SimpleNamespace(
                lock=nullcontext(), unix_time=lambda: 5000.0, name_of=lambda peer: f"{peer}'s name"
            ),
            types=SimpleNamespace(directory=self.peers, tell=None), outbox=SimpleNamespace(order=self.asked.append),
            statistics=self.statistics,
        )  # fmt: skip

        def tell(mismatch: glue.Mismatch) -> bool:
            self.told.append(mismatch)
            return has_callback

        self.core = core
        self.types = Types(core, owner, self.asked.append, tell, counts)
        self.module: Any = glue.aio.typed if is_aio else glue.sync.typed
        self.handler: Any = None

    def publish(self, topic: str, payload: Any, **options: Any) -> Any:
        self.published.append((topic, payload, options))
        return "receipt"

    def subscribe(self, pattern: str, handler: Any, **options: Any) -> Any:
        self.handler = handler
        return SimpleNamespace(pattern=pattern, options=options)

    def topic(self, kind: Any = Reading, pattern: str = "t/1", codec: str | None = None, writable: bool = False) -> Any:
        return self.module.Topic(self, self.types, pattern, kind, codec, writable)

    def fetched(self) -> list[str]:
        """The hashes of schemas that are fetched now."""
        found = [one.patterns[0] for one in self.asked if isinstance(one, Subscribe)]
        return [one.removeprefix(SCHEMA) for one in found if one.startswith(SCHEMA)]

    def give(self, hash: str, *payloads: Any) -> None:
        """A schema arrives."""
        receiver = self.types._receivers.get(hash)
        token: Any = receiver or next(
            one.token for one in self.asked if isinstance(one, Subscribe) and one.patterns[0] == SCHEMA + hash
        )
        token._deliver(Delivery(SCHEMA + hash, [*payloads], None, "b's name", "b", 1, 1, 0.0, True, (token,)))


def test_a_type_is_announced_once_for_each_way_with_its_schema() -> None:
    side = Side()
    topic = side.topic()
    for way in (PUBLISH, PUBLISH, SUBSCRIBE):
        side.types.announce(topic, way)
    document, *interests = side.asked
    assert isinstance(document, Publication)
    assert (document.topic, document.payloads, document.json) == (SCHEMA + READING.hash, [READING.document], True)
    assert (document.options.retain, document.published_at) == (True, 5000.0)
    assert document.length == len(READING.document)
    assert [one.patterns for one in interests] == [
        (type_interest(way, READING.name, READING.hash, "t/1"),) for way in (PUBLISH, SUBSCRIBE)
    ]
    assert side.types.announced == [
        (AnnouncedType(way, READING.name, READING.hash, "t/1"), READING.document) for way in (PUBLISH, SUBSCRIBE)
    ]
    side.asked.clear()
    topic.close()
    topic.close()
    assert [one.token for one in side.asked] == [one.token for one in interests]
    assert all(isinstance(one, Unsubscribe) for one in side.asked)
    assert (side.types.announced, topic.ways) == ([], {})
    side.types.announce(topic, PUBLISH)
    assert len(side.types.announced) == 1


def test_a_type_there_that_may_not_fit_is_fetched_and_told_at_once_or_later() -> None:
    side = Side()
    side.peers += [("b", THERE), ("c", changed(pattern="u/+")), ("d", changed(way=SUBSCRIBE))]
    topic = side.topic()
    side.types.announce(topic, SUBSCRIBE)
    assert side.fetched() == [LEVEL.hash]
    side.core.types.tell("e", THERE)
    side.core.types.tell("b", THERE)
    side.core.types.tell("f", changed(hash=READING.hash))
    assert side.fetched() == [LEVEL.hash]
    side.give(LEVEL.hash, orjson.loads(LEVEL.document))
    expected = tuple(schema.differences(orjson.loads(LEVEL.document), READING.schema))
    assert side.told == [
        glue.Mismatch("t/1", f"{peer}'s name", peer, READING.label, THERE.label, expected) for peer in ("b", "e")
    ]
    assert (side.statistics, side.counted) == ({"mismatched types": 2}, {"handled": 1, "done": 1})
    assert isinstance(side.asked[-1], Unsubscribe)
    side.give(LEVEL.hash, orjson.loads(LEVEL.document))
    assert len(side.told) == 2  # it is not waited for any more


def test_a_publisher_compares_its_schema_with_what_is_read_there() -> None:
    side = Side(counts=False, has_callback=False)
    side.types.announce(side.topic(), PUBLISH)
    side.core.types.tell("b", changed(way=SUBSCRIBE))
    side.give(LEVEL.hash, orjson.loads(LEVEL.document))
    expected = tuple(schema.differences(READING.schema, orjson.loads(LEVEL.document)))
    assert [one.differences for one in side.told] == [expected]
    assert side.counted == {"handled": 1}


def test_a_schema_that_is_not_what_its_hash_says_is_counted_and_the_next_is_taken() -> None:
    side = Side()
    side.types.announce(side.topic(), SUBSCRIBE)
    side.core.types.tell("b", THERE)
    side.give(LEVEL.hash, b"bytes", READING.schema, orjson.loads(LEVEL.document))
    assert side.statistics == {"malformed schemas": 2, "mismatched types": 1}
    assert side.counted == {"handled": 3, "done": 1}


def test_a_mismatch_without_a_callback_is_logged_but_not_for_each_message(caplog: pytest.LogCaptureFixture) -> None:
    side = Side(has_callback=False)
    topic = side.topic()
    side.types.announce(topic, SUBSCRIBE)
    side.core.types.tell("b", THERE)
    side.give(LEVEL.hash, orjson.loads(LEVEL.document))
    assert [record.getMessage() for record in caplog.records] == [str(side.told[0])]
    side.peers.append(("b", THERE))
    assert topic._typed(message({"litres": 1})) is None
    assert len(caplog.records) == 1
    assert (side.told[1].topic, side.told[1].peer, side.told[1].there) == ("t/1", "b's name", THERE.label)
    side.peers[:] = [("b", changed(way=SUBSCRIBE)), ("c", THERE)]
    topic._typed(message({"litres": 1}))
    assert side.told[2].there == ""
    assert side.statistics["typed messages that do not fit"] == 2


def message(payload: Any, topic: str = "t/1") -> glue.Message:
    return glue.Message(payload, 1, Delivery(topic, [payload], None, "b's name", "b", 1, 1, 0.0, False, ()))


def test_types_have_limits_on_what_they_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (typed.TOPICS, typed.FETCHING, typed.MET) == (1024, 256, 4096)
    monkeypatch.setattr(typed, "TOPICS", 2)
    side = Side()
    topics = [side.topic(pattern=f"t/{number}") for number in range(3)]
    for topic in topics[:2]:
        side.types.announce(topic, PUBLISH)
    side.types.announce(topics[0], SUBSCRIBE)
    with pytest.raises(glue.ConfigurationError) as caught:
        side.types.announce(topics[2], PUBLISH)
    assert str(caught.value) == f"<Topic 't/2' of {READING.label}>: 2 typed topics are open at this endpoint"
    topics[0].close()
    side.types.announce(topics[2], PUBLISH)


def test_so_many_schemas_are_fetched_and_pairs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "FETCHING", 2)
    side = Side()
    side.types.announce(side.topic(), SUBSCRIBE)
    for number, peer in enumerate("bcd"):
        side.core.types.tell(peer, changed(hash=f"{number}" * 8))
    assert [*side.types._receivers] == ["1" * 8, "2" * 8]  # the oldest went
    assert [getattr(one.token, "hash", "") for one in side.asked if isinstance(one, Unsubscribe)] == ["0" * 8]
    for peer in "efg":
        side.core.types.tell(peer, changed(hash="2" * 8))
    assert [peer for _, peer, _ in side.types._receivers["2" * 8].waiting] == ["d", "e"]


def test_a_full_table_of_compared_pairs_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed, "MET", 2)
    side = Side()
    side.types.announce(side.topic(), SUBSCRIBE)
    for peer in "bcbdb":
        side.core.types.tell(peer, THERE)
    assert [peer for _, peer, _ in side.types._receivers[LEVEL.hash].waiting] == ["b", "c", "d", "b"]


def test_options_of_topics_are_for_topics_that_have_them() -> None:
    check_untyped(None, False)
    for codec, writable in (("msgpack", False), (None, True)):
        with pytest.raises(glue.ConfigurationError) as caught:
            check_untyped(codec, writable)
        assert str(caught.value) == f"codec={codec!r}, writable={writable!r}: they are for a topic with a type"
    check_typed("msgpack", False, Reading)
    with pytest.raises(glue.ConfigurationError, match="codec 'none' is unknown"):
        check_typed("none", False, Reading)
    with pytest.raises(glue.ConfigurationError, match=r"writable=True is for arrays; .*Reading.* is none"):
        check_typed(None, True, Reading)


# ---------------------------------------------------------------------------------------------------------- readers


def test_values_are_published_with_the_codec_of_the_topic() -> None:
    side = Side()
    topic = side.topic(pattern="t/+")
    assert topic.type == READING.label
    assert topic.publish(Reading(1.5), "t/1", retain=True) == "receipt"
    assert side.published == [("t/1", READING.encode(Reading(1.5)), {"codec": None, "retain": True})]
    side.topic(codec="msgpack").publish(Reading(1.5))
    assert side.published[1] == ("t/1", {"celsius": 1.5}, {"codec": "msgpack"})
    assert len(side.types.announced) == 2


class Received:
    """A subscription with payloads that wait, for both kinds of endpoints."""

    def __init__(self, *payloads: Any) -> None:
        self.left = [message(payload) for payload in payloads]
        self.timeouts: list[Any] = []
        self.is_closed = 0

    def get(self, timeout: float | None) -> glue.Message:
        self.timeouts.append(timeout)
        return self.left.pop(0)

    def __next__(self) -> glue.Message:
        return self.left.pop(0)

    def close(self) -> None:
        self.is_closed += 1


class Awaited(Received):
    async def get(self, timeout: float | None) -> glue.Message:  # type: ignore[override]
        return super().get(timeout)

    async def __anext__(self) -> glue.Message:
        return super().__next__()


PAYLOADS = [{"litres": 1}, {"celsius": 1.5}, {"litres": 2}, {"celsius": 2.5}]


def test_a_reader_gets_values_and_leaves_out_what_is_none() -> None:
    side, received = Side(), Received(*PAYLOADS)
    there: Any = received
    with glue.sync.typed.TypedSubscription(there, side.topic()._typed) as reader:
        assert iter(reader) is reader
        assert reader.get(5.0).value == Reading(1.5)
        found = next(reader)
    assert (found.value, found.topic, found.publisher) == (Reading(2.5), "t/1", "b's name")
    assert repr(found) == "<TypedMessage t/1 from b's name: Reading(celsius=2.5)>"
    assert (received.timeouts, received.is_closed) == ([5.0, 5.0], 1)
    assert [one.message.payload for one in side.told if one.message] == [{"litres": 1}, {"litres": 2}]


def test_an_asyncio_reader_gets_values_and_leaves_out_what_is_none() -> None:
    async def main() -> None:
        side, received = Side(is_aio=True), Awaited(*PAYLOADS)
        there: Any = received
        async with glue.aio.typed.TypedSubscription(there, side.topic()._typed) as reader:
            assert aiter(reader) is reader
            assert (await reader.get(5.0)).value == Reading(1.5)
            assert (await anext(reader)).value == Reading(2.5)
        assert (received.timeouts, received.is_closed) == ([5.0, 5.0], 1)
        reader.close()
        assert received.is_closed == 2

    asyncio.run(main())


@pytest.mark.parametrize("is_aio", [False, True])
def test_a_handler_is_called_with_values_alone_and_the_context_closes_the_topic(is_aio: bool) -> None:
    side = Side(is_aio=is_aio)
    got: list[Any] = []
    with side.topic() as topic:
        topic.subscribe(lambda message: got.append(message.value), limit=5)
        side.handler(message({"litres": 1}))
        side.handler(message({"celsius": 1.5}))
        assert [announced.way for announced, _ in side.types.announced] == [SUBSCRIBE]
    assert (got, side.types.announced) == ([Reading(1.5)], [])
    assert topic.subscribe().subscription.pattern == "t/1"
    assert side.handler is None


def test_a_typed_topic_that_is_closed_takes_back_its_offer_once() -> None:
    side, ended = Side(), list[str]()
    topic = side.topic()
    topic._offer = SimpleNamespace(close=lambda: ended.append("offer"))
    topic.close()
    topic.close()
    assert (ended, side.types.announced) == (["offer"], [])


def test_a_coroutine_that_handles_values_is_awaited() -> None:
    async def main() -> None:
        side = Side(is_aio=True)
        got: list[Any] = []

        async def handle(message: glue.TypedMessage[Reading]) -> None:
            await asyncio.sleep(0)
            got.append(message.value)

        side.topic().subscribe(handle)
        await side.handler(message({"litres": 1}))
        await side.handler(message({"celsius": 1.5}))
        assert got == [Reading(1.5)]

    asyncio.run(main())


def test_a_writable_array_is_a_copy() -> None:
    numpy = pytest.importorskip("numpy")
    side = Side()
    for writable in (False, True):
        topic = side.topic(numpy.ndarray, writable=writable)
        array = numpy.arange(3)
        array.setflags(write=False)
        found = topic._typed(message(array))
        assert found.value.flags.writeable is writable
