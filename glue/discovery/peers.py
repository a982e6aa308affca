"""Records of discovery: one for each living peer, and the past lives, which must not return.

A record holds fields for the layer, and computes only the time of its next timer. All times are on the layer's clock,
which stands still while this endpoint does not listen.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from glue.contract import Address
from glue.contract.frozen import Frozen
from glue.discovery.follower import InterestFollower

if TYPE_CHECKING:
    from glue.discovery.paths import Paths

MIN_INTERVAL = 0.01
MAX_INTERVAL = 3600.0
"""A peer's announced interval (seconds) is taken to be within these, whatever it says."""

LONGEST_LEASE = 60.0
"""Seconds that a lease lasts at most, unless this endpoint's own is longer. A peer with longer intervals is probed in
between: each peer of it sends it one probe every 42 s, and keeps it as long as it answers."""

UNPROVEN_LEASE = 10.0  # seconds that the lease of an unproven peer lasts at most

LONGEST_REST = 7 * 86_400  # seconds: a peer that is awake for moments only is taken to be asleep no longer than a week
RESTS = 2  # so many times its rest is added to the lease of such a peer: it may miss one of its moments

ALIASES = 3  # further source addresses of a peer, on a host with several: with the one in use, four paths

LATE = 0.2  # seconds for which an older announcement may follow a newer one without a request for proof
MOVING = 0.25  # seconds in which a datagram from the old address cancels a move
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


class PeerInfo(Frozen):
    """A snapshot of a known peer.

    `last_received` is in monotonic seconds, moved forward by times in which this endpoint could not listen. `interests`
    is the number of announced patterns.
    """

    name: str
    incarnation: int
    address: Address
    last_received: float
    interests: int


class KnownPeer:
    """The current life of a peer.

    answer_at, want_at, probe_at, ask_at: the earliest time to send this kind (again); `inf`: no answer is due.
    token: this endpoint's token for the peer; `echo`: the peer's token; `returned`: the echo last sent.
    is_verified: the peer has returned `token` from its address.
    is_proven: the peer has returned `token` or the beacon. Then its interests are reported above: `is_told`.
    is_doubted: the peer is being asked about an implausible announcement.
    is_leaving: the peer is being asked about a goodbye.
    overheard: the time of the last announcement by multicast; `host`: the host of the first datagram.
    address, aliases: the source addresses of the peer's datagrams; data goes to `address`.
    paths: what is known of each of them; None if there is only one.
    claimed, claimed_at: a claimed new address and the time of the claim.
    move_at: the time of the move to a proven `claimed`, unless the old address sends something before.
    rest: the seconds that the peer may stay asleep, 0 for a peer that is always awake; `asleep`: how often it fell
        asleep or woke up; an odd number while it is asleep.
    awake_at: the position in this endpoint's log when the peer last announced that it is awake.
    told: the position in this endpoint's log up to which the peer was informed by unicast.
    met_at: when the peer was first heard of.
    known: the latest digest of known peers from the peer; `is_starting`: the digest came in the peer's first round.
    """

    __slots__ = (
        "address", "aliases", "answer_at", "ask_at", "asleep", "awake_at", "body", "claimed", "claimed_at", "credit",
        "echo", "follower", "host", "id", "incarnation", "interval", "is_doubted", "is_leaving", "is_proven",
        "is_starting", "is_told", "is_verified", "known", "learned_at", "lease", "met_at", "move_at", "name",
        "overheard", "paths", "patience", "probe_at", "received_at", "rest", "returned", "token", "told", "want_at",
        "want_delay",
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
        self.received_at = self.met_at = now
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
        self.paths: Paths | None = None
        self.claimed: Address | None = None
        self.claimed_at = -math.inf
        self.move_at = math.inf
        self.learned_at = self.ask_at = -math.inf
        self.told = self.awake_at = 0, 0
        self.rest = self.asleep = 0
        self.known: int | None = None
        self.is_starting = False

    def follow_interval(self, interval: float, lease_intervals: float, longest: float) -> None:
        """Set the lease, from the announced interval, and the patience: the silence before a probe.

        Patience is most of the lease, and never ends before an announcement is overdue, unless the lease is cut.
        """
        self.interval = interval
        interval = min(max(interval, MIN_INTERVAL), MAX_INTERVAL)
        self.lease = min(lease_intervals * interval, longest if self.is_proven else UNPROVEN_LEASE)
        overdue = 1.25 * interval if 1.25 * interval < 0.9 * self.lease else 0.0
        self.patience = max(PATIENCE * self.lease, overdue)
        if self.rest and self.is_proven:
            self.lease += RESTS * min(self.rest, LONGEST_REST)
            self.patience = self.lease  # it is not probed, as it would not hear that

    @property
    def is_asleep(self) -> bool:
        """Whether it has announced that it is asleep."""
        return self.asleep % 2 == 1

    def move(self, address: Address, token: int) -> None:
        """Set a new address with a new token; drop the aliases and the credit."""
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
        """Return a snapshot for a clock that is `paused` seconds ahead of the layer's."""
        return PeerInfo(
            self.name, self.incarnation, self.address, self.received_at + paused, len(self.follower.patterns)
        )

    @property
    def ends_at(self) -> float:
        """The time when the lease is over; never before a pending move to a proven address."""
        lease_ends = self.received_at + self.lease
        return lease_ends if self.move_at == math.inf else max(lease_ends, self.move_at)

    @property
    def wake_at(self) -> float:
        """When this peer next needs attention."""
        if self.asleep % 2:
            return min(self.answer_at, self.ends_at, self.move_at)
        return min(
            self.answer_at,
            self.want_at if self.follower.is_behind else math.inf,
            max(self.received_at + self.patience, self.probe_at),
            self.ends_at,
            self.move_at,
        )


class PastLives:
    """Ended lives, each with the earliest time of its return; the oldest are forgotten first."""

    __slots__ = ("_peers",)

    def __init__(self) -> None:
        self._peers: OrderedDict[str, dict[int, float]] = OrderedDict()

    def bury(self, peer: str, incarnation: int, returns_at: float) -> None:
        """Record the end of a life. From `returns_at` on (`inf`: never) it may return, if no other life is current."""
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
        """Remove a life that has returned."""
        lives = self._peers.get(peer)
        if lives is not None:
            lives.pop(incarnation, None)
            if not lives:
                del self._peers[peer]
