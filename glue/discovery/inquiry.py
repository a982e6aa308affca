"""A question to all peers for sections of facts, and the answers that have come so far."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import orjson

from glue.discovery.exam_wire import Ask, Part

ASK_AFTER = (0.15, 0.3, 0.4)
"""Seconds from one time of asking to the next. At 30 % loss an answer of one datagram comes with 0.49 each time, so of
four times one succeeds with 93 %."""

ANSWERS = 1024  # peers whose answers are kept: as many as discovery knows


class Inquiry:
    """The answers by peer id and section; complete answers only. `names` are those of the peers.

    `is_over` is set when all known peers have answered, or after the timeout; another thread may wait for it.
    """

    def __init__(self, ask: Ask, timeout: float) -> None:
        """`timeout` in seconds, from the turn that asks first."""
        self.ask = ask
        self.answers: dict[str, dict[str, Any]] = {}
        self.names: dict[str, str] = {}
        self.is_over = False
        self.tries = 0
        self.ask_at = self.ends_at = math.inf
        self._timeout = timeout
        self._parts: dict[tuple[str, str], list[bytes | None]] = {}

    @property
    def number(self) -> int:
        """The number that answers repeat."""
        return self.ask.number

    @property
    def due(self) -> float:
        """When to ask again, or to end."""
        return min(self.ask_at, self.ends_at)

    def begin(self, now: float) -> None:
        """Start the clock."""
        self.ask_at, self.ends_at = now, now + self._timeout

    def asked(self, now: float) -> None:
        """Record that the question was sent."""
        self.ask_at = now + ASK_AFTER[self.tries] if self.tries < len(ASK_AFTER) else math.inf
        self.tries += 1

    def end(self) -> None:
        """Take no more answers."""
        self._parts.clear()
        self.is_over = True

    def take(self, peer: str, name: str, part: Part) -> bool:
        """Take a part of an answer; False if it does not fit to the others, or the document is no JSON."""
        answered = self.answers.get(peer)
        if answered is not None and part.section in answered:
            return True
        if answered is None and len(self.names) >= ANSWERS and peer not in self.names:
            return False
        parts = self._parts.setdefault((peer, part.section), [None] * part.parts)
        self.names[peer] = name
        if len(parts) != part.parts:  # the section has grown since the last time of asking
            parts = self._parts[peer, part.section] = [None] * part.parts
        parts[part.part] = part.data
        if None in parts:
            return True
        del self._parts[peer, part.section]
        try:
            document = orjson.loads(b"".join(piece for piece in parts if piece is not None))
        except ValueError:
            return False
        self.answers[peer] = {**(answered or {}), part.section: document}
        return True

    def missing(self, peers: Iterable[str]) -> list[str]:
        """The peers that have not answered in full."""
        wanted = len(self.ask.sections)
        return [id for id in peers if len(self.answers.get(id, ())) < wanted]

    def is_answered(self, peers: Iterable[str]) -> bool:
        """Whether all these peers have answered in full, after the question was sent."""
        return self.tries > 0 and not self.missing(peers)
