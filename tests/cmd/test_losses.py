"""Losses between endpoints by their names, from what they tell, whatever that is."""

from __future__ import annotations

from typing import Any

import pytest

from glue.cmd.losses import Losses
from glue.endpoint.inquiring import Answered


def tells(name: str, id: str, *paths: tuple[str, Any]) -> Answered:
    told = [{"peer": peer, "loss": loss, "round_trip": 0.001, "unicast": False} for peer, loss in paths]
    return Answered(name, id, {"activity": {"paths": told}})


def test_the_worst_of_all_ways_from_publishers_to_subscribers_counts() -> None:
    losses = Losses()
    losses.take([
        tells("kitchen", "k", ("h", 0.01), ("a", 0.2)), tells("hall", "h", ("k", 0.05), ("a", None)),
        tells("attic", "a"), tells("attic", "a2", ("h", 0.0)),
    ])  # fmt: skip
    assert losses.worst(["kitchen", "hall"], ["hall", "kitchen"]) == 0.05
    assert losses.worst(["kitchen"], ["hall", "attic"]) == 0.2
    assert losses.worst(["attic"], ["hall"]) == 0.0
    assert losses.worst(["hall"], ["attic"]) is None, "not measured yet"
    assert losses.worst(["unknown"], ["hall"]) is losses.worst(["kitchen"], []) is None


def test_what_was_told_before_does_not_stay() -> None:
    losses = Losses()
    losses.take([tells("kitchen", "k", ("h", 0.5)), tells("hall", "h")])
    losses.take([tells("hall", "h")])
    assert losses.worst(["kitchen"], ["hall"]) is None


def test_only_so_many_endpoints_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.cmd.losses.ENDPOINTS", 2)
    losses = Losses()
    losses.take(iter([tells("hall", "h"), tells("kitchen", "k", ("h", 0.5)), tells("attic", "a", ("h", 0.5))]))
    assert losses.worst(["kitchen"], ["hall"]) == 0.5
    assert losses.worst(["attic"], ["hall"]) is None


def test_a_receiver_that_does_not_answer_has_no_name() -> None:
    losses = Losses()
    losses.take([tells("kitchen", "k", ("gone", 0.5), ("h", 0.1)), tells("hall", "h")])
    assert losses.worst(["kitchen"], ["hall", "gone"]) == 0.1


def test_lies_are_left_out() -> None:
    losses = Losses()
    lies: list[Any] = [None, [], {"paths": 7}, {"paths": [3, {"peer": 5}, {"peer": "h", "loss": "much"}]}]
    losses.take([*(Answered("liar", f"l{n}", {"activity": lie}) for n, lie in enumerate(lies)), tells("hall", "h")])
    losses.take([tells("liar", "l", ("h", 7)), tells("hall", "h"), Answered("mute", "m", {})])
    assert losses.worst(["liar", "mute"], ["hall"]) is None
