"""Ask all peers for sections of facts (`glue.endpoint.sections`), with an endpoint of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from glue.discovery.inquiry import Inquiry
from glue.endpoint.base import BaseEndpoint
from glue.endpoint.sections import exam_of
from glue.errors import ConfigurationError


class Answered(NamedTuple):
    """The answer of one endpoint."""

    name: str
    id: str
    sections: dict[str, Any]
    """The sections that came, by name; None for one that this endpoint does not know. A peer may tell anything."""


def begin(endpoint: BaseEndpoint, sections: Sequence[str], timeout: float) -> Inquiry:
    """Ask all peers for sections; `is_over` of the result is set once all have answered, or after the timeout.

    Raises ConfigurationError for an endpoint with a discovery layer in place of ours, ValueError for a wrong name.
    """
    exam = exam_of(endpoint._core)
    if exam is None:
        raise ConfigurationError("discovery=…: this layer has no exam; leave it out")
    inquiry: Inquiry = exam.ask(sections, timeout)
    endpoint._wake_soon()  # type: ignore[attr-defined]  # each kind has it
    return inquiry


def begin_round(endpoint: BaseEndpoint, pings: int) -> int:
    """Have all endpoints send so many pings to each of their peers, in 0.035 s each; returns the round's number.

    The section "links" tells what came. Raises as `begin`.
    """
    exam = exam_of(endpoint._core)
    if exam is None:
        raise ConfigurationError("discovery=…: this layer has no exam; leave it out")
    number: int = exam.start_round(pings)
    endpoint._wake_soon()  # type: ignore[attr-defined]  # as above
    return number


def answered(inquiry: Inquiry) -> list[Answered]:
    """The answers so far, by the names of the endpoints."""
    found = [Answered(inquiry.names[id], id, dict(told)) for id, told in list(inquiry.answers.items())]
    return sorted(found, key=lambda one: (one.name, one.id))
