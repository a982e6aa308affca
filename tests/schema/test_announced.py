"""The types that peers announce, within bounds."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import PeerInterest
from glue.schema import announced
from glue.schema.announced import TypeDirectory, type_interest, type_of_interest


def test_room_that_a_withdrawn_type_or_a_lost_peer_leaves_is_used_again_and_not_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(announced, "TYPES", 3)
    statistics: Counter[str] = Counter()
    directory = TypeDirectory(statistics)
    interests = [type_interest("publish", "Lamp", "0" * 7 + str(number), "lamp/#") for number in range(6)]
    one, two = "1" * 16, "2" * 16
    assert len(directory.change(PeerInterest(one, interests[:2], []))) == 2
    assert len(directory.change(PeerInterest(two, interests[2:3], []))) == 1
    assert directory.change(PeerInterest(two, interests[3:4], [])) == []
    directory.change(PeerInterest(one, [], interests[:1]))
    assert len(directory.change(PeerInterest(two, interests[4:6], []))) == 1
    assert statistics["types refused: too many"] == 2
    directory.forget(two)
    assert len(directory.change(PeerInterest(two, interests[2:6], []))) == 2
    directory.change(PeerInterest(one, [], interests[5:]))  # never announced there
    assert directory.change(PeerInterest(one, interests[5:], [])) == []
    assert [(peer, told.hash[-1]) for peer, told in directory] == [(one, "1"), (two, "2"), (two, "3")]


@pytest.mark.parametrize(("way", "name", "hash", "pattern", "is_good"), [
    ("publish", "Lamp", "0123abcd", "a/#", True), ("subscribe", "n" * 128, "00000000", "a", True),
    ("publish", "list[Lamp, str-1.2]", "0123abcd", "a/b/+", True), ("publish", "n" * 129, "0123abcd", "a", False),
    ("publish", "", "0123abcd", "a", False), ("publish", "Lampe\u0301", "0123abcd", "a", False),
    ("publish", "Lamp", "0123abc", "a", False), ("publish", "Lamp", "0123abcde", "a", False),
    ("publish", "Lamp", "0123ABCD", "a", False), ("both", "Lamp", "0123abcd", "a", False),
    ("publish", "Lamp", "0123abcd", "", False), ("publish", "Lamp", "0123abcd", "a#", False),
])  # fmt: skip
def test_an_announced_type_has_a_way_a_name_a_hash_and_a_pattern(
    way: str, name: str, hash: str, pattern: str, is_good: bool
) -> None:
    told = type_of_interest(type_interest(way, name, hash, pattern))
    assert (told is not None) == is_good
    if told is not None:
        assert (told.way, told.name, told.hash, told.pattern) == (way, name, hash, pattern)
        assert told.label == f"{name}#{hash}"
