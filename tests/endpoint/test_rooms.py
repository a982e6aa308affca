"""Where messages of consumers, groups and history wait, and what their readers acknowledge."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import glue
from glue.contract import CodedDelivery, Delivery, Missed
from glue.endpoint.consumer_room import ConsumerMessage, ConsumerRoom
from glue.endpoint.history_room import HistoryRoom
from glue.endpoint.message import Message
from glue.endpoint.shared import PERIOD, Acknowledger, SharedDeliveries, SharedMessages
from glue.history.source import weight
from tests.endpoint.owners import Owner


def delivery(sequence: int, count: int = 1, expires: float = float("inf"), topic: str = "t") -> Delivery:
    payloads = [f"p{number}" for number in range(sequence, sequence + count)]
    return Delivery(topic, payloads, None, "you", "id-you", 1, sequence, 0.0, False, (), expires)


# -------------------------------------------------------------------------------------------------------- consumers


class Member:
    """The room of a member, with what is told to the home."""

    def __init__(self, by_hand: bool = False) -> None:
        self.owner = Owner()
        self.told: list[tuple[int, bool]] = []
        self.ended: list[Any] = []
        parts: Any = SimpleNamespace(
            lock=nullcontext(), finished=lambda room, taken, place, is_done: self.told.append((place, is_done)),
            ended=self.ended.append,
        )  # fmt: skip
        membership: Any = None
        self.room = ConsumerRoom(membership, parts, self.owner, by_hand)

    def push(self, first: int, count: int, *deliveries: Delivery, is_again: bool = False) -> None:
        group = SimpleNamespace(sequence=first, payloads=[b""] * count)
        taken: Any = SimpleNamespace(group=group, is_again=is_again)
        self.room.push(taken, [*deliveries])

    def take(self) -> Any:
        return self.room.take()


def test_an_iterating_reader_is_done_with_a_message_when_it_asks_for_the_next() -> None:
    member = Member()
    assert not member.room
    member.push(5, 3, delivery(5, 2), delivery(7), is_again=True)
    assert member.room
    first = member.take()
    assert (first.payload, first.sequence, first.redelivered) == ("p5", 5, True)
    assert (member.told, member.owner.counted) == ([], {"handled": 1})
    assert [member.take().payload, member.take().payload] == ["p6", "p7"]
    assert member.told == [(1, True), (2, True)]
    assert not member.room
    assert member.take() is None
    assert member.take() is None
    assert member.told == [(1, True), (2, True), (3, True)]
    assert member.owner.counted == {"handled": 3}


def test_by_hand_only_the_program_says_what_is_done() -> None:
    member = Member(by_hand=True)
    member.push(1, 2, delivery(1, 2))
    first, second = member.take(), member.take()
    assert isinstance(first, ConsumerMessage)
    assert not first.redelivered
    assert (member.take(), member.told) == (None, [])
    second.refuse()
    first.acknowledge()
    assert member.told == [(2, False), (1, True)]


def test_what_could_not_be_decoded_comes_again_later() -> None:
    member = Member()
    member.push(5, 4, delivery(6), delivery(8))
    assert member.told == [(1, False), (3, False)]
    assert [member.take().payload, member.take().payload] == ["p6", "p8"]
    member.push(5, 1)
    assert member.told[-1] == (1, False)


def test_what_the_home_has_taken_back_is_not_read_any_more() -> None:
    member = Member()
    member.push(1, 3, delivery(1, 3), delivery(4, 2))
    member.told.clear()
    member.take()
    member.room.void()
    assert (member.owner.counted, bool(member.room)) == ({"handled": 1, "unread": 4}, False)
    assert member.take() is None
    member.push(9, 1, delivery(9))
    member.room.close()
    member.room.close()
    assert (member.owner.counted["unread"], member.ended) == (5, [member.room])
    assert member.room.put(delivery(1, 3)) == 0
    assert member.owner.counted["unread"] == 8
    member.room.put_gap(Missed("t", "you", "id-you", 1, "lost", ()))
    assert not member.room


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_handler_is_done_when_it_returns_and_refuses_when_it_raises(by_hand: bool) -> None:
    member = Member(by_hand)
    member.push(1, 4, delivery(1, 4))
    got: list[Any] = []

    def handle(message: Any) -> Any:
        got.append(message)
        if message.payload == "p2":
            raise KeyError
        return message.payload

    handler = member.room.around(handle, False)
    assert handler is not None
    assert handler(member.take()) == "p1"
    with pytest.raises(KeyError):
        handler(member.take())
    done = [] if by_hand else [(1, True)]
    assert member.told == [*done, (2, False)]
    assert [message.sequence for message in got] == [1, 2]

    async def await_both() -> None:
        async def later(payload: Any) -> None:
            got.append(payload)
            if payload == "p4":
                raise KeyError

        handler = member.room.around(later, True)
        assert handler is not None
        await handler(member.take())
        with pytest.raises(KeyError):
            await handler(member.take())

    asyncio.run(await_both())
    assert got[2:] == ["p3", "p4"]
    assert member.told == [*done, (2, False), *([] if by_hand else [(3, True)]), (4, False)]
    assert member.room.around(None, True) is None


# ----------------------------------------------------------------------------------------------------------- groups


class Group:
    """An acknowledger and its clock."""

    def __init__(self) -> None:
        self.now = 10.0
        self.owner = Owner()
        self.told: list[tuple[str, int, int]] = []
        self.acknowledger = Acknowledger(self.order, lambda: self.now)

    def order(self, told: Any) -> None:
        assert told.publisher_id == "id-you"
        self.told.append((told.topic, told.first, told.last))

    def read(self, room: Any, count: int) -> list[Any]:
        return [one and one.payload for one in (room.take() for _ in range(count))]


def test_messages_of_one_delivery_are_acknowledged_together_but_every_period() -> None:
    group = Group()
    room = SharedMessages(group.owner, lambda: group.now, group.acknowledger)
    wrapped = delivery(1, 6)
    wrapped.wrapped = "$glue/wrapped/t"
    room.put(wrapped)
    assert group.read(room, 2) == ["p1", "p2"]
    assert group.told == [("$glue/wrapped/t", 1, 1)]  # the first at once
    assert group.read(room, 2) == ["p3", "p4"]
    assert len(group.told) == 1
    group.now += PERIOD
    assert group.read(room, 1) == ["p5"]
    assert group.told[1:] == [("$glue/wrapped/t", 2, 4)]
    assert group.read(room, 2) == ["p6", None]
    assert group.told[2:] == [("$glue/wrapped/t", 5, 6)]
    assert room.take() is None
    assert len(group.told) == 3


def test_messages_that_do_not_follow_or_may_expire_are_acknowledged_apart() -> None:
    group = Group()
    room = SharedMessages(group.owner, lambda: group.now, group.acknowledger)
    for one in (delivery(1, 3, expires=99.0), delivery(4, 2, topic="u"), delivery(9), Missed("t", "", "", 1, "x", ())):
        room.put_gap(one) if isinstance(one, Missed) else room.put(one)
    assert [type(room.take()) for _ in range(8)] == [Message] * 6 + [Missed, type(None)]
    assert group.told == [("t", 1, 1), ("t", 2, 2), ("t", 3, 3), ("u", 4, 5), ("t", 9, 9)]


def test_a_handler_of_payloads_acknowledges_whole_deliveries() -> None:
    group = Group()
    room = SharedDeliveries(group.owner, lambda: group.now, group.acknowledger)
    room.delivered(delivery(5, 3))
    assert group.told == [("t", 5, 7)]
    wrapped = delivery(8)
    wrapped.wrapped = "w"
    room.delivered(wrapped)
    assert group.told[1:] == [("w", 8, 8)]


def test_a_handler_acknowledges_when_it_is_over_whether_it_raised_or_not() -> None:
    group = Group()
    got: list[Any] = []

    def handle(item: Any) -> Any:
        got.append(item)
        if item == "p2":
            raise KeyError
        return "returned"

    handler: Any = group.acknowledger.around(handle, True)
    assert handler(Message("p1", 1, delivery(1))) == "returned"
    with pytest.raises(KeyError):
        handler(Message("p2", 2, delivery(2)))

    async def await_both() -> None:
        async def later(message: Any) -> None:
            got.append(message.payload)
            if message.payload == "p4":
                raise KeyError
            assert len(group.told) == 2

        handler: Any = group.acknowledger.around(later, False)
        await handler(Message("p3", 3, delivery(3)))
        with pytest.raises(KeyError):
            await handler(Message("p4", 4, delivery(4)))

    asyncio.run(await_both())
    assert group.told == [("t", number, number) for number in (1, 2, 3, 4)]
    assert got == ["p1", "p2", "p3", "p4"]


def test_a_coroutine_that_meets_a_cancelled_task_is_done_and_one_whose_reader_ends_is_not() -> None:
    async def main() -> None:
        group = Group()
        cancelled, never = (asyncio.get_running_loop().create_future() for _ in range(2))
        cancelled.cancel()
        handler: Any = group.acknowledger.around(lambda payload: {"p1": cancelled, "p2": never}[payload], True)
        with pytest.raises(asyncio.CancelledError):
            await handler(Message("p1", 1, delivery(1)))
        assert group.told == [("t", 1, 1)]
        reader = asyncio.ensure_future(handler(Message("p2", 2, delivery(2))))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])
        assert group.told == [("t", 1, 1)]

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------- history


class Late:
    """The room of a subscription with history, with a reader that has what the test says."""

    def __init__(self) -> None:
        self.now = 10.0
        self.owner = Owner()
        self.did: list[Any] = []
        reader: Any = SimpleNamespace(
            ready=deque(), pushed=0, deadline=99.0, live=self.live, missed=lambda missed: self.did.append(missed),
            read=self.read,
        )  # fmt: skip
        self.reader = reader
        self.has_room = False
        self.sizes: list[int] = []
        parts: Any = SimpleNamespace(
            lock=nullcontext(), arrived=lambda count: self.did.append(("arrived", count)), opened=self.opened,
            ended=lambda room: self.did.append("ended"), wake=lambda: self.did.append("wake"),
        )  # fmt: skip
        self.decoded: list[Any] = []
        self.room = HistoryRoom(reader, parts, self.owner, lambda: self.now)

    def live(self, now: float, delivery: Delivery) -> None:
        assert now == self.now
        self.reader.pushed += len(delivery.payloads)
        self.reader.ready.append(delivery)

    def read(self, size: int) -> bool:
        self.did.append(("read", size > 0))
        self.sizes.append(size)
        return self.has_room

    def opened(self, coded: Any) -> list[Any]:
        return self.decoded

    def done(self) -> list[Any]:
        found = [*self.did]
        self.did.clear()
        return found


def test_live_messages_count_once_and_a_due_reader_has_a_turn() -> None:
    late = Late()
    assert not late.room
    assert late.room.put(delivery(1, 2)) == 0
    assert late.done() == [("arrived", 0)]
    late.reader.deadline = 10.0
    late.room.put(delivery(3, 2))
    assert late.done() == [("arrived", 0), "wake"]
    late.reader.live = lambda now, delivery: None  # which came from history already
    late.room.put(delivery(3, 2))
    assert late.done() == [("arrived", -2), "wake"]
    missed = Missed("t", "you", "id-you", 1, "lost", ())
    late.room.put_gap(missed)
    assert late.done() == [missed]
    assert late.room


def test_what_is_read_is_settled_and_makes_room() -> None:
    late = Late()
    missed = Missed("t", "you", "id-you", 1, "lost", ())
    late.reader.ready += [delivery(1, 2), missed, delivery(3, 2, expires=9.9), delivery(5, 1, expires=10.0)]
    first = late.room.take()
    assert isinstance(first, Message)
    assert (first.payload, first.sequence, late.done(), late.owner.counted) == ("p1", 1, [], {})
    second = late.room.take()
    assert isinstance(second, Message)
    assert (second.sequence, late.done()) == (2, [("read", True)])
    assert late.owner.counted == {"handled": 2, "expired": 0}
    assert late.room.take() is missed
    late.has_room = True
    last = late.room.take()
    assert isinstance(last, Message)
    assert (last.payload, late.done()) == ("p5", [("read", True), "wake"] * 2)
    assert late.owner.counted == {"handled": 3, "expired": 2}
    assert late.room.take() is None
    assert not late.room


def test_what_comes_in_a_codec_is_decoded_when_it_is_read() -> None:
    late = Late()
    missed = Missed("t", "you", "id-you", 3, "undecodable", ())
    late.decoded = [delivery(1), missed, delivery(5)]
    coded = CodedDelivery("t", [bytes(5000)], None, "you", "id-you", 1, 1, 0.0, False, ())
    late.reader.ready.append(coded)
    first = late.room.take()
    assert isinstance(first, Message)
    assert (first.payload, late.done()) == ("p1", [("arrived", -3)])
    assert late.room
    assert late.room.take() is missed
    last = late.room.take()
    assert isinstance(last, Message)
    assert last.payload == "p5"
    assert not late.room
    assert late.sizes == [weight(coded)]  # once, when all of it was read
    assert weight(coded) > 5000
    late.reader.ready.append(delivery(6))
    late.room.take()
    assert late.sizes[1:] == [weight(delivery(6))]


def test_what_cannot_be_decoded_at_all_makes_room_at_once() -> None:
    late = Late()
    late.has_room = True
    missed = Missed("t", "you", "id-you", 1, "unknown codec", ())
    late.decoded = [missed]
    coded = CodedDelivery("t", [bytes(5000)], None, "you", "id-you", 1, 1, 0.0, False, ())
    late.reader.ready += [coded, delivery(2)]
    assert late.room.take() is missed
    assert (late.done(), late.sizes) == ([("arrived", -1), ("read", True), "wake"], [weight(coded)])
    assert isinstance(late.room.take(), Message)
    assert late.sizes[1:] == [weight(delivery(2))]


def test_a_closed_room_accounts_for_what_was_not_read() -> None:
    late = Late()
    late.reader.ready += [delivery(1, 3), delivery(4, 2), Missed("t", "", "", 1, "x", ())]
    late.room.take()
    late.room.close()
    assert (late.owner.counted, late.done()) == ({"handled": 1, "expired": 0, "unread": 4}, ["ended"])
    left = [late.room.take() for _ in range(5)]
    assert [one.payload for one in left if isinstance(one, Message)] == ["p2", "p3", "p4", "p5"]
    assert (late.owner.counted["handled"], late.done()) == (1, [])


def test_what_is_opened_and_not_read_counts_as_unread_too() -> None:
    late = Late()
    late.decoded = [delivery(1), delivery(2, 3)]
    late.reader.ready.append(CodedDelivery("t", [b""], None, "you", "id-you", 1, 1, 0.0, False, ()))
    late.room.take()
    late.room.close()
    assert late.owner.counted["unread"] == 3


def test_only_a_message_of_a_consumer_can_be_refused() -> None:
    plain = Message("p1", 1, delivery(1))
    for call, name in ((plain.refuse, "refuse"), (plain.acknowledge, "acknowledge")):
        with pytest.raises(glue.ConfigurationError, match=rf"message\.{name}\(\): only a subscription with consumer=…"):
            call()
