"""Reading of a file of records that may be damaged: everything that is whole is found, before and after the damage.

A crash leaves a torn end: part of a record, or zeros. Any other wrong checksum is damage to data that was whole. Of a
record with a damaged payload the size is still known. After a damaged header, the next record is searched: a header
fits its own checksum by chance once in 2^32, and its payload must fit too.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from glue.storage.framing import END, HEADER, SUMMED

_OVERHEAD = HEADER.size + len(END)


class Salvage:
    """The records in some bytes of a file; iterate once, then read the rest."""

    __slots__ = ("_data", "damaged", "is_torn", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.damaged: list[tuple[int, int]] = []
        """Byte ranges that hold no whole record."""
        self.size = 0
        """Where the last whole record, or the last damage, ends. A crash has cut short what follows."""
        self.is_torn = False

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the position and the payload of each whole record."""
        data, at = self._data, 0
        view, stop = memoryview(data), len(data)
        unpack = HEADER.unpack_from
        while stop - at >= _OVERHEAD:
            length, checksum, of_header = unpack(data, at)
            if crc32(view[at : at + SUMMED]) == of_header:
                begin = at + HEADER.size
                end = begin + length
                if end + 1 > stop:
                    break
                payload = view[begin:end]
                if data[end] == END[0] and crc32(payload) == checksum:
                    yield at, payload
                elif _is_empty(data, end):
                    break
                else:
                    self.damaged.append((at, end + 1))
                self.size = at = end + 1
                continue
            if _is_empty(data, at + HEADER.size):
                break
            found = _next_record(data, at + 1)
            self.damaged.append((at, stop if found is None else found))
            self.size = at = stop if found is None else found
        self.is_torn = self.size < stop


def _is_empty(data: bytes, start: int) -> bool:
    """Whether only zeros follow, as in a file that grew without being filled."""
    return not data[start:].strip(b"\0")


def _next_record(data: bytes, start: int) -> int | None:
    """The position of the next whole record, None if there is none."""
    view, stop, at = memoryview(data), len(data), start
    while True:
        at = data.find(END, at) + len(END)
        if not at or stop - at < _OVERHEAD:
            return None
        length, checksum, of_header = HEADER.unpack_from(data, at)
        end = at + HEADER.size + length
        if (
            end < stop
            and crc32(view[at : at + SUMMED]) == of_header
            and crc32(view[at + HEADER.size : end]) == checksum
        ):
            return at
