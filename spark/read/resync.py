"""Where a damaged pcapng can be read on: at a block from which a chain of sound blocks leads on for long.

A block tells its length at both ends, so chance does not make one; but payloads may hold captures, and with them true
blocks. Those end with the payload: a chain that is longer than any payload, or that meets the very end of what is
there, is the file's own. Damage may have swallowed a section's header, and with it what interfaces mean; where there
are signs of that, only another section will do.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from spark.read.records import LARGEST_RECORD, USUAL_FRAME, Booleans, Bytes, Integers

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6
JOURNAL, SECRETS, CUSTOM, CUSTOM_LOCAL = 9, 10, 0xBAD, 0x40000BAD
KINDS = frozenset(
    (SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET, JOURNAL, SECRETS, CUSTOM, CUSTOM_LOCAL)
)
STARTS = (INTERFACE, STATISTICS, PACKET)
"""Kinds of blocks, other than sections, at which reading goes on: those of which captures of today consist."""

MARK = SECTION.to_bytes(4, "little")  # the same in both byte orders
ORDER_MAGIC = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
SMALLEST_BLOCK = 12
REACH = USUAL_FRAME
"""Bytes that a chain must go on for: no payload holds one so long. What is between faults closer than that is lost."""


def next_block(buffer: Bytes, size: int, order: str, over: bool, only_section: bool) -> tuple[int, bool]:
    """Where to go on among the first `size` bytes of a buffer, of which the very first is known to be none.

    Returns (byte, whether that is it); if not, the bytes before it are not it either, and more are needed. `over`:
    there are no more. `order` is the byte order so far. With `only_section`, and behind what looks like a section's
    header, it is a section.
    """
    data = buffer.data
    sections = _sections(data, size)
    starts = np.array(sections, np.int64)
    if not only_section:
        blocks = _blocks(buffer, size, order, over)
        starts = np.union1d(starts, blocks[blocks < sections[0]] if sections else blocks)
    for start in starts.tolist():
        sound = is_chain(data, size, start, order, over)
        if sound is not False:
            return (start, True) if sound else (start - 1, False)
    return (size if over else max(0, size - SMALLEST_BLOCK)), False


def is_chain(data: memoryview, size: int, start: int, order: str, over: bool) -> bool | None:
    """Whether sound blocks follow each other from here for `REACH`, or to the end; None if that is not to be seen."""
    unknown = False if over else None
    position = start
    head = Struct(order + "II").unpack_from
    while position - start < REACH:
        if position == size and over:
            return True
        if position + SMALLEST_BLOCK > size:
            return unknown
        kind, length = head(data, position)
        if kind == SECTION:
            found = ORDER_MAGIC.get(bytes(data[position + 8 : position + 12]))
            if found is None:
                return False
            head = Struct(found + "II").unpack_from
            kind, length = head(data, position)
        if kind not in KINDS or length < SMALLEST_BLOCK or length % 4 or length > LARGEST_RECORD:
            return False
        if position + length > size:
            return unknown
        if head(data, position + length - 8)[1] != length:
            return False
        position += length
    return True


def _sections(data: memoryview, size: int) -> list[int]:
    """Where something looks like the header of a section."""
    whole, found, place = bytes(data[:size]), [], 0
    while (place := whole.find(MARK, place + 1)) >= 0:
        if whole[place + 8 : place + 12] in ORDER_MAGIC:
            found.append(place)
    return found


def _blocks(buffer: Bytes, size: int, order: str, over: bool) -> Integers:
    """Where something looks like a block of `STARTS`: both of its lengths agree, or the second is not there yet."""
    found = []
    for shift in range(1, 5):  # bytes may be missing, so blocks may begin anywhere
        words = buffer[shift : shift + max(0, size - shift) // 4 * 4].view(f"{order}u4")
        places = np.flatnonzero(_is_start(words[:-2]) & _is_length(words[1:-1]))
        ends = places + words[places + 1] // 4 - 1
        inside = ends < len(words)
        agree = words[np.where(inside, ends, 0)] == words[places + 1]
        found.append(shift + 4 * places[np.where(inside, agree, not over)])
    return np.sort(np.concatenate(found))


def _is_start(words: Bytes) -> Booleans:
    same: Booleans = np.isin(words, STARTS)
    return same


def _is_length(words: Bytes) -> Booleans:
    plausible: Booleans = (words >= SMALLEST_BLOCK) & (words % 4 == 0) & (words <= LARGEST_RECORD)
    return plausible
