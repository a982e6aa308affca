"""Operations and outcomes that clients saw, checked against the one committed log.

All writes are entries of one log. Therefore a history is linearizable under three conditions. Every write reported as
committed is in the log once, at the reported index. No write reported as refused is ever in the log. Every read sees at
least as much as each operation that ended before the read began.
"""

from __future__ import annotations

from glue.model.consensus import Outcome, Resolution
from glue.simulation.consensus.invariants import InvariantWatch, require


class History:
    """Operations of all clients."""

    def __init__(self, watch: InvariantWatch) -> None:
        self.counters: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self._watch = watch
        # by peer and ticket: the command, and the index that a read must reach
        self._open: dict[tuple[str, int], tuple[bytes | None, int]] = {}
        self._floor = 0  # the highest index seen by an operation that has ended
        self._refused: set[bytes] = set()

    def asked(self, peer: str, ticket: int, command: bytes | None) -> None:
        """Record the start of an operation. `command` is None for a read."""
        self._open[peer, ticket] = command, self._floor

    def forget(self, peer: str) -> None:
        """Forget the open operations of a crashed node, because their outcomes are never reported."""
        for key in [known for known in self._open if known[0] == peer]:
            del self._open[key]

    def written(self, peer: str, resolution: Resolution) -> None:
        """Record the end of an operation, other than a read that may be served."""
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
        """Record a read that may be served. `applied` is the index up to which the node has applied entries."""
        asked = self._open.pop((peer, resolution.ticket), None)
        self.counters[resolution.outcome] += 1
        require(resolution.index <= applied, "a read waits for its index", (peer, resolution))
        if asked is not None:
            require(resolution.index >= asked[1], "reads are linearizable", (peer, resolution, asked[1]))
            self._floor = max(self._floor, resolution.index)

    def check(self) -> None:
        """Raise a Violation if a refused command was committed. Call this at the end."""
        for command in self._refused & self._watch.commands:
            require(False, "refused never happens", command)
