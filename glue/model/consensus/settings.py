"""The settings of consensus: the voters, the timeouts and the limits."""

from __future__ import annotations

from dataclasses import dataclass

from glue.errors import ConfigurationError

UNCOMMITTED_LIMIT = 16 << 20
"""Bytes of commands that a leader holds uncommitted: 16 MB take 0.2 s of a gigabit link at 80 MB/s."""

APPEND_LIMIT = 1 << 20
"""Bytes of commands in one Append: large enough to be worth a sync, small enough to delay no heartbeat for long."""

IN_FLIGHT_LIMIT = 8 << 20
"""Bytes sent to one lagging follower and not acknowledged: 8 appends, some 0.1 s of a gigabit link."""

TICKET_LIMIT = 65_536
"""Tickets that wait at once: at 16 MB uncommitted, 256 bytes a command."""

SNAPSHOT_PIECE = 256 << 10
"""Bytes of a snapshot in one message: 256 kB each millisecond are more than a gigabit link carries."""


@dataclass(frozen=True, kw_only=True)
class ConsensusSettings:
    """How a replica takes part in a group.

    The voters are given as their number (`voters`) or by endpoint id (`members`). The first start needs all of them at
    once. Other replicas, and those with `observer`, only follow. An observer without either joins any group.

    * `election_timeout`: seconds without a leader before an election. Each voter waits one to two of it, drawn anew.
    * `heartbeat`: seconds between a leader's heartbeats.
    * `ticket_timeout`: seconds until the outcome of a ticket is reported as unknown.
    * `compact_after`: bytes of log after which a snapshot is asked for.
    * `trailing`: entries kept before a snapshot for followers that lag a little.

    Raises ConfigurationError for settings that cannot work.
    """

    voters: int | None = None
    members: tuple[str, ...] | None = None
    observer: bool = False
    election_timeout: float = 1.0
    heartbeat: float = 0.2
    ticket_timeout: float = 5.0
    compact_after: int = 16 << 20
    trailing: int = 1000
    pre_vote: bool = True
    append_limit: int = APPEND_LIMIT
    in_flight_limit: int = IN_FLIGHT_LIMIT
    uncommitted_limit: int = UNCOMMITTED_LIMIT
    ticket_limit: int = TICKET_LIMIT
    snapshot_piece: int = SNAPSHOT_PIECE

    def __post_init__(self) -> None:
        if self.observer and self.voters is None and self.members is None:
            pass
        elif (self.voters is None) == (self.members is None):
            raise ConfigurationError("give either voters=3, how many there are to be, or members=[...], their names")
        elif self.seats < 1:
            raise ConfigurationError(f"voters={self.seats}: expected 1 or more; 3 survive the loss of one")
        if self.members is not None and len(set(self.members)) < len(self.members):
            raise ConfigurationError("members=...: expected each name once")
        if not 0 < 2 * self.heartbeat <= self.election_timeout:
            raise ConfigurationError(
                f"heartbeat={self.heartbeat}, election_timeout={self.election_timeout}: expected two "
                "heartbeats or more within an election timeout, or each loss would cost the leader its place"
            )

    @property
    def seats(self) -> int:
        """The number of voters of a new group; 0 if an observer leaves that to others."""
        return len(self.members) if self.members is not None else self.voters or 0
