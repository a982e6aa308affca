"""The settings of consensus: who votes, and how long to wait for what."""

from __future__ import annotations

from dataclasses import dataclass

from glue.errors import ConfigurationError

UNCOMMITTED_LIMIT = 16 << 20
"""Bytes of commands that a leader holds uncommitted: 16 MB are 0.2 s of a gigabit link at 80 MB/s."""

APPEND_LIMIT = 1 << 20
"""Bytes of commands in one Append: large enough to be worth a sync, small enough to be followed by a heartbeat."""

IN_FLIGHT_LIMIT = 8 << 20
"""Bytes sent to one lagging follower and not acknowledged: 8 appends, some 0.1 s of a gigabit link."""

TICKET_LIMIT = 65_536
"""Tickets that wait at once: at 16 MB uncommitted that is 256 bytes a command."""

SNAPSHOT_PIECE = 256 << 10
"""Bytes of a snapshot in one message: 256 kB a millisecond are more than a gigabit link takes."""


@dataclass(frozen=True, kw_only=True)
class ConsensusSettings:
    """How a replica takes part.

    Who votes is given once, as the number of `voters` or, by endpoint id, as `members`; the first start needs all
    of them once. Any other replica, and one with `observer`, only follows. An observer that gives neither follows
    whatever group there is.

    `election_timeout`: seconds without a leader after which a voter stands for election, drawn anew each time from
    one to two of it. `heartbeat`: seconds between a leader's heartbeats. `ticket_timeout`: seconds after which a
    ticket's outcome is unknown. `compact_after`: bytes of log after which a snapshot is asked for, and
    `trailing`: entries kept behind it for followers that lag a little.

    Raises ConfigurationError for what cannot work.
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
        """How many voters there are to be; 0 if that is left to others."""
        return len(self.members) if self.members is not None else self.voters or 0
