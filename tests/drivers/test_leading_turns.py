"""The leader's turns and sessions without threads and a network: how long it waits, and what passes when."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from glue.drivers import leader
from glue.drivers.turns import ATTENTIVE
from glue.endpoint.admission import OPEN
from glue.endpoint.core import EARLY
from glue.fastpath.session import PERIOD
from tests.drivers.lone_leader import Receiver, Turning, delivery


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: 100.0))


def test_a_leader_sleeps_until_the_earliest_and_runs_a_turn() -> None:
    assert Turning().advance() == [("wait", 5.0, 105.0, False), ("turn", 100.0), "update"]
    assert Turning(is_exchange=False).advance()[0] == ("wait", 5.0, 105.0, True)
    assert Turning().advance(2.0)[0] == ("wait", 2.0, 102.0, False)
    assert Turning(_maintain_at=103.0).advance()[0] == ("wait", 3.0, 103.0, False)
    assert Turning(_deadline=99.0).advance()[0] == ("wait", 0.0, 99.0, False)
    after = 100.0 + ATTENTIVE  # a publisher has just had a turn
    assert Turning(_flushed_at=99.995).advance()[0] == ("wait", ATTENTIVE, after, False)
    assert Turning(_flushed_at=99.993).advance()[0] == ("wait", 5.0, 105.0, False)
    lead = Turning()
    lead.advance()
    assert (lead._is_receiving, lead._sleeps_until, lead._woken) == (False, 0.0, False)


def test_handlers_come_before_what_the_turn_leaves_unless_somebody_waits() -> None:
    turn = [("wait", 5.0, 105.0, False), ("turn", 100.0)]
    event = (None, delivery(1))
    assert Turning(_events=deque([event])).advance() == turn
    assert Turning(_events=deque([event]), _waiters=[1]).advance() == ["update", *turn, "update"]
    stopped = SimpleNamespace(closed_from=OPEN - 1)
    assert Turning(_events=deque([event]), _admission=stopped).advance() == [*turn, "update"]
    assert Turning(_is_known=False).advance() == ["update", *turn, "update"]


def test_a_leader_maintains_the_network_a_little_early_and_stands_aside_in_a_stream() -> None:
    for due, is_early in ((100.0 + EARLY, True), (100.01 + EARLY, False)):
        assert ("maintain" in Turning(_maintain_at=due).advance()) is is_early
    wait = ("wait", 5.0, 105.0, False)
    assert Turning(streams=[True, False]).advance() == ["aside", wait, ("turn", 100.0), "update"]
    assert Turning(streams=[True, True]).advance() == ["aside", wait]
    assert Turning(streams=[False, True]).advance() == [wait]  # the stream began meanwhile
    lead = Turning()
    lead._closed = True
    assert lead.advance() == [wait]


def test_lone_messages_pass_in_a_session_until_none_comes() -> None:
    lead, one = Turning(), Receiver()
    first, second = delivery(1, one), delivery(2, one)
    assert not lead.run_session(first, second)
    passed = [entry for some in (first, second) for entry in (("take", some), ("arrived", 100.0))]
    assert (one.got, lead.did, lead._received) == ([1, 2], ["open", *passed], 2)
    assert (lead._is_uncommitted, lead._is_known, lead._watching) == (True, False, True)
    assert (lead._skips_left, lead._skip_count, lead._sleeps_until) == (0, 0, 0.0)
    lead = Turning(is_exchange=False)
    assert (lead.run_session(first), lead.did) == (False, [])
    lead = Turning(_network_part=None)
    assert (lead.run_session(first), lead.did) == (False, [])


def test_a_session_in_which_nothing_passed_is_tried_more_rarely() -> None:
    lead, skipped = Turning(opened=[101.0] * 10), list[int]()
    for _ in range(8):
        lead._skips_left = 0
        lead.run_session()
        skipped.append(lead._skips_left)
    assert skipped == [1, 3, 7, 15, 31, 63, 63, 63]
    lead._skips_left = 0
    lead.run_session(delivery(1, Receiver()))
    assert (lead._skips_left, lead._skip_count) == (0, 0)


def test_what_is_no_part_of_a_session_is_kept_for_the_ordinary_way() -> None:
    lead, one = Turning(), Receiver()
    lead._core.stack.session.is_open = True
    assert not lead.run_session(delivery(1, one), "other", delivery(2, one))
    assert (one.got, lead.did[-2:]) == ([1], [("keep", "other"), "update"])
    lead = Turning()
    error = KeyError("damaged")
    with pytest.raises(KeyError):
        lead.run_session(error)
    assert lead.did == ["open", ("keep", error)]
    lead = Turning(opened=[100.0])  # nothing may pass now
    assert not lead.run_session(delivery(3, one))
    assert (one.got, lead.did) == ([1], ["open"])
    lead = Turning()
    assert lead.run_session(delivery(4, one, one))  # several receivers, in the ordinary way
    assert len(lead._events) == 2
    lead = Turning()
    one.does = lambda sequence: setattr(lead, "_leader", None)
    assert lead.run_session(delivery(5, one), delivery(6, one))  # another thread leads by now
    assert one.got == [1, 5]


def test_a_session_is_committed_when_it_is_time_or_nothing_came(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    one, looks = Receiver(), list[float]()
    steps: list[tuple[float, Any]] = [
        (PERIOD, delivery(1, one)), (0.0, None), (2.0, delivery(2, one)), (0.0, delivery(3, one)), (0.0, None),
        (0.0, None),
    ]  # fmt: skip

    def glance(network: Any, until: float, is_due: Any) -> Any:
        looks.append(round(until - clock[0], 9))
        after, found = steps.pop(0)
        clock[0] += after
        return found

    lead = Turning(opened=[101.0, 102.0, 105.0])
    lead._network_seat.glance = glance
    lead._core.stack.session.receive = lambda now, data, source: data if now == clock[0] else None

    def session_until(now: float) -> float:
        lead.did.append("until")
        return 104.0

    monkeypatch.setattr(lead, "_session_until", session_until)
    assert not lead.run_session()
    # After a period without a message what passed is committed, and once that has to be looked at.
    brief, briefer = round(leader.BRIEF, 9), round(leader.BRIEFER, 9)
    assert looks == [brief, briefer, brief, briefer, briefer, brief]
    assert one.got == [1, 2, 3]
    assert [what for what in lead.did if isinstance(what, str)] == ["open", "open", "until", "open"]


def test_a_leader_leads_until_it_is_replaced_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    me, did = threading.current_thread(), list[Any]()
    monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=did.append))
    sessions: list[Any] = [True, False, KeyError("fault"), False]

    def run_session(thread: Any) -> bool:
        assert thread is me
        found = sessions.pop(0)
        did.append("session")
        if isinstance(found, Exception):
            raise found
        return bool(found)

    def hand_out(thread: Any) -> None:
        did.append("hand out")
        lead._events.clear()
        if not sessions:
            lead._leader = None

    def advance(longest: float) -> None:
        did.append(("advance", longest))
        lead._events.append((lead._news, delivery(1)))

    lead: Any = Turning()
    lead._threads = {me}
    for name, function in (("_run_session", run_session), ("_advance", advance), ("_hand_out_events", hand_out)):
        monkeypatch.setattr(lead, name, function)
    lead._lead()
    turn = ["session", ("advance", leader.SLEEP), "hand out"]
    assert did == ["session", *turn, "session", leader.PATIENCE, *turn]
    assert (lead._skips_left, lead._threads, leader._leading.driver is lead) == (1, set(), True)
    assert [record.getMessage() for record in caplog.records] == ["turn failed"]
    lead._closed, lead._leader = True, me
    lead._lead()
    assert len(did) == 9
    del leader._leading.driver


class Standby(Turning):
    """A driver whose standby thread is the test's own; each of its looks takes a step of the test."""

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self._leader, self._watching = None, True
        self._threads: Any = {threading.current_thread()}
        self.steps, self.looks = [*steps], 0
        self._watch: Any = SimpleNamespace(wait=self.wait, clear=lambda: self.did.append("clear"))

    def sleep(self, seconds: float) -> None:
        assert seconds == leader.PATIENCE
        self.looks += 1
        step = self.steps.pop(0)
        if step is None:
            self._closed = True
        else:
            self._handling_since = step

    def wait(self) -> None:
        self.did.append(("wait", self.looks, self._watching))

    def _lead(self) -> None:
        self.did.append(("lead", self._leader is threading.current_thread(), self._handling_since))

    def stand_by(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=self.sleep))
        self._stand_by()
        return self.did


def test_a_standby_thread_takes_the_lead_from_a_long_handler_and_leaves_another_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience = leader.PATIENCE
    lead = Standby(0.0, 100.0, 100.001 - patience, 99.999 - patience)
    assert lead.stand_by(monkeypatch) == [("lead", True, 0.0)]
    assert (lead.looks, lead.started) == (4, [("_stand_by", "glue standby")])
    lead = Standby(99.0, 99.0, None)
    lead._threads |= {*range(leader.FOLLOWERS - 1)}  # no more threads than so many
    assert lead.stand_by(monkeypatch) == []
    assert (lead.looks, lead.started, len(lead._threads)) == (3, [], leader.FOLLOWERS - 1)
    lead = Standby(99.0)
    lead._threads |= {*range(leader.FOLLOWERS - 2)}
    assert lead.stand_by(monkeypatch) == [("lead", True, 0.0)]


def test_a_standby_thread_sleeps_while_there_is_no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = leader.QUIET
    lead = Standby(*[0.0] * 3, 100.0, *[0.0] * (2 * quiet + 2), None)
    assert lead.stand_by(monkeypatch) == [
        ("wait", quiet + 5, False), "clear", ("wait", 2 * quiet + 6, False), "clear",
    ]  # fmt: skip
    assert (lead._watching, lead.started, lead._threads) == (True, [], set())
