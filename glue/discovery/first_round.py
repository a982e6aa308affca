"""The first round: a starting endpoint learns its peers and their interests before the program publishes.

Peers answer the first announcement at once. An answer carries a digest of the peers that its sender knows. The round
ends when such a digest equals this endpoint's own and no interests are missing: then no peer is missing. An endpoint in
its own first round answers without a digest, because it may not know all peers yet.

Announcements and answers may get lost, and a peer may have answered before it knew of another endpoint that starts
together with this one. Therefore a round that goes on asks again twice, with a digest. When all known peers have just
started, each takes the others' digests from there, once it has asked twice itself and time for answers has passed.

The time between two announcements is `ASK_AGAIN`, and less where answers come fast: two round trips, as measured with
all peers known so far. So a round takes one round trip where a peer has been running for some time, two such times
where all peers have just started, and `LONGEST` where there is none.
"""

from __future__ import annotations

import math

from glue.contract import FirstRoundOver, Upward
from glue.discovery.membership import Membership
from glue.discovery.wire import ANNOUNCE, Envelope

LONGEST = 0.04
"""Seconds that a round takes at most. Answers of up to 200 peers, each spread over 0.2 ms a peer, come within it."""

LATE = 0.05
"""Seconds from the start of a round in which a message without subscribers waits for late answers. This is longer than
a round: of two programs that start together, one may subscribe only when the other already publishes."""

ASK_AGAIN = 0.01
"""Seconds from one announcement of a round to the next: some two times the round trip of a good radio link. At 5 % loss
an announcement and its answer get through with 90 %; all three of a round fail for one in a thousand. Two endpoints
that start together both miss the same running peer, twice each, for one in ten thousand, if it answers as fast."""

SOONEST = 0.004
"""Seconds from one announcement to the next where answers come at once. Two of them are longer than the 0.005 s that a
thread of a peer's program may keep the interpreter from answering. A running peer that answers more slowly than all
that have just started is missed by these if it takes longer than two of them."""

ASKED_AGAIN = 8  # peers known at most; where there are more, all would answer again for one answer that was lost


class FirstRound:
    """The timer of the first round: `due` is when to ask again or to end it."""

    __slots__ = ("_asked", "_asked_at", "_begun_at", "_measured", "_slowest", "due", "is_over", "members")

    def __init__(self, members: Membership) -> None:
        self.is_over = False
        self.due = math.inf
        self._begun_at = self._asked_at = -math.inf
        self._asked = 0  # announcements so far
        self._measured = 0  # round trips that were measured, one a peer
        self._slowest = 0.0  # the longest of them
        self.members = members

    @property
    def known(self) -> int | None:
        """The digest of known peers that answers carry; None during the round."""
        return self.members.digest if self.is_over else None

    def is_asked(self, envelope: Envelope) -> bool:
        """Whether an endpoint in its first round asks again, and the digest here tells that no peer is missing."""
        return self.is_over and envelope.kind == ANNOUNCE and envelope.known is not None

    def begin(self, now: float) -> None:
        """The first announcement leaves now."""
        self._begun_at = self._asked_at = now
        self._asked = 1
        self._set_due()

    def end(self) -> None:
        """End the round."""
        self.is_over, self.due = True, math.inf

    def proved(self, now: float, since: float | None) -> None:
        """A peer has answered what was sent to it at `since`, or one of the announcements (None)."""
        if not self.is_over:
            self._measured += 1
            self._slowest = max(self._slowest, now - (self._begun_at if since is None else since))

    def _set_due(self) -> None:
        if self._asked > 2:
            self.due = self._begun_at + LONGEST
        elif self.members.table and self._measured >= len(self.members.table):
            self.due = self._asked_at + min(max(SOONEST, 2 * self._slowest), ASK_AGAIN)
        else:
            self.due = self._asked_at + ASK_AGAIN

    def is_complete(self, now: float) -> bool:
        """End the round if it is complete or too old; returns whether it is over."""
        if now >= self._begun_at + LONGEST or self._are_all_known(now):
            self.end()
        return self.is_over

    def is_asking(self, now: float) -> bool:
        """Whether to ask again now. The next time to ask is set."""
        if now < self.due:
            return False
        self._asked, self._asked_at = self._asked + 1, now
        self._set_due()
        return len(self.members.table) <= ASKED_AGAIN

    def goes_on(self, now: float, paused: float, up: list[Upward]) -> bool:
        """End the round and tell it, if it is complete; else return whether to ask again, as answers may be lost."""
        self._set_due()
        if self.is_complete(now):
            up.append(self.news(paused))
            return False
        return self.is_asking(now)

    def news(self, paused: float) -> FirstRoundOver:
        """The news for the layers above; their clock is `paused` seconds ahead of this layer's."""
        return FirstRoundOver(self._begun_at + LATE + paused)

    def _are_all_known(self, now: float) -> bool:
        """Whether peers know the same peers as this endpoint, and the interests of all of them are known here."""
        own, peers = self.members.digest, self.members.table.values()
        knowing = [peer for peer in peers if peer.known is not None]
        if not any(peer.known == own and not peer.is_starting for peer in knowing):
            is_agreed = knowing and all(peer.known == own for peer in knowing)
            has_asked_twice = self._asked > 2 or (self._asked == 2 and now >= self.due)
            if not (is_agreed and has_asked_twice):
                return False
        return all(peer.is_told and not peer.follower.is_behind for peer in peers)
