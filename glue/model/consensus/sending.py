"""Messages of a leader: the multicast stream to all, and repairs and snapshots to followers that lag.

`progress.py` decides how a follower is served. Work per call is bounded: the stream by the log's uncommitted bytes, a
repair by the appends in flight, a snapshot by one piece.
"""

from __future__ import annotations

from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.messages import Append, InstallSnapshot, SnapshotReceived
from glue.model.consensus.progress import FollowerProgress, Service


class Sending:
    """The sending side of one leader.

    `round` numbers what is sent now, `told` is that of the last multicast, `sent` the last index that was multicast.
    """

    __slots__ = ("_committed", "_core", "round", "sent", "told")

    def __init__(self, core: ReplicaCore) -> None:
        self._core = core
        self._committed = 0
        self.sent = core.log.last_index
        self.round = self.told = 0

    def begin_round(self) -> int:
        """Number what is sent from now on anew, so that answers to what was sent before can be told apart."""
        self.round += 1
        return self.round

    @property
    def owes_commit(self) -> bool:
        """Whether the commit index has changed since the last multicast."""
        return self._committed != self._core.commit_index

    def stream(self, must: bool) -> bool:
        """Multicast the new entries with the commit index; returns whether anything was sent.

        Without new entries, a heartbeat is sent only if `must` is true.
        """
        core = self._core
        if not must and self.sent == core.log.last_index:
            return False
        while True:
            self.told = self.begin_round()
            append = self._append(self.sent + 1, core.settings.append_limit)
            core.tell(None, append)
            self.sent += len(append.entries)
            if self.sent >= core.log.last_index:
                break
        self._committed = core.commit_index
        return True

    def _append(self, first: int, limit: int) -> Append:
        core, log = self._core, self._core.log
        entries = log.portion(first, limit)
        term = log.term(first - 1)
        assert term is not None
        return Append(core.group, core.life, core.term, self.round, first - 1, term, core.commit_index, entries)

    def repair(self, now: float, peer: str, progress: FollowerProgress) -> None:
        """Send a follower the entries that it lacks, up to the limit in flight."""
        if progress.service is not Service.REPAIR:
            return
        core, log = self._core, self._core.log
        limit = min(core.settings.append_limit, progress.allowance)
        in_flight = min(core.settings.in_flight_limit, progress.allowance)
        most = 1 if progress.probing else max(1, in_flight // core.settings.append_limit)
        while progress.next <= self.sent and len(progress.flights) < most:
            if progress.next <= log.base_index:
                if log.snapshot is not None:
                    progress.needs_snapshot(log.snapshot)
                    self._send_piece(now, peer, progress)
                return
            append = self._append(progress.next, limit)
            core.tell(peer, append)
            progress.sent_round, progress.sent_at = self.round, now
            progress.next += len(append.entries)
            progress.flights.append(progress.next - 1)
        if progress.next > self.sent and not progress.probing:
            progress.streams()

    # --------------------------------------------------------------------------------------------- snapshots

    def _send_piece(self, now: float, peer: str, progress: FollowerProgress) -> None:
        core, snapshot = self._core, progress.snapshot
        assert snapshot is not None
        data = snapshot.data[progress.offset : progress.offset + core.settings.snapshot_piece]
        progress.sent_round, progress.sent_at = self.round, now
        piece = InstallSnapshot(
            core.group, core.life, core.term, self.round, snapshot.index, snapshot.term,
            snapshot.configuration.encode(), len(snapshot.data), progress.offset, data,
        )  # fmt: skip
        core.tell(peer, piece)

    def snapshot_received(self, now: float, peer: str, progress: FollowerProgress, answer: SnapshotReceived) -> None:
        """Send the next piece of a snapshot, or continue after it, once a follower has acknowledged a piece."""
        snapshot = progress.snapshot
        if snapshot is None or answer.index != snapshot.index:
            return
        if answer.offset >= len(snapshot.data):
            progress.matched(now, snapshot.index)
        elif answer.offset > progress.offset or (
            answer.offset < progress.offset and answer.round >= progress.sent_round
        ):
            if answer.offset > progress.offset:
                progress.advances(now)
            progress.offset = answer.offset
            self._send_piece(now, peer, progress)

    def snapshot_again(self, now: float, peer: str, progress: FollowerProgress, round: int) -> None:
        """Send a piece again if the follower answered a later round, because the piece or its answer was lost."""
        if progress.service is Service.SNAPSHOT and round > progress.sent_round and not progress.waits(now):
            progress.repeats()
            self._send_piece(now, peer, progress)
