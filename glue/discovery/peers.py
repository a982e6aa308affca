"""What discovery knows of the others: one record a living peer, and the past lives, which must not return.

A record is a plain bag of fields that the layer works on; what it decides by itself is only when it next needs
attention. All its times are on the layer's clock, which stands still while this endpoint does not listen.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from glue.contract import Address
from glue.discovery.follower import InterestFollower

MIN_INTERVAL = 0.01
MAX_INTERVAL = 3600.0
"""A peer's announced interval (seconds) is taken to be within these, whatever it says."""

LONGEST_LEASE = 60.0
"""Seconds that a lease lasts at most, unless this endpoint's own is longer. A peer with longer intervals is probed in
between: each peer of it sends it one probe every 42 s, and keeps it as long as it answers."""

UNPROVEN_LEASE = 10.0  # seconds that a lease lasts at most before the peer has proved that it hears this endpoint

ALIASES = 4  # addresses beside the announced one from which a peer's datagrams are taken: those of one machine

LATE = 0.2  # seconds for which an older announcement may come behind a newer one without being asked about
MOVING = 0.25  # seconds in which a peer that is said to have moved may say otherwise from where it was
ASK_SPACING = 0.05  # seconds between questions to one peer about what does not fit

PATIENCE = 0.7
"""The part of a lease after which a silent peer is probed: with 5 intervals, once 3 announcements in a row are lost.
At 20 % loss that befalls 0.8 x 0.2^3 = 0.6 % of the peers each second; of 199 peers 1.3, who cost two probes and
answers of 330 bytes each. After 2 losses it would be five times as many: more than all else that discovery sends."""

PROBES = 16
"""Probes of a silent peer before it is given up.

A peer with the default lease is lost falsely if the announcements in it get lost (4, as at rest they are somewhat more
than an interval apart) and all its probes fail. At 20 % loss a probe and its answer get through with 0.8 x 0.8 = 64 %,
so that happens with 0.2^4 x 0.36^16 = 1e-10 a window; 10 endpoints have 10 x 9 x 3,600 windows an hour, 200 have 1.4e8:
false losses 4e-5 and 2e-2 an hour. (The announcements alone would give 500 an hour among 10.) With little loss nobody
is probed but the dead.
"""

CREDIT_LIMIT = 2 * PROBES
"""Datagrams that may be sent to an address from which none of our tokens came back: as many as came from it, up
to this many at once. So nobody can make us send more to a victim than they sent themselves."""

WANT_DELAY = 0.03  # seconds until missing operations are asked for again; doubles in vain up to
MAX_WANT_DELAY = 0.25

PAST_LIVES = 8
PAST_PEERS = 4096
"""Lives remembered a peer, and peers of whom they are: 8 x 4,096 entries of some 150 bytes are 5 MB."""


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """A known peer, for whoever asks.

    `last_heard` is in monotonic seconds; times in which this endpoint could not listen move it forward, too.
    `interests` counts the patterns that the peer announced.
    """

    name: str
    incarnation: int
    address: Address
    last_heard: float
    interests: int


class KnownPeer:
    """The current life of a peer.

    Each of `answer_at`, `want_at`, `probe_at` and `ask_at` is when that may be sent (again), `inf` for an answer that
    is not owed. `token` is ours for it, `echo` its for us, `returned` the echo that it was last sent. It `is_verified`
    once it returned our token, and `is_proven` once it returned any: only then its interests are told to the layers
    above, and `is_told` is set. It `is_doubted` while it is asked whether an announcement that does not fit is its own,
    and `is_leaving` while it is asked whether a goodbye is.
    `overheard` is when an announcement of it last came by multicast, `host` the one it was first heard from.
    Its datagrams come from its `address` or from its `aliases`. Since `claimed_at` somebody says that it has moved to
    `claimed`; proved, that counts from `move_at` on, unless it is heard from its address until then.
    It was `told` by unicast what is before this position in the own log. Its last answer told the digest of whom it
    knows, `known`.
    """

    __slots__ = (
        "address", "aliases", "answer_at", "ask_at", "body", "claimed", "claimed_at", "credit", "echo",
        "follower", "heard", "host", "id", "incarnation", "interval", "is_doubted", "is_leaving", "is_proven",
        "is_told", "is_verified", "known", "learned_at", "lease", "move_at", "name", "overheard", "patience",
        "probe_at", "returned", "token", "told", "want_at", "want_delay",
    )  # fmt: skip

    def __init__(
        self, id: str, incarnation: int, name: str, address: Address, token: int, follower: InterestFollower, now: float
    ) -> None:
        self.id = id
        self.incarnation = incarnation
        self.name = name
        self.address = address
        self.host: str = address[0]
        self.token = token
        self.echo = 0
        self.follower = follower
        self.heard = now
        self.overheard = -math.inf
        self.lease = self.patience = math.inf
        self.answer_at = math.inf
        self.want_at = now
        self.want_delay = WANT_DELAY
        self.probe_at = -math.inf
        self.body = b""
        self.credit = 0
        self.is_verified = self.is_proven = self.is_told = self.is_doubted = self.is_leaving = False
        self.returned = 0
        self.interval = math.nan
        self.aliases: tuple[Address, ...] = ()
        self.claimed: Address | None = None
        self.claimed_at = -math.inf
        self.move_at = math.inf
        self.learned_at = self.ask_at = -math.inf
        self.told = 0, 0
        self.known: int | None = None

    def follow_interval(self, interval: float, lease_intervals: float, longest: float) -> None:
        """Set the lease after the interval it announced, and the patience, after which it is probed.

        Patience ends after most of the lease, but never before an announcement is overdue, unless the lease is cut.
        """
        self.interval = interval
        interval = min(max(interval, MIN_INTERVAL), MAX_INTERVAL)
        self.lease = min(lease_intervals * interval, longest if self.is_proven else UNPROVEN_LEASE)
        overdue = 1.25 * interval if 1.25 * interval < 0.9 * self.lease else 0.0
        self.patience = max(PATIENCE * self.lease, overdue)

    def move(self, address: Address, token: int) -> None:
        """It has another address now."""
        self.address = address
        self.aliases = ()
        self.claimed, self.move_at = None, math.inf
        self.token = token
        self.credit = 0
        self.is_verified = False

    def speaks_from(self, address: Address | None) -> bool:
        """Whether its datagrams come from there."""
        return address == self.address or address in self.aliases

    @property
    def affordable(self) -> int:
        """How many datagrams may be sent to its address now."""
        return 1 << 32 if self.is_verified else self.credit

    def pay(self) -> bool:
        """Whether a datagram may be sent to its address; counted as sent."""
        if self.affordable < 1:
            return False
        self.credit -= not self.is_verified
        return True

    def put_off_want(self, now: float) -> None:
        """Nothing is to be asked for a while; each time in a row for longer."""
        self.want_at = now + self.want_delay
        self.want_delay = min(2 * self.want_delay, MAX_WANT_DELAY)

    def info(self, paused: float) -> PeerInfo:
        """As told to others, whose clock is `paused` seconds ahead of the layer's."""
        return PeerInfo(self.name, self.incarnation, self.address, self.heard + paused, len(self.follower.patterns))

    @property
    def ends_at(self) -> float:
        """When its lease is over; not before it is followed to an address that it has proved."""
        lease_ends = self.heard + self.lease
        return lease_ends if self.move_at == math.inf else max(lease_ends, self.move_at)

    @property
    def wake_at(self) -> float:
        """When this peer next needs attention."""
        return min(
            self.answer_at,
            self.want_at if self.follower.is_behind else math.inf,
            max(self.heard + self.patience, self.probe_at),
            self.ends_at,
            self.move_at,
        )


class PastLives:
    """Lives that ended, each with the time from which it may return; the longest ended are forgotten first."""

    __slots__ = ("_peers",)

    def __init__(self) -> None:
        self._peers: OrderedDict[str, dict[int, float]] = OrderedDict()

    def bury(self, peer: str, incarnation: int, returns_at: float) -> None:
        """This life ended. From `returns_at` on (`inf`: never) it may return, if no other life is current."""
        lives = self._peers.setdefault(peer, {})
        self._peers.move_to_end(peer)
        lives.pop(incarnation, None)
        lives[incarnation] = returns_at
        if len(lives) > PAST_LIVES:
            del lives[next(iter(lives))]
        if len(self._peers) > PAST_PEERS:
            self._peers.popitem(last=False)

    def returns_at(self, peer: str, incarnation: int) -> float | None:
        """When this life may return; None if it did not end, as far as is known."""
        lives = self._peers.get(peer)
        return None if lives is None else lives.get(incarnation)

    def forget(self, peer: str, incarnation: int) -> None:
        """This life has returned."""
        lives = self._peers.get(peer)
        if lives is not None:
            lives.pop(incarnation, None)
            if not lives:
                del self._peers[peer]
