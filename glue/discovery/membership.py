"""Membership: the lives of peers that are admitted, current or over.

An endpoint id has one current life (incarnation) at a time: the newest life not known before. An earlier life stays
dead, however late its datagrams arrive. The exception is a life without a goodbye: if a former life still announces
after the end of the next life, the former life is taken back.

A datagram in the name of a peer may be forged, or delayed (a kernel keeps datagrams for seconds while it looks for an
address). Therefore ending or moving a life needs a proof: a token that was sent to an address and comes back. A new
life returns a token before it replaces the current life. A peer returns a token before it is followed to another
address. A goodbye carries a token. A new peer is known without a token. Until the peer has returned a token, it gets no
data that could hold up other receivers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random

from glue.contract import Address, Inbound, NameClash, PeerAdded, PeerRemoved, Upward
from glue.contract.hashing import blake2s
from glue.discovery.follower import Budget, InterestFollower
from glue.discovery.peers import ALIASES, MOVING, KnownPeer, PastLives
from glue.discovery.wire import ANNOUNCE, CALL, MAX_INTEGER, TOKEN_BITS, Announcement, Envelope

PEER_LIMIT = 1024
"""Peers known at once. With few interests a record takes some 3 kB: 3 MB."""

HOST_LIMIT = 256  # peers on one host: more than ever run there, and a quarter of the table for a forging host

CLASHES = 64  # other lives under this endpoint's id that are told of

EVICTION_SILENCE = 3.0
"""Seconds of silence after which a peer that has not proved its address makes room in a full table. So an
attacker with forged announcements, each in another name and with the longest lease, must send 1,024 / 3 = 341 a second
for ever to keep the table full. A real peer that was silent that long is back with its next announcement."""
EVICTION_SPACING = 0.01  # seconds between evictions, each of which looks at the whole table (60 us): 0.6 % of a core

QUARANTINE = 10.0
"""Seconds from the end of a life, replaced by another, until the life may be taken back: longer than any datagram is
under way. So only a life that still announces comes back (two programs under one name, of which one has left)."""


class Membership:
    """The table of peers with the rules for entering and leaving; `news` collects the changes.

    `remote` holds the peers out of reach of multicast, `direct` those with a single address. `changes` counts up with
    each change of an address. `on_addresses` is called with a peer that has other addresses than before.
    """

    def __init__(self, own_id: str, statistics: Counter[str], random: Random) -> None:
        self._own_id = own_id
        self.table: dict[str, KnownPeer] = {}
        self.remote: dict[str, KnownPeer] = {}
        self.direct: dict[str, KnownPeer] = {}
        self.changes = 0
        self.on_addresses: Callable[[KnownPeer], None] = lambda peer: None
        self._statistics = statistics
        self._random = random
        self._clashes: set[int] = set()
        self._hosts: Counter[str] = Counter()  # peers by the host that they were first heard from
        self._evicted_at = -math.inf
        self._past = PastLives()
        self._budget = Budget(statistics)
        self._secret = self._random.getrandbits(128).to_bytes(16)
        self.beacon = self.new_token()  # the token in what goes to all

    def current(self, item: Inbound) -> KnownPeer | None:
        """Return the peer that sent an item in its current life; None for any other sender."""
        peer = self.table.get(item.peer)
        return peer if peer is not None and peer.incarnation == item.incarnation else None

    def clash(self, item: Inbound, own: int, news: list[Upward]) -> None:
        """Count a datagram under this endpoint's own id; report one of a life other than `own` as a name clash."""
        if item.incarnation == own:
            self._statistics["own datagram"] += len(item.bodies)
            return
        self._statistics["name clash"] += len(item.bodies)
        announcement = Announcement.parse(item.bodies[0]) if item.bodies else None
        if announcement is None or item.incarnation in self._clashes or len(self._clashes) >= CLASHES:
            return
        assert item.address is not None
        self._clashes.add(item.incarnation)
        news.append(NameClash(announcement.name, item.incarnation, item.address))

    def known(self, now: float, item: Inbound, echo: int) -> KnownPeer | None:
        """Return the peer of a datagram from a current life at a known or just proven address; else refuse."""
        peer = self.current(item)
        if peer is not None:
            if peer.claimed is not None:
                self.settle(now, peer, item, echo)
            if peer.speaks_from(item.address):
                return peer
        self.refuse(item)
        return None

    def refuse(self, item: Inbound) -> None:
        """Count what comes from no current life."""
        if self._past.returns_at(item.peer, item.incarnation) is not None:
            cause = "past life"
        elif (peer := self.table.get(item.peer)) is not None:
            cause = "other address" if peer.incarnation == item.incarnation else "unannounced life"
        else:
            cause = "unknown peer"
        self._statistics[cause] += len(item.bodies)

    def doubts(self, now: float, item: Inbound, echo: int) -> int:
        """Return the token that a life must return before it replaces the current life or moves to an address.

        The result is 0 if no proof is needed, or if `echo` is the proof.
        """
        current = self.table.get(item.peer)
        if current is None:
            return 0  # a newcomer counts for nothing before it has proved itself
        if item.incarnation != current.incarnation and self._past.returns_at(item.peer, item.incarnation) is not None:
            return 0  # it is known, and refused
        token = self.question(item.peer, item.incarnation, item.address)
        if echo == token:
            return 0
        if item.incarnation == current.incarnation:
            if current.move_at == math.inf and item.address != current.claimed:
                current.claimed, current.claimed_at = item.address, now
            self._statistics["doubtful address"] += 1
        else:
            self._statistics["doubtful life"] += 1
        return token

    def question(self, peer: str, incarnation: int, address: Address | None) -> int:
        """Return the token of a life at an address: a keyed hash, so that nothing has to be stored."""
        text = f"{peer} {incarnation} {address}".encode()
        return int.from_bytes(blake2s(text, digest_size=4, key=self._secret).digest()) % ((1 << TOKEN_BITS) - 1) + 1

    def settle(self, now: float, peer: KnownPeer, item: Inbound, echo: int) -> None:
        """Handle a token that a current life returned: it may prove the claimed address, as a move or as an alias."""
        claimed = peer.claimed
        if claimed is None or echo != self.question(peer.id, peer.incarnation, claimed):
            return
        if item.address == claimed:
            peer.move_at = min(peer.move_at, peer.claimed_at + MOVING)
        elif peer.speaks_from(item.address):  # one machine of several addresses
            peer.aliases = (claimed, *peer.aliases)[:ALIASES]
            peer.claimed, peer.move_at = None, math.inf
            self.on_addresses(peer)

    def move(self, peer: KnownPeer) -> None:
        """Move a peer to its proven address, unless the old address has sent something since the claim."""
        if peer.claimed is not None and peer.received_at <= peer.claimed_at:
            peer.move(peer.claimed, self.question(peer.id, peer.incarnation, peer.claimed))
            peer.is_verified = True
            peer.received_at = peer.claimed_at
            self.on_addresses(peer)
        peer.claimed, peer.move_at = None, math.inf

    def admit(self, now: float, item: Inbound, name: str, news: list[Upward]) -> KnownPeer | None:
        """Take in a life that announces itself and is not current; None if it is refused, the cause being counted."""
        address = item.address
        assert address is not None
        predecessor = self.table.get(item.peer)
        returns_at = self._past.returns_at(item.peer, item.incarnation)
        if returns_at is not None and (predecessor is not None or now < returns_at):
            self._statistics["clash" if now >= returns_at else "past life"] += 1
            return None
        if predecessor is not None:
            self._remove(predecessor, "restarted", now + QUARANTINE, news)
        elif self._hosts[address[0]] >= HOST_LIMIT:
            self._statistics["too many peers on one host"] += 1
            return None
        elif len(self.table) >= PEER_LIMIT and not self._make_room(now, news):
            self._statistics["peer table full"] += 1
            return None
        self._past.forget(item.peer, item.incarnation)
        follower = InterestFollower(self._budget)
        token = self.question(item.peer, item.incarnation, address)
        peer = KnownPeer(item.peer, item.incarnation, name, address, token, follower, now)
        self.table[peer.id] = self.direct[peer.id] = peer
        self.changes += 1
        self._hosts[peer.host] += 1
        news.append(PeerAdded(peer.id, peer.incarnation, name, address, restarted=predecessor is not None))
        return peer

    def _make_room(self, now: float, news: list[Upward]) -> bool:
        """Evict the longest silent unverified peer, which may be forged; returns whether a peer was evicted."""
        if now < self._evicted_at + EVICTION_SPACING:
            return False
        self._evicted_at = now
        doubtful = [peer for peer in self.table.values() if not peer.is_verified]
        oldest = min(doubtful, key=lambda peer: peer.received_at, default=None)
        if oldest is None or now < oldest.received_at + EVICTION_SILENCE:
            return False
        self._statistics["evicted"] += 1
        self._remove(oldest, "evicted", now, news)
        return True

    def expire(self, now: float, peer: KnownPeer, news: list[Upward]) -> None:
        """Remove a peer after the end of its lease, or after a goodbye; the same life may return at once."""
        self._remove(peer, "goodbye" if peer.is_leaving else "expired", now, news)

    def dismiss(self, now: float, item: Inbound, echo: int, news: list[Upward]) -> KnownPeer | None:
        """Handle a goodbye; returns the peer if the goodbye is doubtful and the peer has to be asked.

        A goodbye with this endpoint's token is final: the life never returns. An unproven peer is removed at once
        and may return.
        """
        peer = self.known(now, item, echo)
        if peer is None:
            return None
        if echo == peer.token or not peer.is_proven:
            self._remove(peer, "goodbye", math.inf if echo == peer.token else now, news)
            return None
        self._statistics["doubtful goodbye"] += 1
        peer.is_leaving = True
        return peer

    def is_met(self, id: str) -> bool:
        """Whether a peer is known and needs no further calls: its address is verified, or multicast reaches it."""
        peer = self.table.get(id)
        return peer is not None and (peer.is_verified or id not in self.remote)

    def is_stranger(self, envelope: Envelope) -> bool:
        """Whether the sender may not know this endpoint: a call without both tokens, or a digest that differs."""
        if envelope.kind == ANNOUNCE:
            return envelope.known is not None and envelope.known != self.digest
        return envelope.kind == CALL and not (envelope.token and envelope.echo)

    @property
    def digest(self) -> int:
        """A number that is the same for endpoints that know each other and the same peers."""
        digest = int(self._own_id, 16)
        for id in self.table:
            digest ^= int(id, 16)
        return digest % MAX_INTEGER

    def new_token(self) -> int:
        """Return a random token, not 0; a peer proves its address by returning the token."""
        return self._random.randrange(1, 1 << TOKEN_BITS)

    def _remove(self, peer: KnownPeer, reason: str, returns_at: float, news: list[Upward]) -> None:
        del self.table[peer.id]
        self.remote.pop(peer.id, None)
        self.direct.pop(peer.id, None)
        self.changes += 1
        self._hosts[peer.host] -= 1
        if not self._hosts[peer.host]:
            del self._hosts[peer.host]
        peer.follower.release()
        self._past.bury(peer.id, peer.incarnation, returns_at)
        news.append(PeerRemoved(peer.id, peer.incarnation, peer.name, reason))
