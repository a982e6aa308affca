"""The state machine that simulated replicas agree on: a chain of hashes over everything that was applied."""

from __future__ import annotations

from hashlib import blake2b

from glue.model.consensus import LogEntry

DIGEST = 16
"""Bytes of the hash."""

COPIES = 8
"""A snapshot repeats the hash so that it takes several pieces."""


class ChainMachine:
    """What it is follows from all commands in their order; two that have applied the same are the same."""

    __slots__ = ("applied", "digest")

    def __init__(self) -> None:
        self.applied = 0
        self.digest = bytes(DIGEST)

    def apply(self, entry: LogEntry) -> None:
        """Take a command."""
        self.applied = entry.index
        chained = self.digest + entry.index.to_bytes(8, "big") + entry.data
        self.digest = blake2b(chained, digest_size=DIGEST).digest()

    def snapshot(self) -> bytes:
        """Itself as bytes."""
        return self.applied.to_bytes(8, "big") + self.digest * COPIES

    def restore(self, data: bytes) -> None:
        """Become what a snapshot says."""
        self.applied = int.from_bytes(data[:8], "big")
        self.digest = data[8 : 8 + DIGEST]
