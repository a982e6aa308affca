"""A thread that asks, without a network: when it may, what it sends and takes, and what it leaves to the leader."""

from __future__ import annotations

import math
import signal
import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import HIGH, Options, Publication
from glue.drivers import asking as module
from glue.drivers.asking import PATIENT, REFRAINS, Asking
from glue.drivers.network_seat import ASIDE, RELIEF
from glue.endpoint.admission import OPEN
from glue.fastpath.session import PERIOD
from tests.drivers.lone_asking import CLOCK, Answers, Ask, Noted, plain, reply

ROOM = 524_288  # bytes that a session needs


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    CLOCK[0] = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: CLOCK[0]))


# -------------------------------------------------------------------------------------------------------- who may ask


@pytest.mark.parametrize(("fields", "may"), [
    ({}, True), ({"_answered_at": 100.0 - ASIDE}, True), ({"_answered_at": 99.999 - ASIDE}, False),
    ({"_is_in_turn": lambda: True}, False), ({"_threads": {threading.current_thread()}}, False),
])  # fmt: skip
def test_a_thread_asks_at_the_network_just_after_an_answer_and_not_in_a_handler(
    fields: dict[str, Any], may: bool
) -> None:
    lone = Ask(**fields)
    assert (lone._may_ask(), lone._asker.locked()) == (may, may)


def test_one_thread_asks_at_a_time() -> None:
    lone = Ask(_refrain=1)
    lone._asker.acquire()
    assert not lone._may_ask()
    assert (lone._asker.locked(), lone._refrain) == (True, 1)


def test_after_an_answer_that_took_longer_ever_more_requests_take_the_ordinary_way() -> None:
    lone = Ask()
    skipped = []
    for _ in range(8):
        lone._end_asking(False)
        assert (lone.done(), lone._asked_until) == (["call"], 0.0)
        count = 0
        while not lone._may_ask():
            count += 1
            assert not lone._asker.locked()
        lone._asker.release()
        skipped.append(count)
    assert skipped == [1, 3, 7, 15, 31, 63, REFRAINS, REFRAINS] == [2**power - 1 for power in (*range(1, 7), 6, 6)]
    lone._end_asking(True)
    assert (lone.done(), lone._asked_until) == ([], 100.0 + ASIDE)  # the leader expects another one
    lone._end_asking(False)
    assert lone._refrain == 1


def test_a_new_endpoint_has_no_answer_yet_and_one_allows_another_request() -> None:
    core: Any = SimpleNamespace(
        settings=SimpleNamespace(queue_limit=100), renew_locks=lambda: None, security=None, statistics={}
    )
    woken: list[int] = []
    network: Any = SimpleNamespace(wake=lambda: woken.append(1))
    news: Any = None
    fresh = Asking(core, network, news)
    assert not fresh._may_ask()
    fresh.answered()
    assert fresh._may_ask()
    fresh._asker.release()
    CLOCK[0] += 2 * ASIDE
    assert not fresh._may_ask()
    fresh.expect_answer()  # this network takes no part in sessions
    assert not fresh.ask(plain(), news, lambda: True)
    fresh._end_asking(False)
    assert (fresh._refrain, woken) == (1, [])


def test_ctrl_c_wakes_who_waits_for_an_answer_and_is_raised_at_the_end() -> None:
    core: Any = SimpleNamespace(
        settings=SimpleNamespace(queue_limit=100), renew_locks=lambda: None, security=None, statistics={}, outbox=[]
    )
    woken: list[int] = []
    network: Any = SimpleNamespace(wake=lambda: woken.append(1))
    noted: list[int] = []
    fresh = Asking(core, network, Answers())  # type: ignore[arg-type]

    def interrupted(*_: object) -> Any:
        signal.raise_signal(signal.SIGINT)
        noted.append(len(woken))  # the wait is to end, and goes on until then
        return True

    fresh._network_part = SimpleNamespace()
    for name, call in (
        ("_post", lambda: fresh.ask(plain(), Answers(), lambda: True)),  # type: ignore[arg-type]
        ("_is_due", lambda: fresh.await_answers(Answers(), lambda: False)),  # type: ignore[arg-type]
    ):
        woken.clear()
        noted.clear()
        fresh.answered()
        setattr(fresh, name, interrupted)
        fresh._network_seat.is_aside = True
        with pytest.raises(KeyboardInterrupt):
            call()
        assert (noted, fresh._asker.locked()) == ([1], False)


# ---------------------------------------------------------------------------------------------- a request in a session


@pytest.mark.parametrize("request_", [
    plain(options=Options(lifespan=1.0)), plain(priority=HIGH), plain(payloads=2),
])  # fmt: skip
def test_only_a_plain_lone_request_passes_in_a_session(request_: Publication) -> None:
    lone = Ask(_refrain=1)
    assert not lone.ask_once(request_)
    assert (lone.done(), lone._refrain) == ([], 1)
    assert not lone.ask_once()
    assert lone._refrain == 0
    lone._network_part = None
    assert not lone.ask_once()
    assert lone.done() == []


def test_a_request_leaves_and_its_answer_is_handed_out_by_the_thread_that_asked() -> None:
    lone = Ask(arriving=["answer", "late"])
    lone.received = reply(lone.answers)
    assert lone.ask_once()
    assert lone.done() == [
        ("take seat", PATIENT, 100.0 + ASIDE),
        ("send", 100.0, 7.0, "way", b"x", False), ("post", "data", "address"), ("answered", 100.0),
        ("glance", PATIENT), ("take", "answer"), ("arrived", 100.0), "leave seat",
    ]  # fmt: skip
    assert (lone.answers.got, lone.arriving) == ([lone.received], ["late"])
    assert (lone._is_uncommitted, lone._is_known, lone._received) == (True, False, 1)
    assert (lone._asked_until, lone._asker.locked(), lone._turn_lock.depth) == (100.0 + ASIDE, False, 0)


def test_other_answers_are_taken_until_that_to_the_request_comes() -> None:
    lone = Ask(arriving=["answer"] * 3)
    lone.received = reply(lone.answers)
    assert lone.ask(plain(), lone.answers, lambda: len(lone.answers.got) == 2)  # type: ignore[arg-type]
    assert (len(lone.answers.got), lone._received, lone.arriving, lone._refrain) == (2, 2, ["answer"], 0)
    lone._asked_until = 0.0
    assert lone.ask(plain(), lone.answers, lambda: False)  # type: ignore[arg-type]
    assert lone.done()[-3:] == [("glance", PATIENT), "leave seat", "call"]  # sent, and its answer is yet to come
    assert lone._refrain == 1


def test_without_the_seat_a_request_is_left_to_the_ordinary_way() -> None:
    lone = Ask(is_free=False)
    assert not lone.ask_once()
    assert lone.done() == [("take seat", PATIENT, 100.0 + ASIDE), "call"]
    assert (lone._asker.locked(), lone._refrain, lone._is_uncommitted) == (False, 1, False)


class Opened(Ask):
    """One that notes that it wants to open the session, which then is open or is not."""

    opens = False

    def _is_session_open(self, now: float) -> bool:
        self.note("open", now)
        return self.opens


@pytest.mark.parametrize(("fields", "topic", "did"), [
    ({"_closed": True}, "t", []), ({"_events": deque([1])}, "t", []), ({"sent": None}, "t", ["send"]), ({}, "u", []),
    ({"_session_ends": 100.0}, "t", ["open"]),
])  # fmt: skip
def test_what_cannot_leave_in_a_session_is_not_sent(fields: dict[str, Any], topic: str, did: list[str]) -> None:
    lone = Opened(**fields)
    assert not lone.ask_once(plain(topic=topic))
    done = lone.done()
    assert [one[0] for one in done[1:-2]] == did
    assert done[-2:] == ["leave seat", "call"]
    assert (lone._is_uncommitted, lone._is_known, lone._turn_lock.depth) == (False, True, 0)


@pytest.mark.parametrize(("is_open", "ends", "asks"), [
    (True, 100.1, False), (True, 100.0, True), (False, 100.1, True), (True, 99.0, True),
])  # fmt: skip
def test_a_session_that_is_over_is_opened_before_a_request(is_open: bool, ends: float, asks: bool) -> None:
    lone = Opened(_session_ends=ends, opens=True)
    lone._core.stack.session.is_open = is_open
    assert lone.ask_once()
    assert (("open", 100.0) in lone.did, ("post", "data", "address") in lone.did) == (asks, True)


def test_what_is_no_answer_is_left_to_the_leader() -> None:
    lone = Ask(arriving=["other"])
    assert lone.ask_once()
    assert lone.done()[-4:] == [("glance", PATIENT), ("keep", "other"), "leave seat", "call"]
    assert (lone._is_uncommitted, lone._is_known, lone._received) == (True, False, 0)
    for tokens in (("other",), ("answers", "other")):
        lone = Ask(arriving=["answer"])
        receivers: list[Any] = [lone.answers if token == "answers" else token for token in tokens]
        lone.received = reply(*receivers)
        assert lone.ask_once()
        assert lone.done()[-5:] == [
            ("take", "answer"), ("arrived", 100.0), ("hold", lone.received), "leave seat", "call"
        ]  # fmt: skip
        waiting: list[Any] = [*lone._events]
        assert waiting == [(receiver, lone.received) for receiver in receivers]
        assert (lone.answers.got, lone._received, lone._turn_lock.depth) == ([], len(tokens), 0)
    lone = Ask(arriving=["answer"])
    lone._core.outbox.requests = [1]
    assert not lone._take_answer(lone._network_part, lone.answers)  # type: ignore[arg-type]
    assert (lone.done(), lone.arriving) == ([], ["answer"])


def test_a_fault_keeps_what_came_and_frees_the_seat() -> None:
    fault = RuntimeError("a fault")
    lone = Ask(arriving=[fault])
    with pytest.raises(RuntimeError, match="a fault"):
        lone.ask_once()
    assert lone.done()[-2:] == [("keep", fault), "leave seat"]
    assert (lone._asker.locked(), lone._turn_lock.depth, lone._received) == (False, 0, 0)


# ------------------------------------------------------------------------------------------ answers in ordinary turns


class Awaits(Ask):
    """One whose turns bring events, each after a millisecond."""

    def __init__(self, *brings: Any, **fields: Any) -> None:
        super().__init__(**fields)
        self.brings = [*brings]

    def _turn(self, now: float) -> None:
        assert (self._turn_lock.depth, now) == (1, CLOCK[0])
        self.note("turn")
        CLOCK[0] += 0.001
        self._events += self.brings.pop(0) if self.brings else []

    def _update(self) -> None:
        assert self._turn_lock.depth == 1
        self.note("update")

    def await_once(self) -> list[Any]:
        self.await_answers(self.answers, lambda: bool(self.answers.got))  # type: ignore[arg-type]
        assert (self._asker.locked(), self._turn_lock.depth) == (False, 0)
        return self.done()


TURN = ["turn", "update"]


def test_a_thread_runs_turns_at_the_network_until_its_answer_comes() -> None:
    lone = Awaits([])
    mine, other = reply(lone.answers), reply("other")
    lone.brings += [[(lone.answers, "news"), (lone.answers, mine), ("other", other), (lone.answers, mine)], []]
    assert lone.await_once() == [
        ("take seat", PATIENT, 100.0 + RELIEF), "expect", ("wait", RELIEF), *TURN, "expect", ("wait", RELIEF), *TURN,
        "admit", "leave seat",
    ]  # fmt: skip
    assert lone.answers.got == ["news", mine]
    waiting: list[Any] = [*lone._events]
    assert waiting == [("other", other), (lone.answers, mine)]  # after an event of the leader's all is the leader's
    assert (lone._asked_until, lone._refrain) == (CLOCK[0] + ASIDE, 0)


@pytest.mark.parametrize(("fields", "seconds"), [
    ({}, RELIEF), ({"_deadline": 100.02}, 0.02), ({"_maintain_at": 100.01}, 0.01), ({"_deadline": 100.5}, RELIEF),
])  # fmt: skip
def test_a_wait_at_the_network_ends_when_something_is_due(fields: dict[str, Any], seconds: float) -> None:
    lone = Awaits(**fields)
    lone.brings = [[(lone.answers, "answer")]]
    done = lone.await_once()
    assert (("wait", seconds) in done, done.count("turn")) == (True, 1)


def test_a_thread_waits_at_the_network_for_a_moment_at_most() -> None:
    lone = Awaits()
    done = lone.await_once()
    assert done.count("turn") == pytest.approx(RELIEF * 1000, abs=1)
    assert (done[-2:], lone._refrain, lone._asked_until) == (["leave seat", "call"], 1, 0.0)


def test_who_has_its_answer_or_may_not_ask_leaves_the_network_alone() -> None:
    lone = Awaits()
    lone.answers.got.append("answer")
    assert lone.await_once() == []
    assert Awaits(_answered_at=0.0).await_once() == []
    assert Awaits(is_free=False).await_once() == [("take seat", PATIENT, 100.0 + RELIEF), "call"]
    assert Awaits(_closed=True).await_once()[1:] == ["leave seat", "call"]
    pressed = Noted()
    pressed.is_noted = True  # Ctrl-C was pressed
    noted = Awaits(_awaiting_answers=pressed)
    assert noted.await_once()[1:] == ["leave seat", "call"]
    closing = Awaits()
    closing._network.wait = lambda seconds: setattr(closing, "_closed", True)
    assert closing.await_once()[1:] == ["expect", "leave seat", "call"]


# --------------------------------------------------------------------------------------------------- how long it lasts


@pytest.mark.parametrize(("maintain_at", "until"), [(130.0, 100.7), (100.6, 100.6)])
def test_a_session_lasts_until_the_layers_or_the_interface_need_a_turn(maintain_at: float, until: float) -> None:
    lone = Ask(_maintain_at=maintain_at)
    assert (lone._session_until(100.2), lone._session_ends) == (until, until)
    assert lone.done() == [("until", 100.2)]
    assert lone._turn_lock.depth == 0


@pytest.mark.parametrize(("fields", "opened", "until"), [
    ({}, math.inf, 100.0 + PERIOD), ({}, 100.001, 100.001), ({"_deadline": 100.0015}, math.inf, 100.0015),
    ({"_maintain_at": 100.001}, math.inf, 100.001), ({}, 100.0, 100.0), ({}, -math.inf, -math.inf),
])  # fmt: skip
def test_a_session_is_opened_until_what_comes_first(fields: dict[str, Any], opened: float, until: float) -> None:
    lone = Ask(_backlog=0, _is_known=False, **fields)
    lone._core.deadline = lone._deadline
    lone._admission.limits = [5 + ROOM] * 6
    lone._core.stack.session.open = lambda: opened
    assert (lone._open_session(100.0), lone._session_ends, lone._is_known) == (until, until, True)
    assert lone.done() == ["commit"] * (2 if until <= 100.0 else 1)
    assert lone._turn_lock.depth == 0


def test_a_session_needs_room_and_nothing_else_to_do() -> None:
    def opens(room: int = 5 + ROOM, closed_from: int = OPEN, overfed: bool = False, requests: int = 0) -> bool:
        lone = Ask()  # 5 bytes wait
        lone._admission.limits, lone._admission.closed_from = [room] * 6, closed_from
        lone._core.overfed, lone._core.outbox.requests = overfed, [1] * requests
        return lone._open_session(100.0) != -math.inf

    assert opens()
    assert not any((opens(room=4 + ROOM), opens(closed_from=OPEN - 1), opens(overfed=True), opens(requests=1)))
