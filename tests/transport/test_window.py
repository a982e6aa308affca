"""The window opens while all goes well, closes when a queue grows or more is lost than usual, and stays in bounds."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.transport.window import FASTEST, INITIAL, LEAST, MOST, MOST_THERE, OVERLOAD, QUEUE, SAMPLE, Window
from tests.transport.network import Wire


class Path:
    """Round trips of a window that is always used: each loses a share, and takes `least` and a queue."""

    def __init__(self, least: float = 0.01) -> None:
        self.window = Window()
        self.least = least
        self.now = 100.0
        self.sent = 0

    def round(self, loss: float = 0.0, queue: float = 0.0) -> None:
        """One round trip."""
        frames = int(self.window.frames)
        lost = round(frames * loss)
        self.sent += frames
        self.now += self.least + queue
        self.window.lost(lost)
        self.window.acknowledged(self.now, frames - lost, self.least + queue, self.sent, self.sent)


def test_it_doubles_each_round_trip_at_the_start() -> None:
    path = Path()
    path.round()
    assert path.window.frames == 2 * INITIAL
    path.round()
    assert path.window.frames == 4 * INITIAL


def test_a_window_that_is_not_used_does_not_grow() -> None:
    window = Window()
    for number in range(100):
        window.acknowledged(number * 0.01, 1, 0.01, number, number + 1)
    assert window.frames == INITIAL


@pytest.mark.parametrize("loss", [0.01, 0.1, 0.2, 0.4])
def test_loss_that_does_not_depend_on_the_window_does_not_keep_it_small(loss: float) -> None:
    path, random = Path(), Random(1)
    for _ in range(200):
        lost = sum(random.random() < loss for _ in range(int(path.window.frames)))
        path.round(loss=lost / path.window.frames)
    assert path.window.frames > MOST / 2
    assert path.window.loss == pytest.approx(loss, abs=0.1)


def test_an_overflowing_queue_keeps_it_about_as_large_as_the_path_is() -> None:
    path, capacity = Path(), 200
    frames, excess = [], []
    for _ in range(300):
        excess.append(max(0.0, 1 - capacity / path.window.frames))
        path.round(loss=excess[-1])
        frames.append(path.window.frames)
    settled = sorted(frames[50:])
    assert capacity / 2 <= settled[0]
    assert settled[-1] < 2 * capacity
    assert sum(excess[50:]) / 250 < 0.15


def test_a_slow_path_gets_no_longer_a_queue_than_is_allowed() -> None:
    path, capacity = Path(least=0.005), 5000.0  # frames a second
    queues = []
    for _ in range(300):
        queues.append(max(0.0, path.window.frames / capacity - path.least))
        path.round(queue=queues[-1])
    assert max(queues[10:]) < 2 * QUEUE
    full = sum(queue > 0 for queue in queues[10:])
    assert full > 0.9 * 290


def test_on_a_fast_path_a_slow_turn_of_the_receiver_does_not_matter() -> None:
    path = Path(least=0.0002)
    for _ in range(10):
        path.round()
    assert path.window.frames == MOST_THERE
    for number in range(100):
        path.round(queue=0.03 if number % 3 == 0 else 0.0)
        assert path.window.frames >= MOST


def test_it_is_largest_only_as_long_as_so_much_is_gone_at_once() -> None:
    path = Path(least=0.02)
    for _ in range(30):
        path.round()
    assert path.window.frames == MOST
    path.least = 0.001
    for _ in range(30):
        path.round()
    assert path.window.frames == MOST_THERE
    path.least = MOST_THERE / 0.99 / FASTEST
    path.round()
    assert path.window.frames == MOST


def test_as_much_loss_as_no_link_has_closes_it_as_far_as_it_goes() -> None:
    path = Path()
    for _ in range(1000):
        path.round(loss=0.9)
    assert path.window.frames == LEAST


def test_one_loss_too_many_halves_it_once() -> None:
    path = Path()
    path.round(loss=0.5)
    assert path.window.frames == INITIAL * OVERLOAD
    assert SAMPLE <= INITIAL


@given(st.lists(st.tuples(st.floats(0, 1), st.one_of(st.floats(0, 1), st.just(math.inf))), max_size=300))
def test_it_stays_within_its_bounds(steps: list[tuple[float, float]]) -> None:
    path = Path()
    for loss, queue in steps:
        path.round(loss=loss, queue=queue)
        assert LEAST <= path.window.frames <= MOST_THERE


@pytest.mark.parametrize(
    ("frames", "parts"),
    [(INITIAL // 2, [INITIAL // 2] * 2), (INITIAL // 2 + 1, [INITIAL // 2 + 1, INITIAL // 2 - 1])],
    ids=["half", "more"],
)
def test_what_fits_into_half_of_it_is_sent_whole_or_not_yet(frames: int, parts: list[int]) -> None:
    wire = Wire(2)
    for _ in range(3):
        wire.publish(0, [1], b"frame", frames)
    assert [len(item.bodies) for _, _, item in wire.sent] == parts
    wire.run(1.0)
    assert len(wire.heard[wire.ids[1]]) == 3 * frames
    assert wire.backlog == 0


def test_a_receiver_that_takes_less_than_a_message_at_once_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.transport.incoming.WINDOW", 100)
    wire = Wire(2)
    for _ in range(20):
        wire.publish(0, [1], b"frame", 300)
    wire.run(10.0)
    assert len(wire.heard[wire.ids[1]]) == 20 * 300
    assert wire.backlog == 0
