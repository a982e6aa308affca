"""How endpoints state quality of service to each other."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint.qos_terms import QOS, Difference, Terms, differences, statement_of, terms_of


@pytest.mark.parametrize("qos", [glue.SENSOR, glue.STATE, glue.EVENT, glue.LOG, glue.QoS(deadline=1, liveliness=2)])
@pytest.mark.parametrize("owned", [{}, {"ownership": "exclusive"}, {"ownership": "exclusive", "strength": 7}])
@pytest.mark.parametrize("strict", [False, True])
def test_a_statement_is_read_as_it_was_written(qos: glue.QoS, owned: dict[str, Any], strict: bool) -> None:
    terms = terms_of(qos.replace(strict=strict, **owned))
    found = statement_of(f"{QOS}offer/{terms.code}/door/+/event")
    assert found == ("offer", terms, "door/+/event")
    assert found.interest == f"{QOS}offer/{terms.code}/door/+/event"


def test_an_example_of_a_code() -> None:
    assert Terms(True, 1, 100, 2000, 5000, 7, True).code == "rlk100d2000l5000x7s"
    assert Terms(False, 0, 0, 0, 0, -1, False).code == "bv"


@pytest.mark.parametrize(
    "tail",
    [
        "", "offer", "offer/rl", "offer/rl/", "keep/rl/t", "offer/xl/t", "offer/rlk0/t", "offer/rlk99999999999/t",
        "offer/rl/#/t", "offer/rlq/t", "offer/rl\u0661/t",
    ],
)  # fmt: skip
def test_forged_statements_are_counted_and_dropped(tail: str) -> None:
    assert statement_of(QOS + tail) is None


def test_each_difference_is_told_in_words() -> None:
    weak = Terms(False, 1, 5, 2000, 0, -1, False)
    strong = Terms(True, 3, 0, 1000, 2500, 0, False)
    assert differences(weak, strong) == [
        Difference("reliability", "best-effort", "reliable", "best-effort"),
        Difference("durability", "transient_local", "persistent", "transient_local"),
        Difference("history", "keep_last(5)", "keep_all", "keep_last(5)"),
        Difference("deadline", "2 s", "1 s", "2 s"),
        Difference("liveliness", "none", "2.5 s", "none"),
        Difference("ownership", "shared", "exclusive", "shared"),
    ]
    assert differences(strong, weak) == [Difference("ownership", "exclusive", "shared", "shared")]


@pytest.mark.parametrize(
    ("offered", "requested", "policies"),
    [
        ({"deadline": 1}, {"deadline": 1}, []),
        ({"deadline": 2}, {"deadline": 1}, ["deadline"]),
        ({"deadline": 0}, {"deadline": 1}, ["deadline"]),
        ({"deadline": 5}, {"deadline": 0}, []),
        ({"durability": 1, "depth": 3}, {"durability": 1, "depth": 3}, []),
        ({"durability": 1, "depth": 3}, {"durability": 1, "depth": 4}, ["history"]),
        ({"durability": 1, "depth": 3}, {"durability": 1, "depth": 0}, ["history"]),
        ({"durability": 0, "depth": 3}, {"durability": 0, "depth": 4}, []),
        ({"durability": 2, "depth": 0}, {"durability": 1, "depth": 4}, []),
        ({"strength": 0}, {"strength": 0}, []),
        ({"strength": 0}, {}, ["ownership"]),
    ],
)
def test_what_differs_by_one(offered: dict[str, int], requested: dict[str, int], policies: list[str]) -> None:
    plain = Terms(True, 0, 0, 0, 0, -1, False)
    assert [one.policy for one in differences(plain._replace(**offered), plain._replace(**requested))] == policies  # type: ignore[arg-type]
