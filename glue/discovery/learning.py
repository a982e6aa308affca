"""Announcements of peers: accepted, or verified with the peer first, and then reported to the layers above.

An announcement that continues the known log is accepted, although multicast proves nothing. An announcement that does
not fit may be forged or late, or an earlier announcement was forged. Then the peer is asked under a new token. The
answer returns this token, so the peer made it after the request and at the peer's address. Such an answer is always
accepted. Therefore a forged announcement is valid until the peer's next announcement at most, and a leap ahead is
never accepted without an answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from glue.contract import PeerInterest, PeerSleeps, Upward
from glue.discovery.control import ControlSender
from glue.discovery.follower import BEHIND, FITS
from glue.discovery.membership import Membership
from glue.discovery.peers import LATE, LONGEST_LEASE, WANT_DELAY, KnownPeer
from glue.discovery.wire import Announcement, Operations

KEPT_BODY = 2048  # bytes of a peer's last announcement, kept to recognize it when it is repeated


class Learning:
    """Follows what peers say of themselves; their interests go to `up`."""

    def __init__(
        self,
        members: Membership,
        sender: ControlSender,
        statistics: Counter[str],
        announce_interval: float,
        lease_intervals: float,
    ) -> None:
        self.up: list[Upward] = []
        self._members = members
        self._sender = sender
        self._statistics = statistics
        self._lease_intervals = lease_intervals
        self._longest_lease = max(LONGEST_LEASE, lease_intervals * announce_interval)  # that is accepted of a peer

    def learn(self, now: float, peer: KnownPeer, news: Announcement, body: bytes, echo: int) -> None:
        """Take what a peer announces with this `echo`; what does not fit, once it says so again when it is asked."""
        follower = peer.follower
        before, was_behind = follower.want, follower.is_behind
        fit = follower.judge(news)
        is_first = math.isnan(peer.interval)
        if peer.is_doubted and echo == peer.token:
            peer.is_doubted = False
        elif not is_first and (
            fit != FITS or news.interval != peer.interval or news.name != peer.name or not _goes_on(peer, news)
        ):
            peer.body = b""
            self._doubt(now, peer, BEHIND if fit == FITS and news.asleep < peer.asleep else fit)
            return
        peer.body = body if len(body) <= KEPT_BODY else b""
        peer.name = news.name
        if news.asleep != peer.asleep:
            peer.learned_at = now
        peer.rest, peer.asleep = news.rest, news.asleep
        peer.follow_interval(news.interval, self._lease_intervals, self._longest_lease)
        self.report(peer, *(follower.announced(news) if fit == FITS else follower.restart(news)))
        if not was_behind:
            peer.want_at, peer.want_delay = now, WANT_DELAY
        if follower.want != before:
            peer.learned_at = now

    def follow(self, now: float, peer: KnownPeer, operations: Operations) -> None:
        """Take a part of a peer's interest log."""
        before = peer.follower.want
        self.report(peer, *peer.follower.received(operations))
        if peer.follower.want != before:
            peer.want_delay = WANT_DELAY
            peer.want_at = now if operations.last else now + WANT_DELAY

    def tell_sleep(self, peer: KnownPeer) -> bool:
        """Report whether a peer that is awake for moments only is asleep; return whether it may have missed interests.

        It reports again at each announcement, so that the peer is answered again when it announces again.
        """
        self.up.append(PeerSleeps(peer.id, peer.asleep))
        before, peer.awake_at = peer.awake_at, self._sender.position
        return not peer.is_asleep and before != peer.awake_at

    def _doubt(self, now: float, peer: KnownPeer, fit: str) -> None:
        """An announcement in a peer's name does not fit: ask the peer, unless it may merely be late."""
        if fit == BEHIND and now < peer.learned_at + LATE:
            return
        self._statistics["doubtful announcement"] += 1
        if not peer.is_doubted:  # only an answer to this question counts
            peer.is_doubted, peer.token = True, self._members.new_token()
        self._sender.ask_proof(now, peer)

    def receive(self, peer: KnownPeer) -> None:
        """Report the interests of a newly proven peer, and extend its lease to the announced interval."""
        if peer.is_proven and not peer.is_told:
            peer.is_told = True
            peer.follow_interval(peer.interval, self._lease_intervals, self._longest_lease)
            self.report(peer, list(peer.follower.patterns), ())

    def report(self, peer: KnownPeer, added: Sequence[str], removed: Sequence[str]) -> None:
        """Report a change of a peer's interests, once the peer's first interests were reported."""
        if peer.is_told and (added or removed):
            self.up.append(PeerInterest(peer.id, added, removed))


def _goes_on(peer: KnownPeer, news: Announcement) -> bool:
    """Whether a peer may have fallen asleep and woken up so often since it was last heard."""
    return news.rest == peer.rest and news.asleep >= peer.asleep
