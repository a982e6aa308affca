"""Patterns: which covers which, and which have a topic in common, as a look at all topics of a small world says."""

from __future__ import annotations

from itertools import product

import pytest

from glue.contract.matching import covers, meet
from glue.topics.index import Index

LEVELS = ["a", "b", "", "$c"]
TOPICS = ["/".join(levels) for depth in (1, 2, 3, 4) for levels in product(LEVELS, repeat=depth)]
PATTERNS = [
    *("/".join(levels) for depth in (1, 2, 3) for levels in product(["a", "$c", "+"], repeat=depth)),
    *("/".join([*levels, "#"]) for depth in (0, 1, 2) for levels in product(["a", "$c", "+"], repeat=depth)),
]


def matched(pattern: str) -> set[str]:
    index: Index[str] = Index()
    index.add(pattern, pattern)
    return {topic for topic in TOPICS if index.match(topic)}


@pytest.mark.parametrize(("pattern", "other", "is_covered"), [
    ("a/b", "a/b", True), ("a/#", "a", True), ("a/#", "a/b/c", True), ("a/+", "a/b", True), ("a/+", "a/#", False),
    ("a/+", "a/b/c", False), ("a/+", "a/+", True), ("+/b", "+/b", True), ("+/b", "a/b", True), ("a/b", "a/+", False),
    ("a/+/c", "a/b/c", True), ("a", "a/b", False), ("a/b", "a", False), ("a/b", "c/#", False), ("#", "a/#", True),
    ("a/#", "#", False), ("+", "#", False), ("+/#", "#", True), ("#", "$SYS/x", False), ("+/x", "$SYS/x", False),
    ("$SYS/#", "$SYS/broker", True), ("a/#", "a/$x", True),
])  # fmt: skip
def test_a_pattern_covers_what_it_matches_wholly(pattern: str, other: str, is_covered: bool) -> None:
    assert covers(pattern, other) is is_covered


@pytest.mark.parametrize(("one", "other", "is_common"), [
    ("a", "a", True), ("a", "b", False), ("a/b", "a", False), ("a/+", "a/b", True), ("+/b", "a/+", True),
    ("a/#", "a", True), ("a/#", "a/b/c", True), ("#", "a/b", True), ("a/#", "b/#", False), ("+", "a/b", False),
    ("a/+/c", "a/b/d", False), ("a/b/c", "a/+/c", True), ("a/+/#", "a", False), ("a/b/#", "+/b", True),
    ("a//b", "a/+/b", True), ("#", "$SYS/a", False), ("+/a", "$SYS/a", False), ("$SYS/#", "$SYS/a", True),
])  # fmt: skip
def test_two_patterns_meet_if_a_topic_matches_both(one: str, other: str, is_common: bool) -> None:
    assert meet(one, other) is meet(other, one) is is_common


def test_they_say_what_a_look_at_all_topics_says() -> None:
    found = {pattern: matched(pattern) for pattern in PATTERNS}
    for one, other in product(PATTERNS, repeat=2):
        assert covers(one, other) == (found[one] >= found[other]), (one, other)
        assert meet(one, other) == bool(found[one] & found[other]), (one, other)


@pytest.mark.parametrize(("one", "other", "is_covered", "is_common"), [
    ("#", "$SYS/a", True, True), ("+/a", "$SYS/a", True, True), ("+/b", "$SYS/+", False, True),
    ("$SYS/a", "#", False, True), ("a/b", "a/#", False, True), ("a/b", "c/#", False, False),
])  # fmt: skip
def test_in_rules_a_wildcard_stands_for_every_level(one: str, other: str, is_covered: bool, is_common: bool) -> None:
    assert covers(one, other, every_level=True) is is_covered
    assert meet(one, other, every_level=True) is meet(other, one, every_level=True) is is_common
