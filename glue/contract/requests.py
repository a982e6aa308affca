"""Requests: what an application asks of a stack. *Orders* are those that pass between the layers, too."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

URGENT, HIGH, NORMAL, LARGE, BULK = range(5)
"""The classes of data. What waits in one never stands before what goes in one above it (a lower number). LARGE are
large messages that the application calls normal, so that small ones on other topics do not wait behind them."""


@dataclass(frozen=True, slots=True)
class Options:
    """What most publications do without.

    `type` names the kind of the payloads. `retain`: the last of them is kept for late joiners. `lifespan` in seconds,
    None for ever. If not `reliable`, they go with best effort. If not `ordered`, they may overtake what went to other
    peers before. `receipt`, if any, hears who has the last of them.
    """

    type: str | None = None
    retain: bool = False
    lifespan: float | None = None
    reliable: bool = True
    ordered: bool = True
    receipt: Hashable | None = None


PLAIN: Final = Options()
"""Those of publications without any. What equals it means the same, but is not recognized as quickly."""


class Publication:
    """Messages of one topic from the application, alike but for their payloads.

    `payloads` are bytes (`json` False) or encoded JSON documents (`json` True); `length` is that of each, None: not
    known, or they differ. `published_at` is the wall clock (Unix seconds) of the first of them. `priority` is their
    class.
    """

    __slots__ = ("json", "length", "options", "payloads", "priority", "published_at", "topic")

    def __init__(
        self,
        topic: str,
        payloads: list[bytes],
        published_at: float,
        json: bool = False,
        length: int | None = None,
        priority: int = NORMAL,
        options: Options = PLAIN,
    ) -> None:
        self.topic = topic
        self.payloads = payloads
        self.published_at = published_at
        self.json = json
        self.length = length
        self.priority = priority
        self.options = options

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(map(len, self.payloads)) if self.length is None else self.length * len(self.payloads)


class Subscribe:
    """Application to topics: from now on deliver what matches `pattern` under `token` (any hashable)."""

    __slots__ = ("pattern", "token")

    def __init__(self, token: Hashable, pattern: str) -> None:
        self.token = token
        self.pattern = pattern


class Unsubscribe:
    """Application to topics: end the subscription of this token."""

    __slots__ = ("token",)

    def __init__(self, token: Hashable) -> None:
        self.token = token


class Interest:
    """Topics to discovery: announce these interests, withdraw those. Both are sets of strings, counted once."""

    __slots__ = ("added", "removed")

    def __init__(self, added: Sequence[str], removed: Sequence[str]) -> None:
        self.added = added
        self.removed = removed


class Accept:
    """Application to transport: go on accepting data from peers, or (False) let their windows run dry."""

    __slots__ = ("accepting",)

    def __init__(self, accepting: bool) -> None:
        self.accepting = accepting


class Leave:
    """Application to discovery: this endpoint goes now; say goodbye."""

    __slots__ = ()


Order = Interest | Accept | Leave
Request = Publication | Subscribe | Unsubscribe | Order
"""What an application hands to a stack."""
