"""Where endpoints are taken to live."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from spark.analyze import places
from spark.analyze.places import Life, find_homes, find_lives

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
    assert homes({"a": [960, 0]}, "p q", NO_ANSWERS, {"q": []}) == {"a": "p"}


def test_a_point_that_saw_few_is_home_the_sooner_the_more_they_were() -> None:
    """By the rule of succession, all of 22 count as 23 of 24."""

    def home(seen: int, few: int) -> str:
        return str(homes({"a": [seen, few]}, "p q", {("a", "b", "q"): 9.0}, {"q": [(0, few - 1)]})["a"])

    assert [home(980, few) for few in (22, 23)] == ["p", "q"]  # 23 of 24 and 24 of 25, beside 981 of 1,002


Found = tuple[list[Life], dict[tuple[str, str], str]]


def found(patch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> Found:
    """The lives of which this was seen, the endpoint a by its name, and new names of points."""
    tables = {"places": rows, "names": [{"sender": "a", "incarnation": 1, "name": "Anna"}]}
    patch.setattr(places, "gather", lambda *_: {name: pa.Table.from_pylist(table) for name, table in tables.items()})
    patch.setattr(places, "sql", Mock())
    return find_lives(Mock(), Mock())


def seen(sender: str, first: int, last: int, counters: tuple[int, int], **more: Any) -> dict[str, Any]:
    row = {
        "sender": sender,
        "incarnation": 1,
        "source": "10.0.0.1",
        "source_port": 5000,
        "point": "p",
        "file": "a.pcap",
    }
    row |= {"first": first, "last": last, "leaving": 0, "least": counters[0], "most": counters[1]}
    return {**row, **more}


def test_a_life_is_put_together_of_what_all_files_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        seen("b", 30, 40, (1, 2), leaving=7), seen("a", 10, 20, (0, 5), leaving=2, source_port=6000),
        seen("a", 5, 50, (900, 999), leaving=1, file="b.pcap"), seen("a", 7, 8, (3, 3), point="q", file="q.pcap"),
        seen("a", 60, 61, (8, 8), file="c.pcap"), seen("a", 1, 2, (0, 1), incarnation=2),
    ]  # fmt: skip
    address = ("10.0.0.1", 5000)
    parts = {"p": [(900, 999), (0, 5), (8, 8)], "q": [(3, 3)]}
    assert found(monkeypatch, rows) == (
        [
            Life("a", 2, "a", address, {"p": (1, 2)}, {"p": 0}, {"p": [(0, 1)]}),  # which never told its name
            Life("a", 1, "Anna", address, {"p": (5, 61), "q": (7, 8)}, {"p": 3, "q": 0}, parts),
            Life("b", 1, "b", address, {"p": (30, 40)}, {"p": 7}, {"p": [(1, 2)]}),
        ],
        {},
    )


def test_points_of_one_name_are_found_by_the_counters_and_times_of_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(second: dict[str, Any]) -> dict[tuple[str, str], str]:
        return found(monkeypatch, [seen("a", 0, 99, (0, 99), file="t-00001.pcap"), second])[1]

    at_once = seen("a", 50, 149, (50, 149), file="t-00002.pcap")
    assert names(at_once) == {("p", "t-00001.pcap"): "t-00001", ("p", "t-00002.pcap"): "t-00002"}
    assert names({**at_once, "first": 100}) == {}
    assert names({**at_once, "least": 100}) == {}
    assert names({**at_once, "incarnation": 2}) == {}
