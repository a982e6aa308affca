"""Where endpoints are taken to live."""

from __future__ import annotations

from typing import Any

from spark.analyze.places import Life, find_homes

NO_ANSWERS: dict[tuple[str, str, str], float] = {}


def homes(
    coverage: dict[str, list[int]],
    points: str,
    answers: dict[tuple[str, str, str], float],
    counters: dict[str, list[tuple[int, int]]] | None = None,
    **leaving: Any,
) -> Any:
    """The home of each life, of which so many datagrams were seen at each of the points, of 1,000 sent.

    `counters` are the first and last that a point saw in each of its files; by default all in one file.
    """
    ranges = {point: [(0, 999)] for point in points.split()} | (counters or {})
    lives = [Life(name, 1, name, (name, 1), {}, leaving.get(name, {}), ranges) for name in coverage]
    rows = [
        {"sender": name, "incarnation": 1} | {f"seen_{number}": count for number, count in enumerate(counts)}
        for name, counts in coverage.items()
    ]
    find_homes(lives, points.split(), rows, answers)
    return {life.name: life.home for life in lives}


def test_home_is_where_most_was_seen() -> None:
    assert homes({"a": [1000, 900], "b": [700, 1000]}, "p q", NO_ANSWERS) == {"a": "p", "b": "q"}


def test_a_noted_direction_tells_the_home() -> None:
    assert homes({"a": [900, 1000]}, "p q", NO_ANSWERS, a={"p": 900, "q": 0}) == {"a": "p"}


def test_where_nothing_was_lost_home_is_where_answers_to_it_take_longest() -> None:
    answers = {("a", "b", "p"): 80_000.0, ("a", "b", "q"): 9_000.0}
    assert homes({"a": [1000, 1000], "b": [1000, 999]}, "p q", answers) == {"a": "p", "b": "q"}


def test_a_single_point_is_home_to_those_whose_counters_have_no_gaps() -> None:
    assert homes({"a": [1000], "b": [930]}, "p", NO_ANSWERS) == {"a": "p", "b": None}


def test_a_point_that_captured_for_a_shorter_time_is_home_if_it_missed_nothing_meanwhile() -> None:
    assert homes({"a": [950, 300]}, "p q", NO_ANSWERS, {"q": [(200, 499)]}) == {"a": "q"}


def test_a_point_that_captured_twice_with_a_pause_is_home_if_it_missed_nothing_meanwhile() -> None:
    assert homes({"a": [950, 300]}, "p q", NO_ANSWERS, {"q": [(800, 999), (0, 99)]}) == {"a": "q"}


def test_files_of_a_point_that_overlap_do_not_count_twice() -> None:
    assert Life("a", 1, "a", ("a", 1), counters={"p": [(5, 9), (0, 6), (2, 3), (20, 20)]}).span("p") == 11


def test_a_point_that_saw_one_datagram_is_not_home() -> None:
    assert homes({"a": [960, 1]}, "p q", NO_ANSWERS, {"q": [(500, 500)]}) == {"a": "p"}
