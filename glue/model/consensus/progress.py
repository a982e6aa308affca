"""The progress of one follower, as far as the leader knows, and the way in which the leader serves the follower.

A follower that keeps up takes the multicast stream. A follower that refuses an append is *repaired* by unicast. One
append finds where its log agrees. Then appends follow, as many as may be in flight, until the follower has everything
that was multicast. A follower that lags behind the start of the log is sent the snapshot first.

Every multicast has a round, which answers echo. An answer to a later round without an acknowledgement shows that an
earlier unicast was lost. The leader then sends again, once in a heartbeat at most. Otherwise each multicast that a
lagging follower refuses would repeat everything.

A follower keeps no append that comes too early. If an append in flight is refused, the network has reordered it, and
the leader asks again at once where the log agrees. On a network that often reorders, waiting would cost a heartbeat for
almost every entry.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from glue.model.consensus.items import Snapshot


class Service(Enum):
    """How a follower is served."""

    STREAM = "stream"
    REPAIR = "repair"
    SNAPSHOT = "snapshot"


class FollowerProgress:
    """One follower under one life.

    * `match`: index up to which the follower's log is durable and equal to the leader's.
    * `next`: next index to send by unicast.
    * `answered_at`: time of the last answer.
    * `round`: latest round answered.
    * `sent_round` and `sent_at`: round and time of the last unicast.
    * `flights`: last indices of the appends in flight.
    * `probing`: true while the leader searches where the follower's log agrees. It has asked about `probed`.
    """

    __slots__ = (
        "answered_at", "flights", "life", "match", "next", "offset", "probed", "probing", "round", "sent_at",
        "sent_round", "service", "snapshot",
    )  # fmt: skip

    def __init__(self, life: str, answered_at: float) -> None:
        self.life = life
        self.answered_at = answered_at
        self.match = 0
        self.next = 1
        self.round = 0
        self.sent_round = 0
        self.sent_at = answered_at
        self.service = Service.STREAM
        self.probing = False
        self.probed = 0
        self.flights: deque[int] = deque()
        self.snapshot: Snapshot | None = None
        self.offset = 0

    def matched(self, index: int) -> None:
        """Note that the follower has everything up to this index. Late and repeated acknowledgements change nothing."""
        if index > self.match:
            self.match = index
        flights = self.flights
        while flights and flights[0] <= index:
            flights.popleft()
        if self.service is Service.REPAIR:
            self.probing = False
            self.next = max(self.next, self.match + 1)
        elif self.snapshot is not None and index >= self.snapshot.index:
            self.repair_from(self.match + 1)

    def repair_from(self, index: int) -> None:
        """Serve the follower by unicast from about this index on."""
        self.service = Service.REPAIR
        self.snapshot = None
        self.next = max(self.match + 1, index)
        self.probed = self.next - 1
        self.probing = True
        self.flights.clear()

    def refused(self, previous_index: int, hint: int, round: int, patience: bool) -> None:
        """Note that the follower refused an append after `previous_index`; its log may agree up to `hint`.

        With `patience`, unicasts may still be on their way and are not all repeated.
        """
        if previous_index <= self.match or self.service is Service.SNAPSHOT:
            return  # late, as more was acknowledged since; or known
        is_answer = self.probing and previous_index == self.probed
        is_lost = round > self.sent_round and (self.service is Service.STREAM or not patience)
        is_early = not self.probing and previous_index in self.flights and previous_index < self.next - 1
        if is_answer or is_lost or is_early:
            most = self.probed + 1 if self.probing else previous_index  # a refused index stays refused
            self.repair_from(min(hint + 1, previous_index, most))

    def streams(self) -> None:
        """Serve the follower by the stream again, because everything that was multicast was sent to it.

        Appends in flight may still be refused.
        """
        self.service = Service.STREAM

    def needs_snapshot(self, snapshot: Snapshot) -> None:
        """Serve the follower by a snapshot, because the log no longer holds what it needs."""
        self.service = Service.SNAPSHOT
        self.snapshot = snapshot
        self.offset = 0
        self.flights.clear()
