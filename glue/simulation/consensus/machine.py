"""State machine of simulated replicas: a chain of hashes over all applied commands."""

from __future__ import annotations

from hashlib import blake2b

from glue.model.consensus import LogEntry

DIGEST = 16
"""Bytes of the hash."""

COPIES = 8
"""Repetitions of the hash in a snapshot, so that a snapshot takes several pieces."""


class ChainMachine:
    """State that depends on all commands and their order. Equal digests mean equal histories."""

    __slots__ = ("applied", "digest")

    def __init__(self) -> None:
        self.applied = 0
        self.digest = bytes(DIGEST)

    def apply(self, entry: LogEntry) -> None:
        """Apply a command."""
        self.applied = entry.index
        chained = self.digest + entry.index.to_bytes(8, "big") + entry.data
        self.digest = blake2b(chained, digest_size=DIGEST).digest()

    def snapshot(self) -> bytes:
        """Return the state as bytes."""
        return self.applied.to_bytes(8, "big") + self.digest * COPIES

    def restore(self, data: bytes) -> None:
        """Take the state from a snapshot."""
        self.applied = int.from_bytes(data[:8], "big")
        self.digest = data[8 : 8 + DIGEST]
