"""The changes since the last write, the writes under way to the disk, and the answers that wait for them.

An answer may leave once everything that the replica knew when it answered is durable. Writes are numbered and take
effect in order. `durable_index` follows from completed writes, not from index and term of an entry. An entry may be
truncated and appended again while the disk still holds the one between (the ABA problem of asynchronous storage).
"""

from __future__ import annotations

from collections import deque

from glue.model.consensus.items import DurableWrite, Vital
from glue.model.consensus.log import Log
from glue.model.consensus.messages import Message

AddressedMessage = tuple[str | None, Message]
"""A message and its receiver; None for all."""


class PendingWrite:
    """A write that is not durable yet, with the last index of the log after it and the waiting answers."""

    __slots__ = ("answers", "last_index", "number")

    def __init__(self, number: int, last_index: int) -> None:
        self.number = number
        self.last_index = last_index
        self.answers: list[AddressedMessage] = []


class Journal:
    """The writes of a replica's state to the disk. The log is durable up to `durable_index`."""

    __slots__ = ("_first", "_has_snapshot", "_number", "_pending", "_vital", "durable_index")

    def __init__(self, vital: Vital, last_index: int) -> None:
        self.durable_index = last_index
        self._pending: deque[PendingWrite] = deque()
        self._number = 0
        self._vital = vital
        self._first = last_index + 1
        self._has_snapshot = False

    def truncated(self, first: int) -> None:
        """Note that the log was truncated before this index."""
        self._first = min(self._first, first)
        self.durable_index = min(self.durable_index, first - 1)
        for pending in self._pending:
            pending.last_index = min(pending.last_index, first - 1)

    def compacted(self) -> None:
        """Note that the log has a new snapshot, to be written with it."""
        self._has_snapshot = True

    def replaced(self, index: int) -> None:
        """Note that a snapshot of this index, from the leader, replaced the log."""
        self.truncated(index + 1)
        self._has_snapshot = True

    def take(self, vital: Vital, log: Log) -> DurableWrite | None:
        """Return the next write, None if nothing has changed."""
        changed = None if vital is self._vital or vital == self._vital else vital
        if changed is None and self._first > log.last_index and not self._has_snapshot:
            return None
        self._number += 1
        if self._has_snapshot:
            entries = log.entries(log.base_index + 1, log.last_index)
            write = DurableWrite(self._number, changed, entries, log.snapshot, (log.base_index, log.base_term))
        else:
            write = DurableWrite(self._number, changed, log.entries(self._first, log.last_index))
        self._vital, self._first, self._has_snapshot = vital, log.last_index + 1, False
        self._pending.append(PendingWrite(self._number, log.last_index))
        return write

    def hold(self, answers: list[AddressedMessage]) -> list[AddressedMessage]:
        """Keep answers until the last write is durable; returns those that may leave at once."""
        if not self._pending:
            return answers
        self._pending[-1].answers += answers
        return []

    def synced(self, number: int) -> list[AddressedMessage]:
        """Note that all writes up to this number are durable; returns the answers that may leave."""
        answers: list[AddressedMessage] = []
        while self._pending and self._pending[0].number <= number:
            done = self._pending.popleft()
            self.durable_index = max(self.durable_index, done.last_index)
            answers += done.answers
        return answers

    @property
    def is_durable(self) -> bool:
        """Whether everything that was written is durable."""
        return not self._pending
