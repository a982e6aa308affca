"""Blocks: the datagrams of one train, sealed together by one call of the cipher and with one tag.

A call of the cipher costs several times more than the bytes of a datagram, so a block takes a third of the time. But it
opens only as a whole, from a train that arrives in one piece. Therefore the receiver decides: a sender seals blocks
for an address only up to a number that the receiver has granted (see `granting`).

A datagram of a block has the head of any sealed datagram, with another first byte: one for all but the last, one for
the last. It is as long as if it was sealed alone, so that trains stay trains: zeros at the end of the block stand for
the tags that it saves. The nonce is the number of the first datagram. See docs/wire-format.md.

Trains are sealed and opened in memory that is used again and again, with views of its datagrams that are made once.
"""

from __future__ import annotations

from itertools import repeat
from typing import Final

from glue.contract.items import Train
from glue.contract.pieces import Views, cut, fresh_memory
from glue.contract.sealed import FORMATS, HEAD
from glue.contract.train_buffer import Arrived, TrainBuffer
from glue.security.runs import MULTICAST, NUMBER_SIZE, OVERHEAD, count_up, nonce_of, numbers_of
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

ROOM: Final = 128 << 10
"""Bytes of a block at most: more than `MOST` datagrams of full size."""

_SEGMENT_SIZE: Final = 2
_NUMBERS: Final = 1 << 8 * NUMBER_SIZE


def base_prefix(prefix: bytes) -> bytes:
    """Return the prefix of datagrams that the same key seals alone."""
    format = FORMATS[0] + (prefix[0] - FORMATS[0]) % PART
    return bytes([format]) + prefix[1:]


def _associated(base: bytes, segment: int) -> bytes:
    """The associated data of a block of datagrams of `segment` bytes."""
    return b"%c%b%b" % (base[0] + PART, base[1:], segment.to_bytes(_SEGMENT_SIZE, "big"))


class BlockSealer:
    """Seals trains as blocks."""

    __slots__ = ("_memory", "_views")

    def __init__(self) -> None:
        self._memory = memoryview(fresh_memory(ROOM))
        self._views = Views(self._memory, 1, 0, 1)

    def seal(
        self, data: bytes | bytearray | memoryview, segment: int, first: int, base: bytes, encrypt: Crypt
    ) -> bytearray:
        """Seal a train of datagrams of `segment` bytes as one block, numbered from `first` on. It must fit ROOM."""
        number, piece = first.to_bytes(NUMBER_SIZE, "big"), segment + TAG_SIZE
        count = -(-len(data) // segment)
        spare = bytes((count - 1) * TAG_SIZE)
        text = encrypt(nonce_of(number), b"".join((data, spare)), _associated(base, segment))
        if self._views.piece != piece:
            self._views = Views(self._memory, piece, 0, piece)
        self._memory[: len(text)] = text
        sealed = bytearray(b"%c%b%b" % (base[0] + PART, base[1:], number)).join([b"", *self._views.of(len(text))])
        stride = segment + OVERHEAD
        sealed[(count - 1) * stride] = base[0] + END
        count_up(sealed, stride, first, count)
        return sealed


Part = tuple[int, int, bool]
"""Datagrams of a train: the first, the one after the last, and whether they are a block."""


def _parts(kinds: bytes) -> list[Part]:
    """Cut the first bytes of sealed datagrams into those of blocks and those of runs of others."""
    found: list[Part] = []
    at = 0
    while at < len(kinds):
        kind = kinds[at : at + 1]
        stop = len(kinds) - len(kinds[at:].lstrip(kind))
        is_block = kind[0] in BLOCKS
        if kind[0] in PARTS:
            stop += kinds[stop : stop + 1] == bytes([kind[0] + END - PART])
        found.append((at, stop, is_block))
        at = stop
    return found


def parts_of(data: bytes | bytearray | memoryview, segment: int) -> list[Part]:
    """Cut a train of sealed datagrams of `segment` bytes into blocks and runs of others.

    Returns of each part where it begins, where it ends (bytes), and whether it is a block.
    """
    found = _parts(bytes(memoryview(data)[::segment]))
    return [(start * segment, min(stop * segment, len(data)), is_block) for start, stop, is_block in found]


class TrainOpener:
    """Opens trains of several datagrams, some of them in blocks."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = TrainBuffer()

    def open(self, train: Train, first: int, base: bytes, decrypt: Crypt) -> tuple[Train, bool] | None:
        """Open a train with datagrams numbered from `first` on, and tell whether it has blocks.

        Returns None for any other train. The data are valid until the next train is opened. Raises InvalidTag of
        `cryptography` if a datagram was not sealed so.
        """
        size, segment = len(train.data), train.segment
        count = -(-size // segment)
        if segment <= OVERHEAD or size - (count - 1) * segment <= OVERHEAD or size > len(self._buffer.memory):
            return None
        if first + count > _NUMBERS:
            return None
        heads, texts = train.split(HEAD.size)
        parts = _parts(heads[:: HEAD.size])
        if not _are_heads(heads, parts, first, base, count):
            return None
        memory, at = self._buffer.memory, 0
        for start, stop, is_block in parts:
            text = texts.joined(start * texts.size, stop * texts.size)
            if is_block:
                aad = _associated(base, segment - OVERHEAD)
                opened = decrypt(nonce_of((first + start).to_bytes(NUMBER_SIZE, "big")), text, aad)
                end = len(opened) - (stop - start - 1) * TAG_SIZE
                memory[at : at + end] = memoryview(opened)[:end]
            else:
                numbers = cut(numbers_of(stop - start).pack(*range(first + start, first + stop)), NUMBER_SIZE)
                opened = b"".join(map(decrypt, map(nonce_of, numbers), cut(text, texts.size), repeat(base)))
                end = len(opened)
                memory[at : at + end] = opened
            at += end
        return Arrived(train.address, self._buffer, at, segment - OVERHEAD), len(parts) > 1 or parts[0][2]


def _are_heads(heads: bytes, parts: list[Part], first: int, base: bytes, count: int) -> bool:
    """Whether these are the heads of `count` datagrams numbered from `first` on, in whole blocks or alone."""
    for start, stop, is_block in parts:
        kinds = heads[start * HEAD.size : stop * HEAD.size : HEAD.size]
        if is_block:
            whole = bytes([base[0] + PART]) * (len(kinds) - 1) + bytes([base[0] + END])
            if kinds != whole or not 1 < len(kinds) <= MOST or first + stop > MULTICAST:
                return False
        elif kinds[0] != base[0]:
            return False
    expected = bytearray(base + bytes(NUMBER_SIZE)) * count
    expected[:: HEAD.size] = heads[:: HEAD.size]
    count_up(expected, HEAD.size, first, count)
    return expected == heads


assert {format + kind for format in SUITES for kind in (0, PAIR, PART, PART + PAIR, END, END + PAIR)} == {*FORMATS}
