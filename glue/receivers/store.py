"""Where the state of receivers is kept: any store with these four methods."""

from __future__ import annotations

from typing import Any, Protocol

from glue.errors import RefusedError

Document = dict[str, Any]
"""The state of one receiver, a JSON object."""


class FencedError(RefusedError):
    """Another endpoint owns the partition now, so this one may not write. `epoch`: the highest one noted, if told."""

    epoch: int = 0

    @classmethod
    def of(cls, kind: str, partition: int, epoch: int) -> FencedError:
        """Make the error for a partition of which this epoch is noted."""
        made = cls(f"partition {partition} of {kind!r} has a newer owner, of epoch {epoch}")
        made.epoch = epoch
        return made


class Store(Protocol):
    """A store of documents by kind, partition and id. Each method may block, and may raise any exception.

    The store remembers the highest epoch of each partition, and refuses smaller ones by `FencedError.of`. A model
    that begins anew, as one without `data_dir` does, counts on from there.
    """

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        """Note a new owner's epoch; return the ids of receivers with durable timers. Raises FencedError."""

    def load(self, kind: str, partition: int, id: str) -> Document | None:
        """Return a document, None if there is none."""

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Document, has_timers: bool) -> None:
        """Write a document durably. Raises FencedError if a higher epoch was noted."""

    def close(self) -> None:
        """Close the store."""
