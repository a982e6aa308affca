"""Blocks: the datagrams of one train, sealed together by one call of the cipher and with one tag.

A call of the cipher costs several times more than the bytes of a datagram, so a block takes a third of the time. But it
opens only as a whole, from a train that arrives in one piece. Therefore the receiver decides: a sender seals blocks
for an address only up to a number that the receiver has *granted*. A receiver grants few at first, and more while they
open. After a failure it ends what it has granted, and grants none before many trains have arrived in one piece. It says
so with the next datagram that opens, so that it answers nobody without the key.

A datagram of a block has the head of any sealed datagram, with another first byte: one for all but the last, one for
the last. It is as long as if it was sealed alone, so that trains stay trains: zeros at the end of the block stand for
the tags that it saves. The nonce is the number of the first datagram. See docs/wire-format.md.
"""

from __future__ import annotations

from itertools import chain, repeat
from struct import Struct
from typing import Final, NamedTuple

from glue.contract.pieces import cut
from glue.contract.sealed import FORMATS, HEAD
from glue.security.runs import LAST, NUMBER_SIZE, OVERHEAD, PREFIX_SIZE, nonce_of, numbers_of, open_run, plan_of
from glue.security.suites import PAIR, SUITES, TAG_SIZE, Crypt

PART: Final = 4
"""Added to the first byte in a block."""
END: Final = 8
"""Added to the first byte of the last datagram of a block."""
BLOCKS: Final = range(FORMATS[0] + PART, FORMATS[-1] + 1)
"""The first bytes of datagrams of blocks."""
PARTS: Final = BLOCKS[:PART]
"""The first bytes of all but the last."""

LEAST: Final = 8
"""Datagrams of a train that are worth a block, at least."""
MOST: Final = 64
"""Datagrams of a block at most: more than fit into one system call, if they are of full size."""

TRIAL: Final = 128
"""Datagrams of blocks that are granted at first: some three trains."""
SPAN: Final = 4096
"""Datagrams of blocks that are granted while blocks open: 6 MB."""
PATIENCE: Final = 32
"""Trains in one piece before the first grant. After each failure it takes `SETBACK` times as many, until as many trains
with blocks have opened: a failure in a thousand costs less than to be without blocks."""
SETBACK: Final = 8
_LONGEST: Final = 1 << 20
ENDINGS: Final = 4
"""Times at most that the end of blocks is told: the loss that ended them may meet what tells of it, too."""

KIND: Final = 0x03
"""The first byte of a grant, where other sealed datagrams have the brace of their JSON header."""
_BODY: Final = Struct(">B16sI")
_SEGMENT_SIZE: Final = 2


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
        self._runs = 0  # trains in one piece, or with blocks, since that is on or off
        self._needed = PATIENCE

    def arrived(self, next: int) -> bool:
        """Note a train in one piece, but no block, before the number `next`; return whether to grant more."""
        if self.is_on:
            return next > self.until and self._extend(next + TRIAL)
        self._runs += 1
        if self._runs < self._needed:
            return False
        self.is_on, self._runs = True, 0
        return self._extend(next + TRIAL)

    def opened(self, next: int) -> bool:
        """Note a train with blocks before the number `next` that opened; return whether to grant more."""
        if not self.is_on:
            return False
        self._runs += 1
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


def base_prefix(prefix: bytes) -> bytes:
    """Return the prefix of datagrams that the same key seals alone."""
    format = FORMATS[0] + (prefix[0] - FORMATS[0]) % PART
    return bytes([format]) + prefix[1:]


def _prefixes(base: bytes) -> tuple[bytes, bytes]:
    """Return the prefixes in a block: of all datagrams but the last, and of the last."""
    return bytes([base[0] + PART]) + base[1:], bytes([base[0] + END]) + base[1:]


def seal_block(data: bytes | bytearray | memoryview, segment: int, first: int, base: bytes, encrypt: Crypt) -> bytes:
    """Seal a train of datagrams of `segment` bytes as one block, numbered from `first` on."""
    part, end = _prefixes(base)
    number = first.to_bytes(NUMBER_SIZE, "big")
    spare = bytes((len(data) - 1) // segment * TAG_SIZE)
    text = encrypt(nonce_of(number), b"".join((data, spare)), part + segment.to_bytes(_SEGMENT_SIZE, "big"))
    pieces = cut(text, segment + TAG_SIZE)
    count = len(pieces)
    numbers = cut(numbers_of(count).pack(*range(first, first + count)), NUMBER_SIZE)
    return b"".join(chain.from_iterable(zip(chain(repeat(part, count - 1), (end,)), numbers, pieces, strict=True)))


def parts_of(data: bytes | bytearray | memoryview, segment: int) -> list[tuple[int, int, bool]]:
    """Cut a train of sealed datagrams of `segment` bytes into blocks and runs of others.

    Returns of each part where it begins, where it ends, and whether it is a block.
    """
    kinds = bytes(memoryview(data)[::segment])
    found: list[tuple[int, int, bool]] = []
    at = 0
    while at < len(kinds):
        kind = kinds[at : at + 1]
        stop = len(kinds) - len(kinds[at:].lstrip(kind))
        is_block = kind[0] in BLOCKS
        if kind[0] in PARTS:
            stop += kinds[stop : stop + 1] == bytes([kind[0] + END - PART])
        found.append((at * segment, min(stop * segment, len(data)), is_block))
        at = stop
    return found


def open_parts(
    data: bytes | bytearray | memoryview,
    segment: int,
    parts: list[tuple[int, int, bool]],
    first: int,
    base: bytes,
    decrypt: Crypt,
) -> bytes | None:
    """Open a train with datagrams numbered from `first` on, some of them in blocks; None for any other train.

    Returns the datagrams in one piece, each of `segment` - OVERHEAD bytes but the last. Raises InvalidTag of
    `cryptography` if one was not sealed so.
    """
    opened: list[bytes | memoryview] = []
    for start, stop, is_block in parts:
        number = first + start // segment
        if is_block:
            plain = _open(data[start:stop], segment, number, base, decrypt)
            if plain is None:
                return None
            opened.append(plain)
        else:
            run = open_run(data[start:stop], segment, number, base, decrypt)
            if run is None:
                return None
            opened += run
    return bytes(opened[0]) if len(opened) == 1 else b"".join(opened)


def _open(
    data: bytes | bytearray | memoryview, segment: int, first: int, base: bytes, decrypt: Crypt
) -> memoryview | None:
    whole = (len(data) - 1) // segment  # all but the last
    last = bytes(data[whole * segment :])
    if not 0 < whole < MOST or segment <= OVERHEAD or len(last) <= OVERHEAD or first + whole >= LAST:
        return None
    part, end = _prefixes(base)
    parts = plan_of(segment, whole).unpack_from(data)
    numbers = b"".join((*parts[1::3], last[PREFIX_SIZE : HEAD.size]))
    if parts[0::3].count(part) < whole or last[:PREFIX_SIZE] != end:
        return None
    if numbers != numbers_of(whole + 1).pack(*range(first, first + whole + 1)):
        return None
    text = b"".join((*parts[2::3], last[HEAD.size :]))
    plain = decrypt(nonce_of(parts[1]), text, part + (segment - OVERHEAD).to_bytes(_SEGMENT_SIZE, "big"))
    return memoryview(plain)[: len(plain) - whole * TAG_SIZE]


assert {format + kind for format in SUITES for kind in (0, PAIR, PART, PART + PAIR, END, END + PAIR)} == {*FORMATS}
