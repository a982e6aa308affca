"""Losses are put down to a link, one side of it, or the segment, where the pairs have that in common."""

from __future__ import annotations

from spark.analyze.locate import BOTH, EVERYTHING, INCOMING, OUTGOING, Pair, places

NAMES = "abcd"
NOTABLE = 0.001


def counts(lossy: dict[Pair, float], sent: int = 10_000) -> dict[Pair, tuple[int, int]]:
    pairs = [(one, other) for one in NAMES for other in NAMES if one != other]
    return {pair: (sent, round(sent * lossy.get(pair, 0.0))) for pair in pairs}


def found(lossy: dict[Pair, float]) -> list[tuple[str, str]]:
    return [(place.kind, place.endpoint) for place in places(counts(lossy), NOTABLE)]


def of(name: str, rate: float, sends: bool = True, receives: bool = True) -> dict[Pair, float]:
    others = [other for other in NAMES if other != name]
    return {(name, other): rate for other in others if sends} | {(other, name): rate for other in others if receives}


def test_a_link_that_loses_both_ways() -> None:
    assert found(of("b", 0.03)) == [(BOTH, "b")]


def test_one_side_of_a_link() -> None:
    assert found(of("b", 0.03, receives=False)) == [(OUTGOING, "b")]
    assert found(of("b", 0.03, sends=False)) == [(INCOMING, "b")]


def test_all_pairs_are_the_segment() -> None:
    assert found(dict.fromkeys(counts({}), 0.02)) == [(EVERYTHING, "")]


def test_one_pair_is_only_that() -> None:
    assert found({("a", "b"): 0.05}) == []


def test_two_links_and_a_weaker_one_besides() -> None:
    assert found(of("a", 0.04) | of("b", 0.03)) == [(BOTH, "a"), (BOTH, "b")]
    assert found(of("c", 0.004) | of("b", 0.06)) == [(BOTH, "b"), (BOTH, "c")]


def test_a_link_that_is_much_worse_than_the_segment_is_told_apart_from_it() -> None:
    everywhere = dict.fromkeys(counts({}), 0.002)
    assert found(everywhere | of("b", 0.05)) == [(BOTH, "b"), (EVERYTHING, "")]


def test_two_pairs_that_either_of_two_links_explains_are_only_that() -> None:
    assert found(of("c", 0.06) | of("d", 0.06) | {("a", "b"): 0.01, ("b", "a"): 0.01}) == [(BOTH, "c"), (BOTH, "d")]
    apart = {("a", "b"): (1000, 50), ("b", "a"): (1000, 50), ("c", "d"): (1000, 0), ("d", "c"): (1000, 0)}
    assert places(apart, NOTABLE) == []
    third = apart | {("a", "c"): (1000, 0)}  # so it is not the link of a
    assert [(place.kind, place.endpoint) for place in places(third, NOTABLE)] == [(BOTH, "b")]
    one_way = {("b", "a"): (1000, 50), ("b", "c"): (1000, 50), ("c", "d"): (1000, 0)}
    assert [(place.kind, place.endpoint) for place in places(one_way, NOTABLE)] == [(OUTGOING, "b")]


def test_nothing_is_said_of_two_endpoints_or_of_few_datagrams() -> None:
    assert places({("a", "b"): (1000, 50), ("b", "a"): (1000, 50)}, NOTABLE) == []
    assert places(counts(of("b", 0.05), sent=40), NOTABLE) == []
