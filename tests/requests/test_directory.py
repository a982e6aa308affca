"""Who answers which topics, as peers announce it."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import PeerInterest
from glue.requests import Directory
from glue.requests import directory as module
from glue.requests.wire import announcement


def news(peer: str, added: list[str], removed: list[str] | None = None) -> PeerInterest:
    return PeerInterest(peer, [announcement(each) for each in added], [announcement(each) for each in removed or []])


def test_it_finds_who_announced_a_matching_pattern() -> None:
    directory = Directory(Counter())
    assert directory.change(news("b", ["light/+/set", "x"]))
    assert directory.change(news("a", ["light/#"]))
    assert not directory.change(news("a", ["light/#"]))
    assert not directory.change(PeerInterest("a", ["light/kitchen/set"], []))
    assert directory.find("light/kitchen/set") == ("a", "b")
    assert not directory.change(news("b", [], ["light/+/set", "unknown"]))
    assert directory.find("light/kitchen/set") == ("a",)
    directory.forget("a")
    directory.forget("a")
    assert directory.find("light/kitchen/set") == ()
    assert directory.find("x") == ("b",)


def test_two_responders_of_one_pattern_are_two() -> None:
    directory = Directory(Counter())
    directory.add("a", "t")
    directory.add("a", "t")
    directory.remove("a", "t")
    assert directory.find("t") == ("a",)
    directory.remove("a", "t")
    directory.remove("a", "t")
    assert directory.find("t") == ()


def test_malformed_patterns_are_counted_and_dropped() -> None:
    statistics: Counter[str] = Counter()
    directory = Directory(statistics)
    assert not directory.change(news("b", ["a/#/b", "", "a" * 100_000]))
    assert statistics["malformed responder"] == 3


def test_patterns_are_bounded_of_one_peer_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PEER_PATTERNS", 3)
    monkeypatch.setattr(module, "PATTERNS", 5)
    statistics: Counter[str] = Counter()
    directory = Directory(statistics)
    for peer in "abc":
        directory.change(news(peer, [f"t{number}" for number in range(5)]))
    assert [directory.find(f"t{number}") for number in range(5)] == [("a", "b"), ("a", "b"), ("a",), (), ()]
    assert statistics["responders refused: too many"] == 10
    directory.forget("a")
    assert directory.change(news("c", ["t4"]))
