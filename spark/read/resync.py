"""Search for the place after damage where a capture is readable again: the start of a long chain of sound blocks.

A block of pcapng has its length at both ends, so random bytes hardly look like one. Payloads may hold captures with
true blocks, but these end with the payload. A chain longer than any payload, or up to the end of the data, belongs to
the file. Damage may have destroyed a section's header, and with it the meaning of interfaces. If there are signs of
this, only another section will do.

A record of pcap has one length and no mark. Therefore all fields must be plausible, and the time must be near the times
of earlier records. The same must hold for all following records, for longer than any payload. Records within the
payload of the damaged record may lead to the next record, but the damaged record's IP header tells where it starts.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from spark.read.link import BARE, FAMILIES, LINKS
from spark.read.records import LARGEST_RECORD, MAXIMUM_SNAPSHOT, USUAL_FRAME, Booleans, Bytes, Integers, fields_at

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6
JOURNAL, SECRETS, CUSTOM, CUSTOM_LOCAL = 9, 10, 0xBAD, 0x40000BAD
KINDS = frozenset(
    (SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, PACKET, JOURNAL, SECRETS, CUSTOM, CUSTOM_LOCAL)
)
STARTS = (INTERFACE, STATISTICS, PACKET)
"""Kinds of blocks, other than sections, at which reading continues. Present-day captures consist of these."""

MARK = SECTION.to_bytes(4, "little")  # equal in both byte orders
ORDER_MAGIC = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
SMALLEST_BLOCK = 12
REACH = USUAL_FRAME
"""Least bytes of a chain. No payload holds a chain of this length. Data between closer faults is lost."""


RECORD = 16
"""Bytes of a pcap record before the frame: seconds, fraction, bytes captured, bytes of the frame."""
WINDOW = 1 << 18
"""Bytes searched for records at once. The next record is usually some hundred bytes away."""
NEAR = 86_400
"""Largest difference in seconds between a record's time and earlier ones: silence of more than a day is rare."""


def next_block(buffer: Bytes, size: int, order: str, over: bool, only_section: bool) -> tuple[int, bool]:
    """Find the next block among the first `size` bytes of a buffer; the first byte is known to be no start.

    Returns (byte, found). If not found, no block starts before this byte, and more bytes are needed. `over` tells that
    no bytes follow. `order` is the byte order so far. With `only_section`, and after an apparent section header, the
    block must be a section.
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
    """Tell whether sound blocks follow from `start` for `REACH` bytes, or to the end. None needs more bytes."""
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
    """Return the places that look like the header of a section."""
    whole, found, place = bytes(data[:size]), [], 0
    while (place := whole.find(MARK, place + 1)) >= 0:
        if whole[place + 8 : place + 12] in ORDER_MAGIC:
            found.append(place)
    return found


def _blocks(buffer: Bytes, size: int, order: str, over: bool) -> Integers:
    """Return the places that look like a block of `STARTS`: both lengths agree, or the second one is not yet there."""
    found = []
    for shift in range(1, 5):  # bytes may be missing, so blocks may start anywhere
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


# ---------------------------------------------------------------------------------------------- records of pcap


def next_record(
    buffer: Bytes, size: int, order: str, units: int, seconds: int | None, over: bool, link: int | None
) -> tuple[int, bool]:
    """Find the next record of a pcap, as `next_block` does. The clock has `units` per second.

    `seconds` is the time of earlier records, None without any. `link`: the buffer starts with a damaged record of this
    link type; None if the buffer may start anywhere.
    """
    told = None if link is None else _told_end(buffer, link)
    for start in () if told is None or told > size - RECORD else (told,):
        if _are_plausible(buffer, np.array([start]), order, units, seconds)[0]:
            sound = is_record_chain(buffer, size, start, order, units, seconds, over)
            if sound is not False:
                return (start, True) if sound else (start - 1, False)
    last = size - RECORD + 1
    for begin in range(1, max(1, last), WINDOW):
        starts = np.arange(begin, min(begin + WINDOW, last))
        for start in starts[_are_plausible(buffer, starts, order, units, seconds)].tolist():
            sound = is_record_chain(buffer, size, start, order, units, seconds, over)
            if sound is not False:
                return (start, True) if sound else (start - 1, False)
    return (size if over else max(0, last - 1)), False


def is_record_chain(
    buffer: Bytes, size: int, start: int, order: str, units: int, seconds: int | None, over: bool
) -> bool | None:
    """Tell whether plausible records follow each other for `REACH` bytes, or to the end. None needs more bytes."""
    unknown = False if over else None
    position, fields_of = start, Struct(order + "IIII").unpack_from
    while position - start < REACH:
        if position == size and over:
            return True
        if position + RECORD > size:
            return unknown
        fields = fields_of(buffer.data, position)
        if not _is_plausible(fields, units, seconds):
            return False
        position += RECORD + int(fields[2])
        if position > size:
            return unknown
    return True


def _is_plausible(fields: tuple[int, ...], units: int, seconds: int | None) -> bool:
    time, fraction, captured, length = fields
    is_near = seconds is None or abs(time - seconds) <= NEAR
    return fraction < units and captured <= MAXIMUM_SNAPSHOT and captured <= length <= LARGEST_RECORD and is_near


def _are_plausible(buffer: Bytes, starts: Integers, order: str, units: int, seconds: int | None) -> Booleans:
    """Return which starts are plausible records with a frame (see `_is_plausible`)."""
    fields = fields_at(buffer, starts, 0, 4, order).astype(np.int64)
    time, fraction, captured, length = fields.T
    plausible: Booleans = (captured > 0) & (captured <= MAXIMUM_SNAPSHOT) & (captured <= length)
    plausible &= (length <= LARGEST_RECORD) & (fraction < units)
    return plausible if seconds is None else plausible & (np.abs(time - seconds) <= NEAR)


def _told_end(buffer: Bytes, link: int) -> int | None:
    """Return the end of the record at the buffer's beginning according to its IP header, None without one."""
    header = LINKS[link][0] if link in LINKS else 4 if link in FAMILIES else 0 if link in BARE else None
    if header is None:
        return None
    packet = buffer[RECORD + header : RECORD + header + 8].tobytes()
    length = {4: packet[2:4], 6: packet[4:6]}.get(packet[0] >> 4)
    if length is None:
        return None
    return RECORD + header + int.from_bytes(length, "big") + (40 if packet[0] >> 4 == 6 else 0)
