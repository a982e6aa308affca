"""Matching: the examples of the MQTT specification, and a naive twin on random patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.topics.index import CACHED_TOPICS, Index
from glue.topics.recent import GenerationalCache

# MQTT 3.1.1, sections 4.7.1 to 4.7.3: pattern, topic, whether it matches.
SPECIFICATION = [
    ("sport/tennis/player1/#", "sport/tennis/player1", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
    ("sport/tennis/player1/#", "sport/tennis/player2", False),
    ("sport/#", "sport", True),
    ("sport/#", "sport/", True),
    ("sport/#", "sports", False),
    ("#", "sport", True),
    ("#", "/", True),
    ("sport/tennis/+", "sport/tennis/player1", True),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False),
    ("sport/+", "sport", False),
    ("sport/+", "sport/", True),
    ("+", "sport", True),
    ("+/tennis/#", "sport/tennis", True),
    ("+/tennis/#", "sport/tennis/player1/ranking", True),
    ("sport/+/player1", "sport/tennis/player1", True),
    ("+/+", "/finance", True),
    ("/+", "/finance", True),
    ("+", "/finance", False),
    ("+/#", "sport", True),
    ("#", "$SYS/monitor/Clients", False),
    ("+/monitor/Clients", "$SYS/monitor/Clients", False),
    ("+/#", "$SYS", False),
    ("$SYS/#", "$SYS/monitor/Clients", True),
    ("$SYS/#", "$SYS", True),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ("a/+", "a/$b", True),
    ("ACCOUNTS", "Accounts", False),
    ("/finance", "finance", False),
    ("a/b", "a/b", True),
    ("a//b", "a//b", True),
    ("a/+/b", "a//b", True),
]


def naive_match(pattern: str, topic: str) -> bool:
    """The specification word by word."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


@pytest.mark.parametrize(("pattern", "topic", "matches"), SPECIFICATION)
def test_patterns_match_as_the_specification_says(pattern: str, topic: str, matches: bool) -> None:
    index: Index[str] = Index()
    index.add(pattern, "holder")
    assert index.match(topic) == (("holder",) if matches else ())
    assert naive_match(pattern, topic) is matches


levels = st.sampled_from(["", "a", "b", "$a"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
patterns = st.builds(
    lambda first, last: "/".join(first + last),
    st.lists(st.one_of(levels, st.just("+")), max_size=4),
    st.sampled_from([["#"], ["a"], ["+"]]),
)
changes = st.lists(st.tuples(st.booleans(), patterns, st.integers(0, 3)), max_size=30)


@given(changes, st.lists(topics, min_size=1, max_size=8))
def test_the_index_finds_what_a_naive_twin_finds(changes: list[tuple[bool, str, int]], asked: list[str]) -> None:
    index: Index[int] = Index()
    held: set[tuple[str, int]] = set()
    for adding, pattern, holder in changes:
        if adding:
            index.add(pattern, holder)
            held.add((pattern, holder))
        elif (pattern, holder) in held:
            index.remove(pattern, holder)
            held.remove((pattern, holder))
        for topic in asked:  # in between, so that remembered results are wrong if they are kept too long
            assert index.match(topic) == tuple(sorted({h for p, h in held if naive_match(p, topic)}))


def test_results_are_in_the_order_asked_for() -> None:
    order = {"late": 2, "early": 1}
    index: Index[str] = Index(key=order.__getitem__)
    index.add("a", "late")
    index.add("#", "early")
    assert index.match("a") == ("early", "late")


def test_removing_everything_leaves_nothing_behind() -> None:
    index: Index[str] = Index()
    for pattern in ("a/+/b", "a/+/#", "a/+", "#"):
        index.add(pattern, "holder")
    for pattern in ("a/+", "a/+/#", "#", "a/+/b"):
        index.remove(pattern, "holder")
    assert index.find("a/x/b") == {}
    index.add("a/+/b", "again")
    assert index.match("a/x/b") == ("again",)


def test_ten_thousand_patterns_beside_it_do_not_change_what_a_topic_finds() -> None:
    index: Index[int] = Index()
    for number in range(10_000):
        index.add(f"robots/{number}/+", number)
        index.add(f"robots/{number}/pose", number)
    assert index.match("robots/77/pose") == (77,)
    assert index.match("robots/77/pose/x") == ()


def test_a_pattern_of_the_greatest_depth_is_no_burden() -> None:
    deepest = "/" * 65_533 + "+"
    index: Index[str] = Index()
    index.add(deepest, "holder")
    assert index.match("/" * 65_533 + "x") == ("holder",)
    index.remove(deepest, "holder")
    assert index.match("/" * 65_533 + "x") == ()


def test_a_recent_table_keeps_what_is_used_and_forgets_the_rest() -> None:
    gone: list[int] = []
    table: GenerationalCache[int, int] = GenerationalCache(10, gone.extend)
    table.put(-1, -1)
    for number in range(100):
        table.put(number, number)
        assert table.get(-1) == -1
    kept = [number for number in range(100) if number not in gone]
    assert len(kept) < 20
    assert 99 in kept
    table.clear()
    assert table.get(-1) is None


def test_more_topics_than_are_remembered_are_still_found() -> None:
    index: Index[str] = Index()
    index.add("t/+", "holder")
    assert all(index.match(f"t/{number}") == ("holder",) for number in range(2 * CACHED_TOPICS + 1))
