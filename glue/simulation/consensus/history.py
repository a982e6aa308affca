"""What clients asked and were told, checked against the one log that was committed.

All writes are entries of one log, so a history is linearizable if every write that was told to be committed is in
the log once, at the index told; none that was told to be refused ever is; and every read sees at least what any
operation that ended before it began has seen or done.
"""

from __future__ import annotations

from glue.model.consensus import Outcome, Resolution
from glue.simulation.consensus.invariants import Watch, require


class History:
    """The operations of all clients."""

    def __init__(self, watch: Watch) -> None:
        self.counters: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self._watch = watch
        self._open: dict[tuple[str, int], tuple[bytes | None, int]] = {}  # command, and what a read must see
        self._floor = 0  # the highest index that an operation that has ended has seen
        self._refused: set[bytes] = set()

    def asked(self, peer: str, ticket: int, command: bytes | None) -> None:
        """An operation begins."""
        self._open[peer, ticket] = command, self._floor

    def forget(self, peer: str) -> None:
        """Nobody will be told any more what this node was asked."""
        for key in [known for known in self._open if known[0] == peer]:
            del self._open[key]

    def written(self, peer: str, resolution: Resolution) -> None:
        """An operation ends; not with a read that may be served."""
        asked = self._open.pop((peer, resolution.ticket), None)
        self.counters[resolution.outcome] += 1
        command = asked[0] if asked else None
        if command is None:
            return
        if resolution.outcome is Outcome.COMMITTED:
            known = self._watch.committed.get(resolution.index)
            require(
                known is not None and known.data == command, "acknowledged is committed", (peer, resolution, command)
            )
            self._floor = max(self._floor, resolution.index)
        elif resolution.outcome is Outcome.REFUSED:
            self._refused.add(command)

    def read(self, peer: str, resolution: Resolution, applied: int) -> None:
        """A read may be served: the node has applied all up to `applied`."""
        asked = self._open.pop((peer, resolution.ticket), None)
        self.counters[resolution.outcome] += 1
        require(resolution.index <= applied, "a read waits for its index", (peer, resolution))
        if asked is not None:
            require(resolution.index >= asked[1], "reads are linearizable", (peer, resolution, asked[1]))
            self._floor = max(self._floor, resolution.index)

    def check(self) -> None:
        """At the end: what was refused has not happened."""
        for command in self._refused & self._watch.commands:
            require(False, "refused never happens", command)
