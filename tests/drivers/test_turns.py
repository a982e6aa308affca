"""Turns without threads and a network: when a publisher sends by itself, waits or wakes the leader."""

from __future__ import annotations

import math
import threading
from _thread import get_ident
from collections import deque
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import glue
from glue.contract import HIGH, NORMAL, URGENT, Delivery, Publication
from glue.drivers import turns as module
from glue.drivers.asking import Asking
from glue.drivers.network_seat import ASIDE, RELIEF
from glue.drivers.send_policy import BUSY, OUTBOX
from glue.endpoint.admission import OPEN
from glue.endpoint.encoding import NeedsCodecError
from tests.drivers.lone_turns import Lone


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0, time=lambda: 1100.0))


def publication(size: int = 3, priority: int = NORMAL) -> Publication:
    return Publication("t", [bytes(size)], 0.0, False, size, priority)


# ------------------------------------------------------------------------------------------------------- publishing


class Publishing(Lone):
    def _flush(self, wait: bool, publications: Any = ()) -> None:
        self.note("flush", wait, len(publications))

    def _wait_for_room(self, priority: int, block: bool) -> None:
        self.note("room", priority, block)


def test_a_publisher_sends_at_once_or_gathers_or_wakes_the_leader() -> None:
    due = SimpleNamespace(is_due=lambda size, backlog: True, bundle=50)
    for fields, size, priority, expected in (
        ({}, 3, NORMAL, ["hurry"]), ({"_sleeps_until": 5.0}, 3, NORMAL, ["wake"]),
        ({}, 3, HIGH, [("flush", False, 1)]), ({}, 3, URGENT, [("flush", False, 1)]),
        ({"_send_policy": due}, 3, NORMAL, [("flush", False, 1)]),
        ({"_send_policy": due, "_backlog": BUSY}, 3, NORMAL, ["hurry"]),
        ({"_backlog": BUSY}, 3, HIGH, [("flush", False, 0)]),
        ({}, 50, NORMAL, [("flush", False, 0)]), ({}, 49, NORMAL, ["hurry"]),
        ({}, OUTBOX, NORMAL, [("flush", True, 0)]), ({}, OUTBOX - 1, NORMAL, [("flush", False, 0)]),
    ):  # fmt: skip
        lone = Publishing(**fields)
        lone._admission.limits = [BUSY + OUTBOX + 1] * 6
        lone.publish([publication(size, priority)], True)
        assert lone.done() == expected
        assert len(lone.gathered) == (expected != [("flush", False, 1)])
    lone = Publishing(_send_policy=due)
    lone._core.outbox.size = OUTBOX
    lone._admission.limits = [OUTBOX] * 6
    lone.publish([publication()], True)
    assert lone.done() == [("flush", True, 1)]


def test_a_publisher_without_room_waits_first() -> None:
    request: Any = "request"
    lone = Publishing()
    lone._backlog, lone._core.outbox.size = 60, 40
    lone.publish([publication()], True)
    assert lone.done() == ["hurry"]
    lone.publish([publication()], False)  # 103 bytes wait by now
    assert lone.done()[0] == ("room", NORMAL, False)
    lone = Publishing()
    lone._admission.closed_from = NORMAL
    lone.publish([publication(priority=NORMAL)], True)
    lone.publish([publication(priority=HIGH)], True)
    assert lone.done() == [("room", NORMAL, True), "hurry", ("flush", False, 1)]
    lone._core.overfed = True
    lone.publish([publication(priority=HIGH)], True)
    assert lone.done()[0] == ("room", HIGH, True)
    lone._closed = True
    calls: list[Any] = [lambda: lone.publish([publication()], True), lambda: lone.order(request)]
    for call in calls:
        with pytest.raises(glue.ClosedError) as caught:
            call()
        assert str(caught.value) == "the endpoint is closed; start it, or use it inside its with block"
    assert lone.done() == []
    for wait in (True, False):
        lone = Publishing()
        lone.order(request, wait)
        assert lone.done() == [("order", "request"), ("flush", wait, 0)]


class Rooms(Lone):
    def _relieve(self, has_room: Any) -> None:
        self.note("relieve")


def test_who_waits_for_room_steps_down_and_is_told_of_the_end() -> None:
    lone = Rooms(_backlog=101)
    with pytest.raises(glue.WouldBlockError, match="101 bytes wait"):
        lone._wait_for_room(NORMAL, False)
    assert lone.done() == []
    lone._wait_for_room(NORMAL, True)
    assert lone.done() == ["step down", "relieve", ("wait", False, 101)]
    for fields, has_room in (
        ({"_backlog": 100}, True), ({"_backlog": 101}, False), ({"_backlog": 101, "_closed": True}, True)
    ):  # fmt: skip
        lone = Rooms(**fields)
        if lone._closed:
            with pytest.raises(glue.ClosedError, match="the endpoint was closed while publish waited for room"):
                lone._wait_for_room(NORMAL, True)
        else:
            lone._wait_for_room(NORMAL, True)
        assert lone.done()[-1] == ("wait", has_room, lone._backlog)
    lone = Rooms()
    lone._core.overfed = True
    lone._wait_for_room(NORMAL, True)
    assert lone.done()[-1] == ("wait", False, 0)
    lone._threads.add(threading.current_thread())  # a handler does not wait for what it has to handle itself
    assert lone.is_handler()
    lone._wait_for_room(NORMAL, True)
    assert lone.done()[-1] == ("wait", True, 0)
    lone._is_in_turn = lambda: True
    lone._wait_for_room(NORMAL, True)
    assert lone.done() == []


class Session(Lone):
    """Turns with a session in which an answer may leave."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(
            replier=get_ident(), _network_part=SimpleNamespace(post=lambda *sent: self.note("post", *sent)), **fields
        )
        self.ways: dict[str, Any] = {"t": "way"}
        self.sent: Any = ("data", "address")
        self._core.stack.session = SimpleNamespace(
            topic=self.ways.get, send=lambda *what: self.note("send", *what) or self.sent
        )


def test_an_answer_to_a_lone_message_leaves_in_its_session_once() -> None:
    for payload, body, json in ((b"0123456789", b"0123456789", False), ([1], b"[1]", True)):
        lone = Session()
        assert lone.reply("t", payload)
        assert lone.done() == [
            ("send", 100.0, 1100.0, "way", body, json), ("post", "data", "address"), ("answered", 100.0),
        ]  # fmt: skip
        assert (lone.replier, lone._is_uncommitted, lone._turn_lock.depth) == (0, True, 0)
        assert not lone.reply("t", payload)


def test_any_other_answer_takes_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Text(str):
        __slots__ = ()

    def refused(lone: Session, topic: Any = "t", payload: Any = b"x") -> bool:
        ident = lone.replier
        is_sent = lone.reply(topic, payload)
        assert (lone.replier, lone._turn_lock.depth, lone._is_uncommitted) == (ident, 0, False)
        assert ("post", "data", "address") not in lone.done()
        return not is_sent

    assert refused(Session(_closed=True))
    other, waiting, elsewhere, full = (Session() for _ in range(4))
    other.replier += 1
    waiting._core.outbox.requests = [1]
    elsewhere._turn_lock.is_elsewhere = True
    full.sent = None
    assert [refused(one) for one in (other, waiting, elsewhere, full)] == [True] * 4
    assert refused(Session(), "u")
    assert refused(Session(), Text("t"))
    assert refused(Session(), "t", bytes(11))
    part = Session()
    part._network_part = None
    assert refused(part)

    def needs(payload: Any, is_wide: bool) -> Any:
        raise NeedsCodecError("array")

    monkeypatch.setattr(module, "encoded", needs)
    assert refused(Session(), "t", object())


# ------------------------------------------------------------------------------------------------------------- turns


class Flushing(Lone):
    def _run(self, publications: Any) -> None:
        self.note("run", len(publications), self._turn_lock.depth)


def test_a_turn_is_run_by_who_gets_its_lock_and_is_left_to_others_else() -> None:
    one = publication()
    lone = Flushing(_sleeps_until=5.0)
    lone._flush(False, [one])
    assert (lone.done(), lone._turn_lock.depth, lone.gathered) == ([("run", 1, 1)], 0, [])
    lone._turn_lock.is_elsewhere = True
    lone._flush(False, [one])
    assert (lone.done(), lone.gathered) == (["wake"], [one])
    lone._flush(True)
    assert lone.done() == ["wait for turn", ("run", 0, 0)]
    lone = Flushing(_sleeps_until=5.0, _is_in_turn=lambda: True)
    lone._flush(True, [one])  # a signal came in a turn of this thread
    assert (lone.done(), lone.gathered) == (["wake"], [one])


def test_a_publisher_s_turn_sends_and_in_a_stream_it_receives() -> None:
    one, update = publication(), ["commit"]
    sending = [("spoke", 100.0), ("send", 100.0, one), ("leave", "out"), "sent", *update]
    lone = Lone()
    lone._run([one])
    assert (lone.done(), lone._flushed_at, lone._backlog, lone._deadline) == (sending, 100.0, 5, 107.0)
    lone._run([])
    assert lone.done() == [("send", 100.0), ("leave", "out"), "sent", *update]
    lone = Lone(_backlog=BUSY)
    lone._run([])
    assert lone.done() == [("turn", 100.0, "in"), ("leave", "out"), "sent", *update]
    lone._backlog, lone._core.is_counting = BUSY, lambda: True  # a signal's handler, which cannot run a whole turn
    lone._run([])
    assert lone.done()[0] == ("send", 100.0)
    lone = Lone(_backlog=BUSY, _leader=threading.current_thread(), _flushed_at=7.0)
    lone._run([])
    assert (lone.done()[0], lone._flushed_at) == (("send", 100.0), 7.0)  # in a handler, which runs no turns
    lone = Lone()
    lone._core.send = Mock(side_effect=RuntimeError("a fault"))
    with pytest.raises(RuntimeError, match="a fault"):
        lone._run([one])
    assert lone._flushed_at == 100.0, "or the leader would stand aside for a publisher that has gone"
    lone = Lone(_closed=True)
    lone._run([])
    assert lone.done() == []
    with pytest.raises(glue.ClosedError, match="the endpoint was closed while publish waited for its turn"):
        lone._run([one])
    for sleeps_until, woken in ((107.0 + module.ATTENTIVE, False), (107.001 + module.ATTENTIVE, True)):
        lone = Lone(_sleeps_until=sleeps_until)
        lone._run([one])
        assert ("wake" in lone.done()) is woken
    lone = Lone(_sleeps_until=50.0, _events=deque([1]))
    lone._run([one])
    assert lone.done()[-1] == "wake"


def test_the_leader_is_woken_once_and_only_where_it_waits() -> None:
    for fields, expected in (
        ({}, []), ({"_sleeps_until": 5.0}, ["wake"]), ({"_is_receiving": True}, ["wake"]),
        ({"_sleeps_until": 5.0, "_woken": True}, []),
    ):  # fmt: skip
        lone = Lone(**fields)
        lone.wake()
        lone.wake()
        assert lone.done() == expected
    lone._network_seat.is_aside = True
    lone.wake()
    assert lone.done() == ["call"]


def test_what_a_turn_brings_waits_for_its_receivers() -> None:
    found = Delivery("t", [b"x"], None, "you", "id", 1, 1, 0.0, False, ("a", "b"))
    lone = Lone(events=[found])
    lone._turn(100.0)
    waiting: list[Any] = [*lone._events]
    assert waiting == [("a", found), ("b", found)]
    assert (lone.done()[-1], lone._is_known) == (("arrived", 100.0), False)
    lone = Lone()
    lone._leave([])
    assert lone.done() == []
    lone.handled(found)
    assert lone.done() == ["admit"]
    lone._core.outbox.requests, lone._sleeps_until, found.sequence = [1], 5.0, 2
    lone.handled(found)
    assert lone.done() == ["wake"]


def test_after_a_turn_publishers_and_waiters_look_again() -> None:
    lone = Lone(_is_known=False)
    lone._update()
    assert (lone.done(), lone._is_known, lone._backpressure.turns, lone._backpressure.in_vain) == (
        ["commit"], True, 1, False,
    )  # fmt: skip
    for is_eased, is_awaited, closed_from, told in (
        (True, False, 2, True), (False, True, OPEN, True), (False, True, 2, False), (False, False, OPEN, False),
    ):  # fmt: skip
        lone = Lone()
        lone._admission.update, lone._admission.closed_from = lambda backlog, is_eased=is_eased: is_eased, closed_from
        lone._backpressure.is_awaited = is_awaited
        lone._update()
        assert lone.done() == ["commit", *(["admit", "hurry"] * told)]
    gate = threading.Lock()
    gate.acquire()
    lone._waiters.append(gate)
    lone._update()
    lone._tell_waiters()  # it is told already
    assert not gate.locked()


def test_what_passed_in_a_session_is_committed_and_counted_once() -> None:
    lone: Any = Lone(_network_part=SimpleNamespace(commit=lambda: lone.note("part")), _is_uncommitted=True, _received=3)
    assert lone.inspect(lambda: 5) == 5
    assert lone.inspect(lambda: lone._turn_lock.depth) == 1
    assert lone.done() == ["commit", "part", "commit"]
    assert (lone._core.statistics, lone._received, lone._is_uncommitted) == ({"messages arrived": 3}, 0, False)


def test_the_leader_stands_aside_while_a_publisher_runs_the_turns() -> None:
    stream: dict[str, Any] = {"_backlog": BUSY, "_flushed_at": 100.0}
    for fields, expected in (
        ({}, True), ({"_backlog": BUSY - 1}, False), ({"_closed": True}, False), ({"_events": [1]}, False),
        ({"_waiters": [1]}, False), ({"_flushed_at": 100.0 - ASIDE}, False), ({"_flushed_at": 100.001 - ASIDE}, True),
        ({"_maintain_at": 100.0}, False), ({"_flushed_at": math.inf}, True), ({"_asked_until": 99.0}, True),
        ({"_asked_until": 100.1, "_backlog": 0}, True), ({"_asked_until": 100.1, "_maintain_at": 100.0}, False),
    ):  # fmt: skip
        assert Lone(**{**stream, **fields})._streaming() is expected
    lone = Lone(**{**stream, "_flushed_at": 0.0})
    lone._network_seat.is_relieved = True
    assert lone._streaming()
    lone._backpressure.is_awaited = True
    assert not lone._streaming()
    asked = Lone(_asked_until=100.1)
    asked._core.outbox.requests = [1]
    assert not asked._streaming()
    assert asked._is_due()
    assert [Lone(**fields)._is_due() for fields in ({}, {"_events": [1]}, {"_closed": True})] == [False, True, True]


def test_who_waits_for_room_relieves_the_leader_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Relieving(Lone):
        def _flush(self, wait: bool, publications: Any = ()) -> None:
            self.note("flush", wait)

    def relieved(**fields: Any) -> list[Any]:
        clock = [100.0]
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        lone = Relieving(**{"_backlog": BUSY, **fields})

        def relieve(deadline: float, has_room: Any, requests: Any) -> bool:
            assert (deadline, has_room(), requests()) == (107.0, False, [])
            clock[0] += RELIEF / 2
            lone.note("relieve")
            return lone._network_seat.is_relieved is False

        lone._network_seat.relieve = relieve
        lone._network_seat.is_relieved = fields.get("is_busy", False)
        lone._core.overfed = fields.get("is_overfed", False)
        lone._relieve(lambda: False)
        return lone.done()

    turn = ["relieve", ("flush", True)]
    assert relieved() == turn * 2
    assert relieved(_maintain_at=100.0 + RELIEF / 4) == turn
    assert relieved(_maintain_at=100.0) == []
    assert relieved(_backlog=BUSY - 1) == []
    assert relieved(is_overfed=True) == []
    assert relieved(is_busy=True) == ["relieve"]  # another thread has the network


class Sessions(Asking):
    """A thread that asks, with the times at which sessions end or may be opened."""

    def __init__(self, until: float, *opened: float) -> None:
        self.opened = [*opened]
        self.until = until
        self.turns: list[float] = []
        self._events = deque()

    def _session_until(self, now: float) -> float:
        return self.until

    def _open_session(self, now: float) -> float:
        return self.opened.pop(0)

    def _turn(self, now: float) -> None:
        self.turns.append(now)


def test_a_session_is_open_or_can_be_opened_perhaps_after_a_turn() -> None:
    for until, opened, is_open, turns in (
        (100.1, [], True, 0), (100.0, [100.1], True, 0), (100.0, [100.0, 100.1], True, 1),
        (99.0, [99.0, 100.0], False, 1),
    ):  # fmt: skip
        asking = Sessions(until, *opened)
        assert asking._is_session_open(100.0) is is_open
        assert (len(asking.turns), asking.opened) == (turns, [])
    asking = Sessions(100.0, 100.0, 100.1)
    asking._events.append(("somebody", "event"))  # type: ignore[arg-type]
    assert not asking._is_session_open(100.0)
