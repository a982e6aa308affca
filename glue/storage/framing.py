"""The format of a log file: records with a checksum of the payload and one of the header.

    length (4 bytes), checksum of the payload (4), checksum of these eight bytes (4); payload; the byte 0xA5

Numbers are little-endian, checksums are CRC-32. A header has its own checksum: a flipped bit in a length must not look
like a record that a crash cut short. The last byte is not zero: a file that a crash extended with zeros must not look
damaged. A last record that could be either counts as damaged, because acknowledged data must not be cut off.
"""

from __future__ import annotations

from struct import Struct, pack
from zlib import crc32

from glue.errors import CorruptStorageError

HEADER = Struct("<III")
SUMMED = 8
"""Bytes of the header that its own checksum covers."""
END = b"\xa5"


def record(payload: bytes) -> bytes:
    """Return a payload as a record."""
    start = pack("<II", len(payload), crc32(payload))
    return b"".join([start, pack("<I", crc32(start)), payload, END])


def size(payload: bytes | memoryview) -> int:
    """Return the bytes of a payload as a record."""
    return HEADER.size + len(payload) + len(END)


def scan(data: bytes) -> tuple[list[memoryview], int]:
    """Return the payloads in a file, and the size of the whole records. A crash has cut short what follows.

    Raises CorruptStorageError for damage to records that were whole.
    """
    payloads, start, view = [], 0, memoryview(data)
    while start < len(data):
        payload = _payload(view, start)
        if payload is None:
            break
        payloads.append(payload)
        start += HEADER.size + len(payload) + len(END)
    return payloads, start


def _payload(view: memoryview, start: int) -> memoryview | None:
    """Return the payload of the record at `start`; None if a crash has cut it short."""
    whole = len(view)
    if whole - start < HEADER.size:
        return None
    length, checksum, of_header = HEADER.unpack_from(view, start)
    if crc32(view[start : start + SUMMED]) != of_header:
        if not any(view[start + HEADER.size :]):
            return None
        raise CorruptStorageError(f"the record at byte {start} of {whole} has a damaged header")
    end = start + HEADER.size + length + len(END)
    if end > whole:
        return None
    payload = view[start + HEADER.size : end - len(END)]
    if view[end - 1] == END[0] and crc32(payload) == checksum:
        return payload
    if not any(view[end - 1 :]):
        return None
    raise CorruptStorageError(f"the record at byte {start} of {whole} is damaged")
