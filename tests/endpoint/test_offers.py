"""Interests that tell who serves history, as a program, a peer or a forger may write them."""

from __future__ import annotations

from collections import Counter

import pytest

from glue.endpoint import offers
from glue.endpoint.offers import served_by
from glue.history.names import KEEPER, OWN


@pytest.mark.parametrize(
    ("interest", "served"),
    [
        (OWN + "home/#", ("", "home/#", 0)),
        (KEEPER + "disk/2/home/#", ("disk", "home/#", 2)),
        (KEEPER + "/2/home/#", ("?", "home/#", 2)),
        (KEEPER + "disk/x/home/#", ("disk", "home/#", 0)),
        (KEEPER + "disk/\u00b2/home/#", ("disk", "home/#", 0)),
        (KEEPER + "disk", ("disk", "", 0)),
    ],
)
def test_an_offer_of_history_is_read(interest: str, served: tuple[str, str, int]) -> None:
    assert served_by(interest) == served


def test_so_many_offers_are_known_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "OFFERS", 2)
    monkeypatch.setattr(offers, "ALL_OFFERS", 3)
    statistics = Counter[str]()
    known = offers.Offers(statistics)
    assert [known.add("a", OWN + pattern) for pattern in ("1", "1", "2", "3")] == [True, False, True, False]
    assert [known.add("b", OWN + pattern) for pattern in ("1", "2")] == [True, False]
    assert statistics == {"offers of history refused: too many": 2}
    assert [known.remove("a", OWN + pattern) for pattern in ("9", "1", "1")] == [False, True, False]
    assert known.add("b", OWN + "2")
    known.forget("b")
    assert [known.add("c", OWN + pattern) for pattern in ("1", "#/x", "2", "3")] == [True, False, True, False]
    assert statistics["malformed offers of history"] == 1
