"""Who waits for the network: one thread at a time, and none is left deaf."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from glue.contract import Network
from glue.drivers import network_seat
from glue.drivers.network_seat import ASIDE, LONGER, LONGEST, RELIEF, NetworkSeat
from glue.network.waiter import Waiter

SOON = 5.0  # seconds until a test fails that waits for what comes at once


class Line:
    """A network of which only the waiting is needed: until it is woken."""

    def __init__(self) -> None:
        self.waits: list[threading.Thread] = []
        self.waiting = threading.Event()
        self.waiter = Waiter([])

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        self.waits.append(threading.current_thread())
        self.waiting.set()
        self.waiter.wait(timeout)
        self.waiting.clear()

    def wake(self) -> None:
        self.waiter.wake()

    def close(self) -> None:
        assert not self.waiting.is_set()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.waiter.close()


@pytest.fixture
def seat(line: Line) -> NetworkSeat:
    return NetworkSeat(cast(Network, line))


class Aside(threading.Thread):
    """A leader that stands aside until it is called, and then waits for the network unless something is due."""

    def __init__(self, seat: NetworkSeat) -> None:
        super().__init__()
        self.due = False
        self._network_seat = seat

    def run(self) -> None:
        self._network_seat.stand_aside(lambda: True)
        self._network_seat.wait(SOON, lambda: self.due, False)


def stands_aside(seat: NetworkSeat) -> Aside:
    """A leader that does so by now."""
    thread = Aside(seat)
    thread.start()
    while not seat.is_aside:
        pass
    return thread


@pytest.fixture
def leader(seat: NetworkSeat, line: Line) -> Iterator[Aside]:
    thread = stands_aside(seat)
    yield thread
    thread.due = True
    seat.call()
    line.wake()
    thread.join(SOON)
    assert not thread.is_alive()


def waits(seat: NetworkSeat) -> bool:
    return seat.relieve(math.inf, lambda: False, lambda: False)


@pytest.fixture
def publisher(seat: NetworkSeat, line: Line, leader: Aside) -> Iterator[threading.Thread]:
    """One that waits in the leader's place."""
    thread = threading.Thread(target=waits, args=(seat,))
    thread.start()
    assert line.waiting.wait(SOON)
    yield thread
    thread.join(SOON)
    assert not thread.is_alive()


def test_who_asks_there_is_one_that_others_wake_for_a_moment(
    seat: NetworkSeat, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, woken = [100.0], list[float]()
    monkeypatch.setattr(network_seat, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(line, "wake", lambda: woken.append(now[0]))
    assert seat.take(0.0)
    assert (seat.take(0.0), woken) == (False, [100.0]), "one at a time; who has it is woken"
    for now[0] in (100.0 + LONGER / 2, 100.0 + LONGER):
        seat.hurry()
    seat.leave()
    seat.hurry()
    assert woken == [100.0, 100.0 + LONGER / 2, 100.0 + LONGER], "the last time the leader, by whom it is left"


def test_nobody_takes_the_place_of_a_leader_who_does_not_stand_aside(seat: NetworkSeat, line: Line) -> None:
    assert not waits(seat)
    assert not line.waits


def test_nobody_waits_for_what_is_there(seat: NetworkSeat, line: Line, leader: Aside) -> None:
    assert not seat.relieve(math.inf, lambda: True, lambda: False)
    assert seat.relieve(math.inf, lambda: False, lambda: True)
    assert not line.waits


def test_a_publisher_waits_in_the_leaders_place_until_something_comes(
    seat: NetworkSeat, line: Line, leader: Aside
) -> None:
    line.wake()
    assert waits(seat)
    assert line.waits == [threading.current_thread()]
    assert not seat.is_relieved


def test_who_waits_there_runs_a_turn_for_others_who_are_in_a_hurry(
    seat: NetworkSeat, publisher: threading.Thread
) -> None:
    seat.hurry()
    publisher.join(SOON)
    assert not publisher.is_alive()


def test_a_leader_looks_without_waiting_if_its_place_does_not_become_free(seat: NetworkSeat, line: Line) -> None:
    """As while the handler of a signal runs in the thread that has it."""

    def called(timeout: float | None, patient: bool = False) -> None:
        seat.call()
        back.join(SOON)  # it ends nevertheless

    line.wait = called  # type: ignore[method-assign]
    back = stands_aside(seat)
    assert waits(seat)
    assert not back.is_alive()
    del line.wait


def test_a_second_publisher_does_not_wait_behind_the_first(
    seat: NetworkSeat, line: Line, publisher: threading.Thread
) -> None:
    assert seat.is_relieved
    assert not waits(seat)
    line.wake()
    publisher.join(SOON)
    assert line.waits == [publisher]


def test_a_publisher_does_not_wait_behind_a_leader_who_is_back(seat: NetworkSeat, line: Line, leader: Aside) -> None:
    seat.call()
    assert line.waiting.wait(SOON)
    seat.is_aside = True  # as it was when the publisher looked
    assert not waits(seat)
    seat.is_aside = False


def test_a_leader_who_is_called_takes_the_place_back(
    seat: NetworkSeat, line: Line, leader: Aside, publisher: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "glue.drivers.network_seat.LONGER", SOON
    )  # on a busy machine the publisher takes that long to go
    seat.call()
    publisher.join(SOON)
    assert not publisher.is_alive()
    leader.join(SOON)  # what had woken the publisher was passed on
    assert line.waits == [publisher, leader]


def test_a_leader_with_something_to_do_does_not_wait(seat: NetworkSeat, line: Line, leader: Aside) -> None:
    leader.due = True
    seat.call()
    leader.join(SOON)
    assert not line.waits


def test_ctrl_c_ends_the_wait_and_frees_the_place(seat: NetworkSeat, line: Line, leader: Aside) -> None:
    class Interrupting(threading.Thread):
        def run(self) -> None:
            assert line.waiting.wait(SOON)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = Interrupting()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        waits(seat)
    thread.join(SOON)
    assert not seat.is_relieved
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_the_handler_of_a_signal_does_not_wait_behind_the_wait_that_it_interrupts(
    seat: NetworkSeat, line: Line, leader: Aside, number: signal.Signals
) -> None:
    """That of Ctrl-C is called when the place is free again, that of another signal at once."""
    entered: list[int] = []
    waited: list[bool] = []

    def handle(number: int, frame: FrameType | None) -> None:
        waited.append(waits(seat))

    def interrupted(timeout: float | None, patient: bool = False) -> None:
        entered.append(number)
        if len(entered) == 1:
            signal.raise_signal(number)

    line.wait = interrupted  # type: ignore[method-assign]
    before = signal.signal(number, handle)
    try:
        assert waits(seat)
        assert number == signal.SIGINT or signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(number, before)
        del line.wait
    assert waited == [number == signal.SIGINT]
    assert not seat.is_relieved


def test_what_a_network_raises_is_logged_and_frees_the_place(
    seat: NetworkSeat, line: Line, leader: Aside, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(timeout: float | None, patient: bool = False) -> None:
        raise OSError("unplugged")

    line.wait = fail  # type: ignore[method-assign]
    assert not waits(seat)
    assert not seat.is_relieved
    assert "unplugged" in caplog.text
    del line.wait


def test_the_network_is_closed_when_nobody_waits_for_it(
    seat: NetworkSeat, line: Line, publisher: threading.Thread
) -> None:
    closer = threading.Thread(target=seat.close)
    closer.start()
    line.wake()
    closer.join(SOON)
    assert not closer.is_alive()


class Patience:
    """A lock that nobody ever frees, which notes how long it was waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        if blocking:
            self.waits.append(timeout)
        return False


def test_a_leader_who_stands_aside_looks_ever_less_often_but_is_back_soon(
    seat: NetworkSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Patience()
    monkeypatch.setattr(seat, "_called", lock)
    looks = iter([True] * 6 + [False])
    seat.stand_aside(lambda: next(looks))
    assert lock.waits == [ASIDE, 2 * ASIDE, LONGEST, LONGEST, LONGEST, LONGEST]
    assert LONGEST <= 0.005
    assert not seat.is_aside


class Asked:
    """A network that notes how it is waited for, and what is so meanwhile."""

    def __init__(self) -> None:
        self.waits: list[tuple[float, bool]] = []
        self.wakes = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def wait(self, timeout: float, patient: bool = False) -> None:
        self.waits.append((round(timeout, 6), patient))
        self.meanwhile()

    def wake(self) -> None:
        self.wakes += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[NetworkSeat, Asked, list[float]]:
    """A seat, its network and the time."""
    now, network = [100.0], Asked()
    monkeypatch.setattr(network_seat, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return NetworkSeat(cast(Network, network)), network, now


@pytest.mark.parametrize(("until", "seconds"), [(math.inf, RELIEF), (100.01, 0.01), (99.0, 0.0), (100.0, 0.0)])
def test_a_publisher_waits_until_something_is_due_and_for_a_moment_at_most(
    asked: tuple[NetworkSeat, Asked, list[float]], until: float, seconds: float
) -> None:
    seat, network, now = asked
    seat.is_aside = True
    relieved: list[bool] = []

    def look() -> None:
        for now[0] in (100.0 + seconds + LONGER - 1e-6, 100.0 + seconds + LONGER + 1e-6):
            relieved.append(seat.is_relieved)

    network.meanwhile = look
    assert seat.relieve(until, lambda: False, lambda: False)
    assert (network.waits, relieved, network.wakes) == ([(seconds, True)], [True, False], 0)
    assert seat.take(0.0), "the seat is free again"


@pytest.mark.parametrize(("is_aside", "is_over", "is_due", "result"), [
    (True, False, False, True), (True, False, True, True), (True, True, False, False), (False, False, False, False),
])  # fmt: skip
def test_a_leader_that_came_back_meanwhile_is_woken_by_whoever_leaves_the_seat(
    asked: tuple[NetworkSeat, Asked, list[float]], is_aside: bool, is_over: bool, is_due: bool, result: bool
) -> None:
    seat, network, _ = asked
    seat.is_aside = is_aside
    assert seat.relieve(math.inf, lambda: is_over, lambda: is_due) is result
    assert (len(network.waits), network.wakes) == (result and not is_due, not is_aside)
    assert seat.take(0.0)
    seat.leave()
    assert network.wakes == 2 * (not is_aside)


@pytest.mark.parametrize(("is_taken", "is_due", "waits", "wakes", "glanced"), [
    (False, False, [(7.0, True), (7.0, False)], 0, b"data"), (False, True, [], 0, None), (True, False, [], 2, None),
])  # fmt: skip
def test_a_leader_waits_at_a_free_seat_and_wakes_who_has_it(
    asked: tuple[NetworkSeat, Asked, list[float]],
    is_taken: bool,
    is_due: bool,
    waits: object,
    wakes: int,
    glanced: bytes | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_seat, "LONGER", 0.001)
    seat, network, _ = asked
    if is_taken:
        assert seat.take(0.0)
    for patient in (True, False):
        seat.wait(7.0, lambda: is_due, patient)
    assert (network.waits, network.wakes) == (waits, wakes)
    part = SimpleNamespace(glance=lambda until: b"data" if until == 101.0 else None)
    assert seat.glance(cast(Any, part), 101.0, lambda: is_due) == glanced
    assert seat._seat.locked() is is_taken


@pytest.mark.parametrize("way", ["wait", "glance"])
def test_a_leader_whose_wait_fails_leaves_the_seat_free(
    way: str, seat: NetworkSeat, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the network fails")

    monkeypatch.setattr(line, "wait", fail)
    part: Any = SimpleNamespace(glance=fail)
    ways: dict[str, Callable[[], object]] = {
        "wait": lambda: seat.wait(SOON, lambda: False, False),
        "glance": lambda: seat.glance(part, math.inf, lambda: False),
    }
    with pytest.raises(OSError, match="the network fails"):
        ways[way]()
    assert seat.take(0.0), "others may wait there"
    seat.leave()
