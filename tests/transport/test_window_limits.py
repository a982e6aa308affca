"""Each limit of the window: how it grows, drains and closes, and which loss counts as the link's own."""

from __future__ import annotations

import math

import pytest

from glue.contract import BULK
from glue.transport import window as module
from glue.transport.window import DRAIN, DRAIN_FIRST, LEAST, MOST, QUEUE, REMEMBERED, SAMPLE, Window, least_part
from tests.transport.test_window import Path


def test_limits_and_times_of_the_window() -> None:
    assert (module.INITIAL, LEAST, MOST, module.MOST_THERE, module.SMALL, SAMPLE) == (128, 8, 2048, 3328, 32, 100)
    assert (QUEUE, module.SLACK, module.BULK_QUEUE, module.BULK_SLACK) == (0.025, 0.005, 0.0015, 0.00125)
    assert (module.FAST, module.FASTEST, module.SLOW, module.BULK_FAST_QUEUE) == (40_000, 150_000, 12_000, 0.002)
    assert (REMEMBERED, DRAIN_FIRST, DRAIN, module.OVERLOAD, module.NOISE) == (10.0, 0.5, 4.0, 0.5, 2.0)


@pytest.mark.parametrize(
    ("left", "window", "part"),
    [
        (64, 128.0, 64), (65, 128.0, 32), (65, 127.9, 31), (9000, 2048.0, 32), (3, 4.0, 1), (2, 4.0, 2), (9, 3.9, 1),
        (9, 8.0, 2), (1, 1.0, 1),
    ],
)  # fmt: skip
def test_the_least_part_of_a_message_depends_on_the_window(left: int, window: float, part: int) -> None:
    assert least_part(left, window) == part


def test_after_any_loss_it_grows_by_few_frames_first_and_by_ever_more() -> None:
    path, frames = Path(), []
    path.round(loss=2 / 128)
    for _ in range(5):
        frames.append(path.window.frames)
        path.round()
    assert [after - before for before, after in zip([128.0, *frames], frames, strict=False)] == [
        4.0,
        4.25,
        5.0,
        6.25,
        8.0,
    ]
    path.window._clean = 90
    before = path.window.frames
    path.round()
    assert path.window.frames == pytest.approx(before * 1.25), "at most a quarter at once"


def bulk() -> Path:
    path = Path()
    path.window = Window(BULK)
    return path


def test_bulk_begins_small_and_yields_to_the_least_queue() -> None:
    path = bulk()
    assert path.window.frames == 16.0
    path.round()
    assert path.window.frames == 32.0
    path.round(queue=0.0014)
    assert path.window.frames == 64.0
    path.round(queue=0.002)
    assert path.window.frames == pytest.approx(64 * (0.01 + 0.00125) / 0.012)
    before = path.window.frames
    path.round(queue=0.002)
    assert path.window.frames == before, "later, one long round alone may be jitter"
    path.round(queue=0.002)
    assert path.window.frames == pytest.approx(before * 0.01125 / 0.012)


def test_others_allow_a_queue_of_25_ms() -> None:
    path = Path(least=0.05)
    path.round()
    path.round(queue=QUEUE - 1e-6)
    assert path.window.frames == 512
    path.round(queue=QUEUE + 1e-6)
    assert path.window.frames == pytest.approx(512 * 0.055 / 0.075, rel=1e-4)


def test_a_window_of_which_half_was_not_used_stays() -> None:
    for delivered, frames in ((63, 128.0), (64, 192.0)):
        window = Window()
        window.acknowledged(100.0, delivered, 0.01, 1, 1)
        assert window.frames == frames


def test_a_round_ends_with_the_arrival_of_what_left_when_it_began() -> None:
    window = Window()
    window.acknowledged(100.0, 100, 0.01, 5, 300)
    assert window.frames == 228.0
    window.acknowledged(100.1, 150, 0.01, 299, 600)
    assert window.frames == 228.0
    window.acknowledged(100.2, 10, 0.01, 300, 600)
    assert window.frames == 388.0


def test_the_own_queue_is_drained_for_two_rounds_half_a_second_after_it_was_seen_then_every_four() -> None:
    path, drained = Path(least=0.2), []
    path.round()
    path.round(queue=0.006)
    before = path.window.frames
    for number in range(1, 56):
        path.round(queue=0.006)
        if path.window.frames == LEAST:
            drained.append(number)
        elif drained and drained[-1] == number - 1:
            assert path.window.frames == before
        before = max(before, path.window.frames)
    assert drained == [3, 4, 26, 27, 49, 50], "rounds of 0.206 s; one in between sees the queue again"


def test_a_queue_on_a_fast_way_or_a_short_one_is_not_drained() -> None:
    for least, queue in ((0.1, 0.0049), (0.005, 0.006)):
        path = Path(least)
        for _ in range(100):
            path.round(queue=queue if path.window.frames > 300 else 0.0)
            assert path.window.frames > LEAST


def test_the_least_round_trip_is_remembered_for_ten_to_twenty_seconds() -> None:
    window = Window()
    window._noise = 8.0
    assert window._queue(100.0, math.inf) == 0.0
    assert window._queue(100.0, 0.02) == 0.0
    assert window._queue(101.0, 0.01) == 0.0
    assert window._queue(100.0 + REMEMBERED - 1e-6, 0.04) == 0.03
    assert window._queue(100.0 + REMEMBERED, 0.04) == 0.03
    assert window._queue(100.0 + 2 * REMEMBERED - 1e-6, 0.05) == 0.04
    assert window._queue(100.0 + 2 * REMEMBERED, 0.05) == pytest.approx(0.01)
    assert window._noise == 1.0, "half with each of them"


def test_with_the_least_window_the_difference_of_round_trips_is_jitter() -> None:
    window = Window(BULK)
    window.frames = LEAST
    for best in (0.01, 0.018, math.inf, 0.018):
        window._listen(best)
    assert window._noise == pytest.approx(0.001 * 7 / 8)
    window.frames = LEAST + 1.0
    window._listen(0.5)
    window.frames = LEAST
    window._listen(0.9)
    assert window._noise == pytest.approx(0.001 * 7 / 8), "what lies between tells nothing"


def sampled(window: Window, share: float, total: int = 1000) -> bool:
    window._lost = round(share * total)
    window._arrived = total - window._lost
    return window._overloaded()


def test_few_frames_are_no_sample() -> None:
    window = Window()
    assert not sampled(window, 0.9, SAMPLE - 1)
    assert window._lost == 89
    assert sampled(window, 0.9, SAMPLE)
    assert (window._lost, window._arrived) == (0, 0)


@pytest.mark.parametrize(("share", "is_too_much"), [(0.074, False), (0.075, True), (0.0, False)])
def test_loss_beyond_the_margin_and_chance_closes_the_window(share: float, is_too_much: bool) -> None:
    window = Window()
    assert sampled(window, share) is is_too_much
    assert window._starting is (share == 0.0)


@pytest.mark.parametrize(
    ("share", "is_too_much", "usual"),
    [
        (0.37, True, 0.0),
        (0.376, False, 0.376),
        (0.5, False, 0.5),
        (0.59, False, 0.5),
        (0.6, True, 0.0),
        (0.7, True, 0.0),
    ],
)
def test_loss_that_stays_with_half_the_window_is_the_links_own(share: float, is_too_much: bool, usual: float) -> None:
    window = Window()
    assert sampled(window, 0.5)
    assert not sampled(window, 0.9), "these were under way"
    assert sampled(window, share) is is_too_much
    assert window._usual == pytest.approx(usual)
    assert window._tried == (-window._mean if is_too_much else 0.0)


def test_what_is_usual_falls_with_the_mean_and_the_share_of_loss_is_known_after_eight_samples() -> None:
    window = Window()
    for share in (0.5, 0.5, 0.5):
        sampled(window, share)
    assert window._usual == 0.5
    for count in range(4):
        assert math.isnan(window.loss)
        sampled(window, 0.0)
        assert window._usual == window._mean == pytest.approx(1.5 / (4 + count))
    sampled(window, 0.0)
    assert window.loss == pytest.approx(1.5 / 8)
    sampled(window, 0.0)
    assert window.loss == pytest.approx(1.5 / 8 * 7 / 8)


def test_on_a_wire_that_loses_nothing_no_sample_grows_old() -> None:
    window = Window()
    for _ in range(9):
        assert not sampled(window, 0.0)
    assert (window.loss, window._arrived) == (0.0, 0)
    window.lost(50)
    window._arrived += 50
    assert window._overloaded(), "what arrived before does not hide it"
