"""What a subscription does when its reader is slow: each policy, with each kind of endpoint."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import glue
import glue.aio
from glue.contract import Delivery, Missed
from glue.endpoint.message import Message
from glue.endpoint.options import Policy
from glue.endpoint.queues import MessageBuffer, waiting_room
from glue.simulation import SimulatedEndpoint, World
from tests.support.event_loop import pair as aio_pair
from tests.support.event_loop import run
from tests.support.lan import PATIENCE, Ear, Lan, listen

# ------------------------------------------------------------------------------------------ a buffer alone


class Book:
    """Remembers what became of messages."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def handled(self, delivery: Delivery) -> None:
        pass

    def settled(self, outcome: str, count: int) -> None:
        self.outcomes[outcome] += count


def buffer(policy: str, limit: int, book: Book | None = None, bytes_limit: int = 1 << 20) -> MessageBuffer:
    room = waiting_room(policy, limit, bytes_limit, book or Book(), lambda: 0.0)
    assert isinstance(room, MessageBuffer)
    return room


def delivery(sequence: int, count: int, topic: str = "t", size: int = 1) -> Delivery:
    return Delivery(topic, [bytes(size)] * count, None, "ann", "1" * 16, 1, sequence, 0.0, False, ())


def taken(room: MessageBuffer) -> list[object]:
    """Sequences of messages, and (cause, count, topic) of gaps, in order."""
    found: list[object] = []
    while (item := room.take()) is not None:
        found.append(item.sequence if isinstance(item, Message) else (item.cause, item.count, item.topic))
    return found


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("drop_oldest", [("overwritten", 7, "t"), 8, 9, 10]),
        ("drop_newest", [1, 2, 3, ("refused", 7, "t")]),
        ("disconnect", [1, 2, 3, ("disconnected", 7, "t")]),
    ],
)
def test_what_is_dropped_is_told_in_its_place(policy: str, left: list[object]) -> None:
    book = Book()
    room = buffer(policy, 3, book)
    for sequence in (1, 3, 5, 7, 9):
        room.put(delivery(sequence, 2))
    assert taken(room) == left
    assert book.outcomes == {"handled": 3, str(room.cause): 7}


def test_gaps_between_two_messages_are_merged_by_cause() -> None:
    room = buffer("drop_newest", 1)
    room.put(delivery(1, 1, "a"))
    for number in range(1000):
        room.put(delivery(number + 1, 1, f"b/{number}"))
        room.put_gap(Missed("c", "ann", "1" * 16, 2, "not sent", ()))
    assert sorted(map(str, taken(room))) == ["('not sent', 2000, 'c')", "('refused', 1000, '')", "1"]


def test_gaps_are_kept_when_the_messages_around_them_are_overwritten() -> None:
    room = buffer("drop_oldest", 2)
    room.put(delivery(1, 1))
    room.put_gap(Missed("t", "ann", "1" * 16, 5, "not sent", ()))
    room.put(delivery(7, 3))
    assert taken(room) == [("overwritten", 2, "t"), ("not sent", 5, "t"), 8, 9]


def test_bytes_are_bounded_too_but_a_single_message_is_always_let_in() -> None:
    room = buffer("drop_oldest", 100, bytes_limit=10_000)
    room.put(delivery(1, 20, size=1000))
    room.put(delivery(21, 1, size=1_000_000))
    assert taken(room) == [("overwritten", 20, "t"), 21]
    room.put(delivery(22, 20, size=1000))
    assert taken(room) == [("overwritten", 11, "t"), *range(33, 42)]


# ---------------------------------------------------------------------------------------- in virtual time


def pair(world: World, **settings: Any) -> tuple[SimulatedEndpoint, SimulatedEndpoint]:
    one, other = world.endpoint("publisher"), world.endpoint("subscriber", **settings)
    assert world.run_until(lambda: one.peers and other.peers, 5)
    return one, other


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest", "disconnect"])
def test_a_slow_handler_never_blocks_the_publisher_and_what_it_misses_is_told(policy: Policy) -> None:
    world = World()
    publisher, subscriber = pair(world, receive_limit=100_000)
    told: list[glue.Gap | int] = []
    subscriber.on_gap = told.append
    slow = subscriber.subscribe("t", lambda m: told.append(m.sequence), handling_time=0.5, policy=policy, limit=4)
    prompt = subscriber.subscribe("t")
    world.run(0.1)
    for _ in range(1000):
        publisher.publish("t", bytes(10_000))
        world.run(0.01)
    assert world.run_until(lambda: publisher.backlog == 0, 1)
    assert subscriber.statistics["endpoint"]["senders stopped"] == 0
    assert len(prompt.received) == 1000
    assert slow.closed == (policy == "disconnect")
    publisher.publish("t", b"last")
    world.run(10)
    heard = 0
    for item in told:  # each gap is exactly what lies between its neighbours
        if isinstance(item, glue.Gap):
            assert (item.pattern, item.topic, item.publisher) == ("t", "t", "publisher")
            heard += item.count
        else:
            heard += 1
            assert item == heard
    outcomes = subscriber.statistics["endpoint"]
    if policy == "disconnect":
        assert outcomes["messages refused at disconnection"] == 1
        assert heard < 10
    else:
        assert heard == 1001
        assert 15 < sum(not isinstance(item, glue.Gap) for item in told) < 30
        assert outcomes["messages overwritten"] + outcomes["messages refused"] > 970


# ------------------------------------------------------------------------------------- on a real network


def test_a_handler_that_is_stuck_holds_up_nobody_and_goes_on_with_the_latest(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=100_000), lan.start("b", receive_limit=100_000)
    stuck, entered = threading.Event(), threading.Event()
    gaps = Ear()
    b.on_gap = gaps
    latest = Ear()

    def handler(message: glue.Message) -> None:
        latest(message)
        entered.set()
        stuck.wait(PATIENCE)

    b.subscribe("t", handler, policy="drop_oldest", limit=2)
    others = listen(b, "t", a)
    a.publish("t", 0)
    assert entered.wait(PATIENCE)
    for _ in range(10):
        a.publish_many("t", [bytes(10_000)] * 10)
    others.wait(101)
    stuck.set()
    latest.wait(3)
    assert [message.sequence for message in latest.heard] == [1, 100, 101]
    (gap,) = gaps.wait(1)
    assert (gap.cause, gap.count, gap.topic, gap.publisher, gap.publisher_id) == ("overwritten", 98, "t", "a", a.id)


def test_an_iterator_that_is_not_read_blocks_nobody_and_keeps_what_its_policy_keeps(lan: Lan) -> None:
    a, b = lan.start("a", queue_limit=100_000), lan.start("b", receive_limit=100_000)
    newest = b.subscribe("t", policy="drop_oldest", limit=3)
    oldest = b.subscribe("t", policy="drop_newest", limit=3)
    gone = b.subscribe("t", policy="disconnect", limit=3)
    read = listen(b, "t", a)
    for number in range(50):
        a.publish("t", number)
        read.wait(number + 1)
    assert [newest.get(0).payload for _ in range(3)] == [47, 48, 49]
    assert [oldest.get(0).payload for _ in range(3)] == [0, 1, 2]
    assert [gone.get(0).payload for _ in range(3)] == [0, 1, 2]
    with pytest.raises(TimeoutError):
        newest.get(0)
    with pytest.raises(glue.SlowReaderError, match="its reader is too slow"):
        gone.get(0)
    with pytest.raises(glue.SlowReaderError):
        next(gone)
    assert gone.closed
    a.publish("t", "next")
    assert newest.get(PATIENCE).payload == oldest.get(PATIENCE).payload == "next"


def test_a_wrong_policy_or_limit_is_refused(lan: Lan) -> None:
    a = lan.start("a")
    with pytest.raises(glue.ConfigurationError, match="policy='dropp': expected one of block, drop_oldest"):
        a.subscribe("t", policy="dropp")  # type: ignore[call-overload]
    with pytest.raises(glue.ConfigurationError, match="limit=0: expected a number of messages"):
        a.subscribe("t", policy="drop_oldest", limit=0)
    with pytest.raises(glue.ConfigurationError, match='limit=5: with policy="block" the setting receive_limit'):
        a.subscribe("t", limit=5)


def test_with_asyncio_a_slow_coroutine_handler_or_iterator_loses_what_its_policy_drops() -> None:
    async def main() -> None:
        async with aio_pair(a_queue_limit=100_000, b_receive_limit=100_000) as (a, b):
            gaps: list[glue.Gap] = []
            b.on_gap = gaps.append
            heard: list[int] = []
            go_on = asyncio.Event()

            async def handler(message: glue.Message) -> None:
                heard.append(message.sequence)
                await go_on.wait()

            count = 0

            def count_all(message: glue.Message) -> None:
                nonlocal count
                count += 1

            b.subscribe("t", handler, policy="drop_oldest", limit=2)
            gone = b.subscribe("t", policy="disconnect", limit=2)
            b.subscribe("t", count_all)
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish("t", bytes(10_000))
            while not heard:
                await asyncio.sleep(0.001)
            await a.publish_many("t", [bytes(10_000)] * 99)
            async with asyncio.timeout(PATIENCE):
                while count < 100:
                    await asyncio.sleep(0.001)
                go_on.set()
                while len(heard) < 3:
                    await asyncio.sleep(0.001)
            assert heard == [1, 99, 100]
            assert [(gap.cause, gap.count) for gap in gaps] == [("overwritten", 97)]
            assert [(await gone.get()).sequence for _ in range(2)] == [1, 2]
            with pytest.raises(glue.SlowReaderError):
                await gone.get()

    run(main())


def test_with_asyncio_a_plain_handler_that_returns_a_coroutine_is_awaited_in_order() -> None:
    async def main() -> None:
        async with aio_pair() as (a, b):
            done: list[object] = []

            async def handle(message: glue.Message) -> None:
                await asyncio.sleep(0.001 * (message.sequence % 3))
                done.append(message.payload)

            b.subscribe("t", lambda message: handle(message))
            assert await a.wait_for_subscribers("t", 1, PATIENCE)
            await a.publish_many("t", range(50))
            async with asyncio.timeout(PATIENCE):
                while len(done) < 50:
                    await asyncio.sleep(0.001)
            assert done == list(range(50))

    run(main())
