"""Input and output of the delivery machine: its log, attempts, outcomes, dead letters and news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from glue.gateway.http.lanes import Slot
from glue.gateway.http.signing import Item
from glue.gateway.http.subscriptions import Subscription
from glue.storage import Reading, Stream


class Source(Protocol):
    """The log, as the machine reads it."""

    @property
    def id(self) -> str:
        """The id of the log."""

    @property
    def first(self) -> int:
        """The offset of the oldest message."""

    @property
    def durable(self) -> int:
        """The offset below which messages may be read."""

    def read(self, topics: Callable[[str], bool], offset: int, size: int) -> Reading:
        """Return records of some topics from an offset on."""

    def first_of(self, numbers: Mapping[Stream, int]) -> int | None:
        """Return the first offset of a message that has the number of its stream or a later one."""

    def offset_at(self, time: float) -> int:
        """Return the offset of the first message published at a time or later."""


class Attempt(NamedTuple):
    """POST this message; then call `finished`."""

    lane: str
    slot: Slot
    item: Item
    subscription: Subscription
    number: int
    """1 for the first attempt."""


class Outcome(NamedTuple):
    """The result of an attempt."""

    status: int
    """The status of the answer; 0 if there was none."""
    error: str = ""
    retry_after: float | None = None
    """Seconds, if the subscriber says so."""
    is_connected: bool = True


class Burial(NamedTuple):
    """Store this message as a dead letter; then call `buried`."""

    lane: str
    slot: Slot
    item: Item
    reason: str


class Event(NamedTuple):
    """News of a lane: "failing", "recovered", "missed", "gone" or "replayed"."""

    kind: str
    lane: str
    detail: str
