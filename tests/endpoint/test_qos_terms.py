"""How endpoints state quality of service to each other."""

from __future__ import annotations

from typing import Any

import pytest

import glue
from glue.endpoint.qos_terms import QOS, Terms, statement_of, terms_of


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
