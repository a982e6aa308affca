"""The replicated log in memory: the entries after `base`, the snapshot before them, and their configurations."""

from __future__ import annotations

from collections.abc import Sequence

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.items import Kind, LogEntry, Snapshot, Stored

ENTRY_OVERHEAD = 64
"""Bytes that an entry costs besides its data: about the size of its objects."""

NOBODY = Configuration({}, {})


class Log:
    """Entries with consecutive indices from `base_index` + 1 on. The snapshot's index is `base_index` or later.

    `size` is the bytes of the entries after the snapshot. A configuration is in force as soon as it is in the log.
    """

    __slots__ = (
        "_configurations", "_entries", "base_index", "base_term", "last_index", "last_term", "size", "snapshot",
    )  # fmt: skip

    def __init__(self, stored: Stored) -> None:
        self._entries: list[LogEntry] = []
        self._configurations: list[tuple[int, Configuration]] = []
        self.snapshot = stored.snapshot
        self.base_index, self.base_term = self.last_index, self.last_term = stored.base
        self.size = 0
        if self.snapshot is not None:
            self._configurations.append((self.snapshot.index, self.snapshot.configuration))
        self.extend(stored.entries)

    @property
    def configuration(self) -> Configuration:
        """The newest configuration in the log, committed or not."""
        return self._configurations[-1][1] if self._configurations else NOBODY

    @property
    def configuration_index(self) -> int:
        """The index of the newest configuration, 0 if there is none."""
        return self._configurations[-1][0] if self._configurations else 0

    def configuration_at(self, index: int) -> Configuration:
        """Return the configuration in force at an index, which must not be before the snapshot."""
        known = [configuration for since, configuration in self._configurations if since <= index]
        return known[-1] if known else NOBODY

    def configurations_since(self, index: int) -> list[Configuration]:
        """Return the configuration in force at an index, and all later ones."""
        known = self._configurations
        later = [configuration for since, configuration in known if since > index]
        return [self.configuration_at(index), *later]

    def term(self, index: int) -> int | None:
        """Return the term of the entry at an index; None if the log does not hold it (any more)."""
        offset = index - self.base_index
        if 0 < offset <= len(self._entries):
            return self._entries[offset - 1].term
        return self.base_term if offset == 0 else None

    def entries(self, first: int, last: int) -> list[LogEntry]:
        """Return the entries from `first` to `last` that the log holds."""
        return self._entries[max(0, first - self.base_index - 1) : max(0, last - self.base_index)]

    def portion(self, first: int, limit: int) -> tuple[LogEntry, ...]:
        """Return entries from `first` on, up to `limit` bytes, but at least one if there is one."""
        start = end = first - self.base_index - 1
        entries, size = self._entries, 0
        while end < len(entries) and (size <= 0 or size + len(entries[end].data) <= limit):
            size += len(entries[end].data) + ENTRY_OVERHEAD
            end += 1
        return tuple(entries[start:end])

    def is_covered_by(self, last_index: int, last_term: int) -> bool:
        """Whether a log with this end is at least as up to date as this one (thesis, section 3.6.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def agreeing(self, index: int, term: int) -> int:
        """Return the largest index up to `index` where this log may agree with a log that has `term` at `index`.

        Both sides skip all entries of terms that the other one cannot have. The search for the point where two logs
        part then takes one question for each term, not for each entry.
        """
        index = min(index, self.last_index)
        while index > self.base_index and (self.term(index) or 0) > term:
            index -= 1
        return index

    # ---------------------------------------------------------------------------------------------- changes

    def extend(self, entries: Sequence[LogEntry]) -> None:
        """Append entries that follow the last one."""
        if not entries:
            return
        self._entries += entries
        settled = 0 if self.snapshot is None else self.snapshot.index
        for entry in entries:
            if entry.index <= settled:
                continue
            self.size += len(entry.data) + ENTRY_OVERHEAD
            if entry.kind == Kind.CONFIGURATION:
                self._configurations.append((entry.index, Configuration.decode(entry.data)))
        self.last_index, self.last_term = entries[-1].index, entries[-1].term

    def truncate(self, first: int) -> None:
        """Remove the entry at `first` and all after it, with their configurations."""
        cut = first - self.base_index - 1
        self.size -= sum(len(entry.data) + ENTRY_OVERHEAD for entry in self._entries[cut:])
        del self._entries[cut:]
        while self._configurations and self._configurations[-1][0] >= first:
            self._configurations.pop()
        self.last_index = first - 1
        self.last_term = self._entries[-1].term if self._entries else self.base_term

    def compact(self, snapshot: Snapshot, keep: int) -> None:
        """Replace the entries up to a snapshot by it; the last `keep` of them stay."""
        base = max(self.base_index, snapshot.index - keep)
        base_term = self.term(base)
        assert base_term is not None
        del self._entries[: base - self.base_index]
        self.base_index, self.base_term = base, base_term
        self._begin_with(snapshot)

    def replace(self, snapshot: Snapshot) -> None:
        """Take on a leader's snapshot. Later entries stay if the log agrees with the snapshot; else all are removed."""
        if self.term(snapshot.index) == snapshot.term:
            self.compact(snapshot, 0)
            return
        self._entries.clear()
        self._configurations.clear()
        self.base_index, self.base_term = snapshot.index, snapshot.term
        self.last_index, self.last_term = snapshot.index, snapshot.term
        self._begin_with(snapshot)

    def _begin_with(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        later = [known for known in self._configurations if known[0] > snapshot.index]
        self._configurations = [(snapshot.index, snapshot.configuration), *later]
        rest = self.entries(snapshot.index + 1, self.last_index)
        self.size = sum(len(entry.data) + ENTRY_OVERHEAD for entry in rest)
