"""Interests that tell who serves history, as a program, a peer or a forger may write them."""

from __future__ import annotations

import pytest

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
