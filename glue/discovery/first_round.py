"""The first round: an endpoint that starts learns who is there, and what they want to hear, before it goes on.

Whoever hears its first announcement answers at once. The round is over when all who are known to be there have
answered, and none of their interests are missing. An answer tells a digest of whom its sender knows: once that of
somebody is this endpoint's own, nobody is missing. An endpoint that is still in its own first round tells no digest,
as it cannot know. So where somebody has been there for some time a round takes a round trip; where nobody is there, or
whoever is has just started, too, it takes `LONGEST`.

An announcement or an answer may get lost, so a round that goes on asks again twice.
"""

from __future__ import annotations

import math

from glue.contract import FirstRoundOver
from glue.discovery.membership import Membership

LONGEST = 0.04
"""Seconds that a round takes at most. Answers of up to 200 peers, each spread over 0.2 ms a peer, come within it."""

LATE = 0.05
"""Seconds from its beginning in which answers that come late are still waited for by what would go to nobody. That is
longer than a round: of two programs that start at once, one subscribes when the other publishes."""

ASK_AGAIN = 0.015
"""Seconds from one announcement of a round to the next: some three times the round trip of a good radio link. At 5 %
loss an announcement and its answer get through with 90 %; all three fail for one in a thousand."""


ASKED_AGAIN = 8  # peers known at most; where there are more, all would answer again for one answer that was lost


class FirstRound:
    """When to ask again, and when it is over; `due` is its timer."""

    __slots__ = ("_begun_at", "due", "is_over", "members")

    def __init__(self, members: Membership) -> None:
        self.is_over = False
        self.due = math.inf
        self._begun_at = -math.inf
        self.members = members

    @property
    def known(self) -> int | None:
        """The digest that answers tell of whom this endpoint knows; None during the round."""
        return self.members.digest if self.is_over else None

    def begin(self, now: float) -> None:
        """The first announcement leaves now."""
        self._begun_at = now
        self.due = now + ASK_AGAIN

    def end(self) -> None:
        """It is over."""
        self.is_over, self.due = True, math.inf

    def is_complete(self, now: float) -> bool:
        """Whether it ends now; then it is over."""
        if now >= self._begun_at + LONGEST or self._are_all_known():
            self.end()
        return self.is_over

    def is_asking(self, now: float) -> bool:
        """Whether to ask again; taken as done."""
        if now < self.due:
            return False
        self.due = min(self.due + ASK_AGAIN, self._begun_at + LONGEST)
        return len(self.members.table) <= ASKED_AGAIN

    def news(self, paused: float) -> FirstRoundOver:
        """What those above are told at the end; their clock is `paused` seconds ahead of the layer's."""
        return FirstRoundOver(self._begun_at + LATE + paused)

    def _are_all_known(self) -> bool:
        """Whether somebody knows the same peers as this endpoint, which knows all their interests."""
        own, peers = self.members.digest, self.members.table.values()
        if not any(peer.known == own for peer in peers):
            return False
        return all(peer.is_told and not peer.follower.is_behind for peer in peers)
