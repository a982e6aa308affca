"""The leader's handlers without threads and a network: who is called in which order, and who counts what."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Delivery, Missed
from glue.drivers import leader
from glue.drivers.leader import ThreadDriver
from glue.drivers.turns import ATTENTIVE
from glue.endpoint.admission import OPEN
from glue.endpoint.core import EARLY


def delivery(sequence: int, *tokens: Any) -> Delivery:
    return Delivery("t", [b"x"], None, "you", "id-you", 1, sequence, 0.0, False, tokens)


class Receiver:
    """A subscription that notes what it is given, and does what the test says."""

    def __init__(self) -> None:
        self._busy = False
        self._mailbox: deque[Any] = deque()
        self.got: list[int] = []
        self.does: Any = lambda sequence: None

    def _deliver(self, event: Any) -> None:
        assert self._busy
        number = getattr(event, "sequence", 0)
        self.got.append(number)
        self.does(number)


class Lead(ThreadDriver):
    """A driver of which the test's own thread is the leader; it starts no thread, and counts what is handled."""

    def __init__(self) -> None:
        self._closed = False
        self._hand_out: Any = threading.RLock()
        self._leader: Any = threading.current_thread()
        self._events: Any = deque()
        self._news: Any = Receiver()
        self._handling_since = 0.0
        self._watching, self._watch = False, threading.Event()
        self._skips_left, self._asked_until = 0, 0.0
        self.replier = 0
        self.done: list[int] = []
        self.held: list[int] = []
        self.started: list[Any] = []
        self._core: Any = SimpleNamespace(hold=lambda delivery: self.held.append(delivery.sequence))
        self.is_exchange: bool = True
        self._send_policy: Any = SimpleNamespace(is_exchange=lambda now: self.is_exchange)

    def handled(self, delivery: Delivery) -> None:
        self.done.append(delivery.sequence)

    def _thread(self, target: Any, name: str) -> Any:
        assert target.__name__ in ("_lead", "_stand_by")
        return SimpleNamespace(start=lambda: self.started.append((target.__name__, name)))

    def hand_out(self, *events: Any) -> None:
        self._events += events
        self._hand_out_events(threading.current_thread())


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: 100.0))


def test_events_are_handed_out_in_order_and_deliveries_counted_once_handled() -> None:
    lead, one, two = Lead(), Receiver(), Receiver()
    one.does = lambda sequence: lead.done.append(-sequence)
    lead.hand_out((one, delivery(1)), (two, delivery(2)), (one, Missed("t", "you", "id-you", 1, "lost", ())))
    assert (one.got, two.got, lead.done) == ([1, 0], [2], [-1, 1, 2, 0])
    assert (one._busy, two._busy, lead._handling_since) == (False, False, 0.0)
    assert (lead._watching, lead._watch.is_set()) == (True, True)  # that no handler takes too long
    lead._watch.clear()
    lead.hand_out((one, delivery(3)))
    assert not lead._watch.is_set()


def test_what_comes_for_a_busy_receiver_waits_for_it_and_is_handled_by_who_serves_it() -> None:
    lead, busy, other = Lead(), Receiver(), Receiver()
    busy._busy = True
    lead.hand_out((busy, delivery(1)), (busy, delivery(2)), (other, delivery(3)))
    assert (busy.got, other.got, lead.done) == ([], [3], [3])
    lead._serve(threading.current_thread(), busy, delivery(0), is_held=False)
    assert (busy.got, lead.done, busy._busy, [*busy._mailbox]) == ([0, 1, 2], [3, 1, 2], False, [])


def test_a_handler_that_fails_in_any_way_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    lead, one = Lead(), Receiver()

    def fail(sequence: int) -> None:
        if sequence == 1:
            raise SystemExit

    one.does = fail
    lead.hand_out((one, delivery(1)), (one, delivery(2)))
    assert (one.got, lead.done) == ([1, 2], [1, 2])
    assert [record.getMessage().partition(" on ")[0] for record in caplog.records] == ["a handler failed"]


def test_a_leader_that_was_replaced_or_closed_hands_out_nothing_more() -> None:
    lead, one = Lead(), Receiver()

    def replace(sequence: int) -> None:
        assert lead._handling_since == 100.0
        lead._leader = None
        lead._handling_since = 7.0  # of the next leader

    one.does = replace
    lead.hand_out((one, delivery(1)), (one, delivery(2)))
    assert (one.got, len(lead._events), lead._handling_since) == ([1], 1, 7.0)
    lead = Lead()
    one.does = lambda sequence: setattr(lead, "_closed", True)
    lead.hand_out((one, delivery(3)), (one, delivery(4)))
    assert (one.got, len(lead._events)) == ([1, 3], 1)


def test_a_lone_message_is_handled_at_once_unless_others_want_it_or_its_receiver_is_busy() -> None:
    me, lead, one, two = threading.current_thread(), Lead(), Receiver(), Receiver()
    seen: list[Any] = []
    one.does = lambda sequence: seen.append((lead.replier, lead._handling_since))
    lead._handle_lone(me, 5, 99.0, delivery(1, one))
    assert (one.got, lead.held, lead.done, lead.replier) == ([1], [], [], 0)  # it was never counted as waiting
    assert seen == [(5, 99.0)]
    one.does = lambda sequence: setattr(lead, "replier", 6)  # another thread may reply by now
    lead._handle_lone(me, 5, 99.0, delivery(2, one))
    assert lead.replier == 6
    lead.replier = 0
    lead._handle_lone(me, 5, 99.0, delivery(3, one, two))
    two._busy = True
    lead._handle_lone(me, 5, 99.0, delivery(4, two))
    lead._leader = None
    lead._handle_lone(me, 5, 99.0, delivery(5, one))
    assert (one.got, two.got, lead.held, lead.replier) == ([1, 2], [], [3, 4, 5], 0)
    assert [(receiver is one, event.sequence) for receiver, event in lead._events] == [
        (True, 3), (False, 3), (False, 4), (True, 5),
    ]  # fmt: skip


def test_a_session_is_tried_while_lone_messages_come_fast_and_nothing_else_waits() -> None:
    lead: Any = Lead()
    network = SimpleNamespace(is_eager=True)
    assert lead._is_exchanging(network)
    lead._asked_until = 100.0
    assert lead._is_exchanging(network)
    lead._asked_until = 100.1  # a thread that asks has the network
    assert not lead._is_exchanging(network)
    lead._asked_until, lead._skips_left = 0.0, 2
    lead.is_exchange = False
    assert not lead._is_exchanging(network)
    lead.is_exchange = True
    assert [lead._is_exchanging(network) for _ in range(3)] == [False, False, True]
    network.is_eager = False
    assert not lead._is_exchanging(network)
    network.is_eager = True
    lead._events.append((lead._news, delivery(1)))
    assert not lead._is_exchanging(network)


def test_a_handler_that_waits_steps_down_once_and_only_as_the_leader() -> None:
    lead: Any = Lead()
    waited: list[float] = []

    def wait(timeout: float) -> bool:
        waited.append(timeout)
        return True

    event: Any = SimpleNamespace(wait=wait)
    lead._handling_since = 99.0
    assert lead.wait_for(event, 2.5)
    assert (lead.started, lead._handling_since, waited) == ([("_lead", "glue")], 0.0, [2.5])
    lead._handling_since = 98.0  # of the new leader
    assert lead.wait_for(event, 1.5)
    assert (len(lead.started), lead._handling_since) == (1, 98.0)
    closed: Any = Lead()
    closed._closed = True
    closed.wait_for(event, 1.0)
    assert closed.started == []
    handler: Any = Lead()
    leader._leading.driver = handler  # of another endpoint, in whose handler this is
    try:
        lead.wait_for(event, 1.0)
    finally:
        del leader._leading.driver
    assert (len(handler.started), len(lead.started)) == (1, 1)


# ------------------------------------------------------------------------------------------------------------ turns


class Turning(Lead):
    """A leader whose network, turns and sessions note what they are asked for."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.did: list[Any] = []
        self._woken, self._is_receiving, self._is_known = True, False, True
        self._waiters: Any = []
        self._sleeps_until = 0.0
        self._turn_lock: Any = threading.RLock()
        self._flushed_at, self._deadline, self._maintain_at = 0.0, 105.0, 130.0
        self._admission: Any = SimpleNamespace(closed_from=OPEN)
        self.streams = [False, False]
        self._network_seat: Any = SimpleNamespace(
            stand_aside=lambda streaming: self.did.append("aside"), wait=self.wait_at_network, glance=self.glance
        )
        self.arriving: list[Any] = []
        self.opened = [101.0]
        self._network_part: Any = SimpleNamespace(
            is_eager=True, source="source", take=lambda data: self.did.append(("take", data)),
            keep=lambda data: self.did.append(("keep", data)),
        )  # fmt: skip
        session = SimpleNamespace(is_open=False, receive=self.receive_lone)
        self._core.stack = SimpleNamespace(session=session)
        self._send_policy.arrived = lambda now: self.did.append(("arrived", now))
        self._received, self._skip_count, self._is_uncommitted = 0, 0, False
        for name, value in fields.items():
            setattr(self, name, value)

    def _streaming(self) -> bool:
        return self.streams.pop(0)

    def wait_at_network(self, seconds: float, is_due: Any, is_patient: bool) -> None:
        assert (is_due, self._woken, self._is_receiving) == (self._is_due, False, False)
        self.did.append(("wait", round(seconds, 6), round(self._sleeps_until, 6), is_patient))
        self._woken = True

    def _turn(self, now: float) -> None:
        assert (self._is_receiving, self._sleeps_until, self._woken) == (True, 0.0, False)
        self.did.append(("turn", now))

    def _update(self) -> None:
        self.did.append("update")

    def _maintain(self) -> None:
        self.did.append("maintain")

    def advance(self, longest: float = 60.0) -> list[Any]:
        self._advance(longest)
        return self.did

    # a session

    def _open_session(self, now: float) -> float:
        self.did.append("open")
        return self.opened.pop(0)

    def glance(self, network: Any, until: float, is_due: Any) -> Any:
        assert (network, is_due, self._woken, self._sleeps_until) == (
            self._network_part, self._is_due, False, float("inf"),
        )  # fmt: skip
        return self.arriving.pop(0) if self.arriving else None

    def receive_lone(self, now: float, data: Any, source: str) -> Any:
        assert (now, source) == (100.0, "source")
        if isinstance(data, BaseException):
            raise data
        return data if isinstance(data, Delivery) else None

    def run_session(self, *arriving: Any) -> bool:
        self.arriving = [*arriving]
        return self._run_session(threading.current_thread())


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
