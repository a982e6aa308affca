"""Grants: a receiver lets a sender seal blocks (see `glue.security.blocks`), as long as they open."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from glue.security.blocks import MOST
from glue.security.runs import LAST

TRIAL: Final = 128
"""Datagrams of blocks that are granted at first: some three trains."""
SPAN: Final = 4096
"""Datagrams of blocks that are granted while blocks open: 6 MB."""
PATIENCE: Final = 32
"""System calls' worth of datagrams in one piece before the first grant; trains that follow each other are read as one.
After each failure it takes `SETBACK` times as many, until as many with blocks have opened: a failure in a thousand
costs less than to be without blocks."""
SETBACK: Final = 8
_LONGEST: Final = 1 << 20
ENDINGS: Final = 4
"""Times at most that the end of blocks is told: the loss that ended them may meet what tells of it, too."""

KIND: Final = 0x03
"""The first byte of a grant, where other sealed datagrams have the brace of their JSON header."""
_BODY: Final = Struct(">B16sI")


class Grant(NamedTuple):
    """Lets the life with this salt seal blocks for the sender of the grant, with unicast numbers below `until`.

    It replaces the grant before it; with 0, no number is.
    """

    salt: bytes
    until: int

    def encode(self) -> bytes:
        """The body of the datagram, before it is sealed."""
        return _BODY.pack(KIND, *self)

    @classmethod
    def parse(cls, body: bytes) -> Grant | None:
        """From a body; None if it is no grant."""
        if len(body) != _BODY.size or body[0] != KIND:
            return None
        _, salt, until = _BODY.unpack(body)
        return cls(salt, min(until, LAST))


class Granting:
    """A receiver's grants to one life."""

    __slots__ = ("_endings", "_needed", "_runs", "is_ending", "is_on", "until")

    def __init__(self) -> None:
        self.until = 0
        self.is_on = False
        self.is_ending = False  # whether the life is to be told that it may use no number
        self._endings = 0
        self._runs = 0  # system calls' worth in one piece, or with blocks, since that is on or off
        self._needed = PATIENCE

    def arrived(self, next: int, count: int) -> bool:
        """Note `count` datagrams in one piece, but no block, before the number `next`; return whether to grant more."""
        if self.is_on:
            return next > self.until and self._extend(next + TRIAL)
        self._runs += -(-count // MOST)
        if self._runs < self._needed:
            return False
        self.is_on, self._runs = True, 0
        return self._extend(next + TRIAL)

    def opened(self, next: int, count: int) -> bool:
        """Note `count` datagrams, with blocks, before the number `next` that opened; return whether to grant more."""
        if not self.is_on:
            return False
        self._runs += -(-count // MOST)
        if self._runs >= self._needed:
            self._needed, self._runs = max(self._needed // SETBACK, PATIENCE), 0
        return next + SPAN // 2 > self.until and self._extend(next + SPAN)

    def failed(self, first: int) -> None:
        """Note a block from the number `first` on that did not open."""
        if self.is_on:
            self._needed = min(self._needed * SETBACK, _LONGEST)
            self._endings = ENDINGS
        self.is_ending = self._endings > 0 and first < self.until
        self.is_on = False
        self._runs = 0

    def told(self) -> int:
        """Return up to which number the life may seal blocks, as it is told so now."""
        if self.is_ending:
            self.is_ending = False
            self._endings -= 1
        return self.until if self.is_on else 0

    def _extend(self, until: int) -> bool:
        self.until = until
        self.is_ending = False
        return until <= LAST
