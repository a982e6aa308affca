"""The first round: a starting endpoint learns its peers and their interests before the program publishes.

Peers answer the first announcement at once. An answer carries a digest of the peers that its sender knows. The round
ends when such a digest equals this endpoint's own and no interests are missing: then no peer is missing. An endpoint in
its own first round answers without a digest, because it may not know all peers yet.

Announcements and answers may get lost. Therefore a round that goes on asks again twice, with a digest. When two
endpoints start together, each takes the other's digest from there, but only after `AGREED`: by then both have asked
twice.

So a round takes one round trip where a peer has been running for some time, `AGREED` where all peers have just started,
and `LONGEST` where there is none.
"""

from __future__ import annotations

import math

from glue.contract import FirstRoundOver, Upward
from glue.discovery.membership import Membership

LONGEST = 0.04
"""Seconds that a round takes at most. Answers of up to 200 peers, each spread over 0.2 ms a peer, come within it."""

LATE = 0.05
"""Seconds from the start of a round in which a message without subscribers waits for late answers. This is longer than
a round: of two programs that start together, one may subscribe only when the other already publishes."""

ASK_AGAIN = 0.01
"""Seconds from one announcement of a round to the next: some two times the round trip of a good radio link. At 5 % loss
an announcement and its answer get through with 90 %; all three of a round fail for one in a thousand."""

AGREED = 2 * ASK_AGAIN
"""Seconds after which digests of peers that are starting, too, end the round. At 5 % loss both endpoints miss the same
running peer, twice each, for one in ten thousand."""

ASKED_AGAIN = 8  # peers known at most; where there are more, all would answer again for one answer that was lost


class FirstRound:
    """The timer of the first round: `due` is when to ask again or to end it."""

    __slots__ = ("_begun_at", "due", "is_over", "members")

    def __init__(self, members: Membership) -> None:
        self.is_over = False
        self.due = math.inf
        self._begun_at = -math.inf
        self.members = members

    @property
    def known(self) -> int | None:
        """The digest of known peers that answers carry; None during the round."""
        return self.members.digest if self.is_over else None

    def begin(self, now: float) -> None:
        """The first announcement leaves now."""
        self._begun_at = now
        self.due = now + ASK_AGAIN

    def end(self) -> None:
        """End the round."""
        self.is_over, self.due = True, math.inf

    def is_complete(self, now: float) -> bool:
        """End the round if it is complete or too old; returns whether it is over."""
        if now >= self._begun_at + LONGEST or self._are_all_known(now):
            self.end()
        return self.is_over

    def is_asking(self, now: float) -> bool:
        """Whether to ask again now. The next time to ask is set."""
        if now < self.due:
            return False
        again, end = self._begun_at + AGREED, self._begun_at + LONGEST
        self.due = again if self.due < again else end
        return len(self.members.table) <= ASKED_AGAIN

    def goes_on(self, now: float, paused: float, up: list[Upward]) -> bool:
        """End the round and tell it, if it is complete; else return whether to ask again, as answers may be lost."""
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
            if now < self._begun_at + AGREED or not is_agreed:
                return False
        return all(peer.is_told and not peer.follower.is_behind for peer in peers)
