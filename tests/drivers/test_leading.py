"""The leader's handlers without threads and a network: who is called in which order, and who counts what."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import Missed
from glue.drivers import leader, malloc
from tests.drivers.lone_leader import Lead, Receiver, delivery


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


class Closing(Lead):
    """A driver whose parts note what they are asked for as it closes."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.did: list[Any] = []
        self.may_end: list[bool] = []
        self._turn_lock: Any = threading.RLock()
        self._core: Any = SimpleNamespace(
            is_done=True, outbox=SimpleNamespace(order=lambda request: self.did.append(type(request).__name__)),
            send=lambda now: [f"out at {now}"],
        )  # fmt: skip
        self._backpressure: Any = SimpleNamespace(admit=lambda: self.did.append("admit"))
        self._network: Any = SimpleNamespace(wake=lambda: self.did.append("wake"))
        self._network_seat: Any = SimpleNamespace(close=lambda: self.did.append("close"))
        alive, over = (
            SimpleNamespace(is_alive=lambda is_alive=is_alive: is_alive, join=lambda s, n=name: self.did.append((n, s)))
            for is_alive, name in ((True, "alive"), (False, "over"))
        )
        self._threads: Any = [threading.current_thread(), alive, over]
        for name, value in fields.items():
            setattr(self, name, value)

    def wait_until(self, condition: Any, timeout: float | None) -> bool:
        self.did.append(timeout)
        self.may_end.append(condition())
        return True

    def _leave(self, out: Any) -> None:
        self.did += [*out]

    def _tell_waiters(self) -> None:
        assert self._closed
        self.did.append("tell")


def test_an_end_says_goodbye_wakes_all_who_wait_and_joins_its_threads() -> None:
    lead = Closing()
    lead.close(2.5)
    assert lead.did == [2.5, "Leave", "out at 100.0", "tell", "admit", "wake", ("alive", 0.2), "close"]
    assert (lead._closed, lead._watch.is_set()) == (True, True)
    lead.did.clear()
    lead.close(2.5)
    assert lead.did == [2.5, "Leave"]


def test_an_end_waits_for_handlers_unless_it_is_called_in_one() -> None:
    waiting = [("receiver", "event")]
    for fields, is_done, may_end in (
        ({"_leader": None}, True, True), ({"_leader": None}, False, False),
        ({"_leader": None, "_events": waiting}, True, False), ({"_events": waiting}, True, True),
        ({"_events": waiting}, False, False),
    ):  # fmt: skip
        lead = Closing(**fields)
        lead._core.is_done = is_done
        lead.close(0.0)
        assert lead.may_end == [may_end]


def test_a_driver_begins_with_a_leader_and_a_standby_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[Any] = []
    core: Any = SimpleNamespace(
        settings=SimpleNamespace(queue_limit=100, malloc_threshold=7), renew_locks=lambda: None, security=None
    )
    network: Any = SimpleNamespace(wake=lambda: None)
    news: Any = Receiver()
    driver: Any = leader.ThreadDriver(core, network, news)
    assert (driver._core, driver._network, driver._news, driver.closed) == (core, network, news, True)
    fresh = driver._handling_since, driver._watching, driver._watch.is_set(), driver._skips_left, driver._skip_count
    assert fresh == (0.0, False, False, 0, 0)
    with driver._hand_out, driver._hand_out:  # as a handler may be the one who asks
        assert [*driver._threads] == []

    class Thread:
        """One that is not started."""

        def __init__(self, target: Any, name: str, daemon: bool) -> None:
            self.told = target.__name__, name, daemon

        def start(self) -> None:
            did.append(self.told)

    monkeypatch.setattr(leader, "threading", SimpleNamespace(Thread=Thread))
    monkeypatch.setattr(leader, "keep_freed_memory", did.append)
    monkeypatch.setattr(driver, "_maintain", lambda: did.append(driver.closed))
    driver.start()
    assert did == [7, False, ("_lead", "glue", True), ("_stand_by", "glue standby", True)]
    assert driver._leader.told == did[2]
    assert {thread.told for thread in driver._threads} == {*did[2:]}


@pytest.mark.parametrize(("threshold", "asked"), [(0, []), (5, [5])])
def test_freed_memory_is_kept_by_a_block_as_large_as_asked_for(
    threshold: int, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(malloc, "bytes", taken.append, raising=False)
    malloc.keep_freed_memory(threshold)
    assert taken == asked
