"""News of a durable consumer for its endpoint."""

from __future__ import annotations

from typing import NamedTuple


class ConsumerState(NamedTuple):
    """A durable consumer as its home sees it.

    * `keeper`: the name of the endpoint that is its home.
    * `lag`: messages that wait or are being handled; -1 if the log cannot be read.
    * `members`: names of the endpoints that work on it now.
    * `failures`: how often a handler raised, since the keeper started.
    * `still`: seconds since the position moved last, 0 if nothing waits. `stuck`: whether an alert was raised for that.
    * `topic`, `published_at`: of the oldest message that is not done; "" and 0 if there is none.
    """

    name: str
    pattern: str
    keeper: str
    lag: int
    members: tuple[str, ...]
    failures: int
    still: float
    stuck: bool
    topic: str
    published_at: float
