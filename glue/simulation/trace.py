"""Fingerprint of everything that happened in a world, to compare two runs.

Each record has a few numbers and the CRC-32 of the bytes involved. All records are fed into one BLAKE2b hash. A
checksum is enough to notice an accidental difference, and costs half as much as hashing every datagram for every
receiver.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from zlib import crc32

_RECORD = Struct("<cdIIII")  # kind, true time, three numbers of that kind, CRC-32

SENT, ARRIVED, TURNED, NOTED = b"s", b"a", b"t", b"n"


class TraceHash:
    """Hash of everything that has happened so far."""

    __slots__ = ("_hash", "_update")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._update = self._hash.update

    def record(self, kind: bytes, time: float, first: int, second: int, third: int, data: bytes = b"") -> None:
        """Add one event."""
        self._update(_RECORD.pack(kind, time, first, second, third, crc32(data)))

    def note(self, time: float, text: str) -> None:
        """Add a text that the network does not see."""
        data = text.encode()
        self.record(NOTED, time, len(data), 0, 0, data)

    @property
    def digest(self) -> str:
        """The hash so far, 32 hex digits."""
        return self._hash.hexdigest()
