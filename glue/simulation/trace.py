"""A fingerprint of all that happened in a world, to tell whether two runs were the same.

Each record is a few numbers and the CRC-32 of the bytes involved, all of them fed into one BLAKE2b: a
checksum is enough to notice an accident, and half the price of hashing every datagram for every receiver.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from zlib import crc32

_RECORD = Struct("<cdIIII")  # kind, true time, three numbers of that kind, CRC-32

SENT, ARRIVED, TURNED, NOTED = b"s", b"a", b"t", b"n"


class TraceHash:
    """What happened so far, as a hash."""

    __slots__ = ("_hash", "_update")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._update = self._hash.update

    def record(self, kind: bytes, time: float, first: int, second: int, third: int, data: bytes = b"") -> None:
        """Add one happening."""
        self._update(_RECORD.pack(kind, time, first, second, third, crc32(data)))

    def note(self, time: float, text: str) -> None:
        """Add something that only the test knows of."""
        data = text.encode()
        self.record(NOTED, time, len(data), 0, 0, data)

    @property
    def digest(self) -> str:
        """The hash so far: 32 hex digits."""
        return self._hash.hexdigest()
