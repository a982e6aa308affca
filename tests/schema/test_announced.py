"""The types that peers announce, within bounds."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.contract import PeerInterest
from glue.schema import announced
from glue.schema.announced import TypeDirectory, type_interest


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
