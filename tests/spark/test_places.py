"""Where endpoints are taken to live."""

from __future__ import annotations

from typing import Any

from spark.analyze.places import Life, find_homes

NO_ANSWERS: dict[tuple[str, str, str], float] = {}


def homes(
    coverage: dict[str, list[int]], points: str, answers: dict[tuple[str, str, str], float], **leaving: Any
) -> Any:
    """The home of each life, of which so many datagrams were seen at each of the points, of 1,000 sent."""
    lives = [Life(name, 1, name, (name, 1), {}, leaving.get(name, {})) for name in coverage]
    rows = [
        {"sender": name, "incarnation": 1, "span": 1000}
        | {f"seen_{number}": count for number, count in enumerate(counts)}
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
