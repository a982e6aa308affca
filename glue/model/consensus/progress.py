"""The progress of one follower, as far as the leader knows, and the way in which the leader serves the follower.

A follower that keeps up takes the multicast stream. A follower that refuses an append is *repaired* by unicast. One
append finds where its log agrees. Then appends follow, as many as may be in flight, until the follower has everything
that was multicast. A follower that lags behind the start of the log is sent the snapshot first.

Every multicast has a round, which answers echo. An answer to a later round without an acknowledgement shows that an
earlier unicast was lost, or that the follower is busy and still has to read it. The leader then sends again, after
twice the time that the follower took before, a heartbeat at least, and after twice that for each repeat (as RFC 6298
does it, with Karn's rule). Otherwise each multicast that a lagging follower refuses would repeat everything, and a busy
follower would never get through its repeats.

How much may be in flight follows the follower's speed, as in TCP's slow start and congestion avoidance (RFC 5681): a
message that a busy follower cannot read within its lifespan is gone, so the same message would never arrive.

A follower keeps no append that comes too early. If an append in flight is refused, the network has reordered it, and
the leader asks again at once where the log agrees. On a network that often reorders, waiting would cost a heartbeat for
almost every entry. What was sent before is refused, too, so each new beginning has a round of its own, and refusals of
earlier ones change nothing: otherwise each of them would begin anew, and all would be sent again for each.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from glue.model.consensus.items import Snapshot

PATIENCE_LIMIT = 8
"""Heartbeats between two repeats to a follower that acknowledges nothing: longer than a message lives on its way."""

FIRST_ALLOWANCE = 64 << 10
"""Bytes of the first append to a follower of unknown speed, and of each one after a repeat."""

ALLOWANCE_LIMIT = 64 << 20
"""Bytes up to which an allowance grows: more than any setting lets be in flight."""


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
    * `since`: the round with which the leader last began anew; refusals of earlier rounds do not count.
    * `flights`: last indices of the appends in flight.
    * `probing`: true while the leader searches where the follower's log agrees. It has asked about `probed`.
    * `patience`: seconds after a unicast in which it is not sent again: a `heartbeat`, or twice the time until one that
      was sent once was acknowledged. Each repeat doubles it.
    * `repeated`: true from a repeat to the next acknowledgement.
    * `allowance`: bytes that may be in flight. Each acknowledgement of a unicast doubles it below `threshold`, and adds
      to it above. A repeat begins anew, with half of it as the threshold.
    """

    __slots__ = (
        "allowance", "answered_at", "flights", "heartbeat", "life", "match", "next", "offset", "patience", "probed",
        "probing", "repeated", "round", "sent_at", "sent_round", "service", "since", "snapshot", "threshold",
    )  # fmt: skip

    def __init__(self, life: str, answered_at: float, heartbeat: float) -> None:
        self.life = life
        self.answered_at = answered_at
        self.match = 0
        self.next = 1
        self.round = 0
        self.sent_round = 0
        self.since = 0
        self.sent_at = answered_at
        self.service = Service.STREAM
        self.probing = False
        self.probed = 0
        self.heartbeat = self.patience = heartbeat
        self.repeated = False
        self.allowance = FIRST_ALLOWANCE
        self.threshold = ALLOWANCE_LIMIT
        self.flights: deque[int] = deque()
        self.snapshot: Snapshot | None = None
        self.offset = 0

    def matched(self, now: float, index: int) -> None:
        """Note that the follower has everything up to this index. Late and repeated acknowledgements change nothing."""
        if index > self.match:
            self.match = index
        flights = self.flights
        while flights and flights[0] <= index:
            flights.popleft()
            self.advances(now)
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

    def refused(self, previous_index: int, hint: int, round: int, now: float) -> bool:
        """Note that the follower refused an append after `previous_index`; its log may agree up to `hint`.

        Unicasts that may still be on their way are not repeated. Returns whether the leader begins anew.
        """
        if previous_index <= self.match or round < self.since or self.service is Service.SNAPSHOT:
            return False  # late, as more was acknowledged or the leader began anew since; or known
        is_answer = self.probing and previous_index == self.probed
        is_lost = round > self.sent_round and not (self.waits(now) and (self.flights or self.service is Service.REPAIR))
        is_early = not self.probing and previous_index in self.flights and previous_index < self.next - 1
        if not (is_answer or is_lost or is_early):
            return False
        if is_lost and (self.flights or self.probing):
            self.repeats()
        most = self.probed + 1 if self.probing else previous_index  # a refused index stays refused
        self.repair_from(min(hint + 1, previous_index, most))
        return True

    def waits(self, now: float) -> bool:
        """Whether the last unicast may still be on its way."""
        return now - self.sent_at < self.patience

    def advances(self, now: float) -> None:
        """Note that a unicast has arrived, and let more be in flight."""
        if not self.repeated:
            self.patience = max(2 * (now - self.sent_at), self.patience * 3 / 4, self.heartbeat)
        self.repeated = False
        more = self.allowance if self.allowance < self.threshold else FIRST_ALLOWANCE
        self.allowance = min(self.allowance + more, ALLOWANCE_LIMIT)

    def repeats(self) -> None:
        """Note that a unicast is sent again: less may be in flight, and the next repeat comes later."""
        self.patience = min(2 * self.patience, PATIENCE_LIMIT * self.heartbeat)
        self.repeated = True
        self.threshold = max(FIRST_ALLOWANCE, self.allowance // 2)
        self.allowance = FIRST_ALLOWANCE

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
