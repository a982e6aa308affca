"""How far one follower is, as its leader knows, and how it is served.

A follower that keeps up takes the multicast stream. One that refuses an append is *repaired* by unicast: one append
to find where its log agrees, then as many as may be in flight, until it has all that was multicast. One that lags
behind what the log still holds is sent the snapshot first.

Every multicast has a round, which answers echo. An answer to a later round than the one in which something was
sent by unicast, and still no acknowledgement of it: it was lost, and is sent again; once in a heartbeat at most, for
otherwise each of many multicasts that a lagging follower refuses would have everything sent to it again. One of several
appends in flight that is refused came before the one that it follows: that is asked about anew, at once, for a follower
keeps nothing that came too early, and where the network often reorders it would take hardly an entry a heartbeat.
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

    `match`: its log is durable and the leader's up to there. `next`: the next index to send by unicast. `heard`: when
    it last answered, and `round` the latest round that it answered. `sent_round` and `sent_at`: the round in which the
    last unicast was sent, and when. `flights`: last indices of the appends in flight. `probing`: where its log agrees
    is not known, and it was asked about `probed`.
    """

    __slots__ = (
        "flights", "heard", "life", "match", "next", "offset", "probed", "probing", "round", "sent_at", "sent_round",
        "service", "snapshot",
    )  # fmt: skip

    def __init__(self, life: str, heard: float) -> None:
        self.life = life
        self.heard = heard
        self.match = 0
        self.next = 1
        self.round = 0
        self.sent_round = 0
        self.sent_at = heard
        self.service = Service.STREAM
        self.probing = False
        self.probed = 0
        self.flights: deque[int] = deque()
        self.snapshot: Snapshot | None = None
        self.offset = 0

    def matched(self, index: int) -> None:
        """It has acknowledged everything up to this index; late and repeated acknowledgements change nothing."""
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
        """Serve it by unicast, from this index on or thereabouts."""
        self.service = Service.REPAIR
        self.snapshot = None
        self.next = max(self.match + 1, index)
        self.probed = self.next - 1
        self.probing = True
        self.flights.clear()

    def refused(self, previous_index: int, hint: int, round: int, patience: bool) -> None:
        """It has refused an append that followed `previous_index`; its log may agree up to `hint`.

        With `patience`, what was sent by unicast may still be on its way, and is not all sent again.
        """
        if previous_index <= self.match or self.service is Service.SNAPSHOT:
            return  # late, for it has acknowledged more since; or known
        is_answer = self.probing and previous_index == self.probed
        is_lost = round > self.sent_round and (self.service is Service.STREAM or not patience)
        is_early = not self.probing and previous_index in self.flights and previous_index < self.next - 1
        if is_answer or is_lost or is_early:
            most = self.probed + 1 if self.probing else previous_index  # what was refused once stays refused
            self.repair_from(min(hint + 1, previous_index, most))

    def streams(self) -> None:
        """It has been sent all that was multicast; what is in flight may still turn out to have come too early."""
        self.service = Service.STREAM

    def needs_snapshot(self, snapshot: Snapshot) -> None:
        """What it needs is no more in the log."""
        self.service = Service.SNAPSHOT
        self.snapshot = snapshot
        self.offset = 0
        self.flights.clear()
