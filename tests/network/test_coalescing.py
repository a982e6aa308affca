"""The coalescing wait in virtual time: how long for the rest of a stream, by looks and asleep, and what ends it."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract.train_buffer import STREAM
from glue.network import batch_scheduling
from glue.network import receiver as module
from tests.network.test_reading import A, B, Filled, Read, receiver_of

SOCKET, OTHER = 7, 5  # file descriptors
LOOK, SLEEP = 20e-6, 0.001  # seconds that a look takes, and a sleep in which nothing comes
VAIN = [0, 0, 0, 1]  # what is asked of poll(2) in a wait in vain: three looks, and a millisecond
PART = Read(STREAM, A, 1024)


def noted(into: list[Any], what: Any) -> Any:
    """Append this; None, so that something else follows."""
    into.append(what)


class Coming:
    """A poll object on a clock: at each look or sleep these descriptors become readable, and these results wait."""

    def __init__(self, filled: Filled, steps: list[tuple[list[int], list[Read]]]) -> None:
        self._filled, self._steps = filled, steps
        self.now = 100.0
        self.asked: list[float] = []

    def register(self, fileno: int, events: int) -> None: ...

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        ready, results = self._steps.pop(0) if self._steps else ([], [])
        self._filled.left += results
        self.now += LOOK if not timeout else 0.0 if ready else SLEEP
        return [(fileno, 1) for fileno in ready]


def waited(
    monkeypatch: pytest.MonkeyPatch, first: list[Read], *steps: tuple[list[int], list[Read]], patient: bool = True
) -> tuple[list[int], list[float], Any]:
    """The sizes of the trains that come, what poll(2) was asked, and the receiver."""
    filled = Filled(*first)
    coming = Coming(filled, [*steps])
    monkeypatch.setattr(module, "select", SimpleNamespace(poll=lambda: coming, POLLIN=1))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: coming.now))
    receiver = receiver_of(filled, monkeypatch)
    sizes = [len(train.data) for train in receiver.receive(8, patient=patient)]
    return sizes, coming.asked, receiver


HERE: tuple[list[int], list[Read]] = ([SOCKET], [PART])
NOT_YET: tuple[list[int], list[Read]] = ([], [])


@pytest.mark.parametrize(("steps", "size", "asked"), [
    ([], 1, [*VAIN]), ([HERE], 2, [0, *VAIN]), ([NOT_YET, NOT_YET, HERE], 2, [0, 0, 0, *VAIN]),
    ([NOT_YET, NOT_YET, NOT_YET, HERE], 2, [*VAIN, 1]), ([HERE, HERE, HERE], 4, [0, 0, 0, *VAIN]),
    ([([OTHER], [])], 1, [0]), ([([SOCKET, OTHER], [PART])], 2, [0]), ([([OTHER], [PART])], 1, [0]),
    ([([SOCKET], [])], 1, [0, *VAIN]),
])  # fmt: skip
def test_the_rest_of_a_stream_is_looked_for_and_then_slept_for(
    steps: list[tuple[list[int], list[Read]]], size: int, asked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, found, receiver = waited(monkeypatch, [PART], *steps)
    assert (sizes[0], found, receiver.rested) == (size * STREAM, asked, True)


@pytest.mark.parametrize(("first", "patient", "rested"), [
    (PART, False, False), (Read(STREAM - 8, A, 8), True, False), (PART, True, True),
])  # fmt: skip
def test_only_who_is_patient_waits_and_for_a_stream_alone(
    first: Read, patient: bool, rested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, asked, receiver = waited(monkeypatch, [first], HERE, patient=patient)
    assert (bool(asked), receiver.rested, sizes[0]) == (rested, rested, first.size * (1 + rested))


def test_a_part_that_ends_short_is_the_last_and_what_came_with_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for last, follows in (
        (Read(1500, A, 1024), False), (Read(2048, A, 1024), True), (Read(STREAM, A, 1024), True), (Read(300), False)
    ):  # fmt: skip
        sizes, asked, _ = waited(monkeypatch, [PART], ([SOCKET], [last, Read(700, B, 300)]))
        assert sizes == [STREAM + last.size, 700]
        assert asked == [0], "no more is waited for behind a last part, nor where another's datagrams are there"
        assert follows or last.size % 1024


@pytest.mark.parametrize(("passed", "is_over"), [(0.0, False), (0.00199, False), (0.002, True), (0.003, True)])
def test_all_waits_of_a_call_last_for_two_milliseconds_together(
    passed: float, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, receiver = waited(monkeypatch, [])
    now, asked = [0.0], list[float]()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    poll = SimpleNamespace(poll=lambda timeout: noted(asked, timeout) or [(SOCKET, 1)])
    monkeypatch.setattr(receiver, "_poll", poll)
    for now[0], is_found in ((50.0, True), (50.0 + passed, not is_over)):
        assert receiver._wait_for_more() == ([SOCKET] if is_found else [])
    assert asked == [0] * (2 - is_over)
    assert [*receiver.receive(8)] == []
    assert receiver._wait_for_more() == [SOCKET], "the next call waits anew"


@pytest.mark.parametrize("entered", [True, False])
def test_where_several_receive_a_wait_is_a_sleep_in_batch_scheduling(
    entered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[Any] = []
    monkeypatch.setattr(batch_scheduling, "enter", lambda: noted(did, "enter") or entered)
    monkeypatch.setattr(batch_scheduling, "leave", lambda: did.append("leave"))
    poll: Any = SimpleNamespace(register=lambda *_: None, poll=lambda timeout: noted(did, timeout) or [(SOCKET, 1)])
    monkeypatch.setattr(module, "select", SimpleNamespace(poll=lambda: poll, POLLIN=1))
    opened: Any = Filled()
    receiver = module.Receiver(opened, True, Counter(), sched_batch=True)
    assert receiver._wait_for_more() == [SOCKET]
    assert did == ["enter", 1, *(["leave"] * entered)]
    poll.poll = lambda timeout: 1 // 0
    with pytest.raises(ZeroDivisionError):
        receiver._wait_for_more()
    assert did[3 - (not entered) :] == ["enter", *(["leave"] * entered)]
