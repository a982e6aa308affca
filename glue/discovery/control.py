"""The sending side of discovery: multicast announcements and goodbyes, and unicast control.

Unicast control means calls, answers, probes, wants, operations and introductions.

An address is verified when a token sent to it comes back. An unverified address gets at most as many datagrams as
came from it. Therefore a forged announcement cannot direct a flood at a third host. A silent peer without credit is
probed by multicast.

A peer is proven (it receives from this endpoint) when it returns its token or the `beacon`, the token in every
multicast. An answer to an announcement returns the beacon and so proves the peer. A peer that announces itself gets an
answer, and is proven when it returns the token of the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random

from glue.contract import Address, Inbound, Outbound, without_link
from glue.discovery.announcer import CALM_BODY, Announcer
from glue.discovery.first_round import FirstRound
from glue.discovery.peers import ASK_SPACING, CREDIT_LIMIT, PROBES, KnownPeer
from glue.discovery.rendezvous import Rendezvous
from glue.discovery.wire import (
    ANNOUNCE,
    ANSWER,
    CALL,
    GOODBYE,
    INTRODUCE,
    OPERATIONS,
    PROBE,
    WANT,
    Envelope,
    Introductions,
    Operations,
    frame,
)

PROMPT_ANSWERS = 8
ANSWER_SPACING = 0.0002
"""With more peers than PROMPT_ANSWERS each waits, before it answers a newcomer, a random time up to this many
seconds a peer. An answer of at most 700 bytes takes 56 us at 100 Mb/s, so the newcomer's link is loaded to 28 %
on average, however many answer; with 1,000 peers it takes 0.2 s until all have."""

PROBE_SPACING = 0.005  # seconds between any two probes, so that the end of many peers at once makes no storm
MULTICAST_PROBE_SPACING = 0.05  # seconds between any two multicast probes

FRAMES_PER_WANT = 16  # 22 kB a round trip: little enough for a socket buffer, and seldom hit by a loss
FRAMES_OF_NEWS = 8  # some 400 changes since the last data, or within the last 50 ms
FRAMES_PER_INTRODUCTION = 8  # some 30 addresses each; of more peers a random choice, and the rest when asked again
FRAMES_PER_CALL = 256  # of operations, for all peers; a peer without an answer asks again


class ControlSender:
    """Sends announcements and unicast control. Frames gather in `outbox` until `take`."""

    def __init__(
        self,
        announcer: Announcer,
        rendezvous: Rendezvous,
        first_round: FirstRound,
        statistics: Counter[str],
        random: Random,
    ) -> None:
        self.outbox: list[Outbound] = []
        self._members = first_round.members
        self._beacon = self._members.beacon
        self._rendezvous = rendezvous
        self._first_round = first_round
        self._announcer = announcer
        self._statistics = statistics
        self._random = random
        self._probed_at = -math.inf
        self._frames_left = FRAMES_PER_CALL

    @property
    def position(self) -> tuple[int, int]:
        """The position in the log of this endpoint's interests."""
        return self._announcer.log.position

    def take(self) -> list[Outbound]:
        """Return the datagrams gathered in this call, and reset the limit of frames."""
        taken, self.outbox = self.outbox, []
        self._frames_left = FRAMES_PER_CALL
        return taken

    def send(
        self, now: float, peer: KnownPeer, kind: str, body: bytes = b"", is_free: bool = False, known: int | None = None
    ) -> bool:
        """Send to a peer, asking for what is missing with it; False if its address has no credit for it."""
        if not is_free and not peer.pay():
            self._statistics["reply withheld"] += 1
            return False
        want = None
        if peer.follower.is_behind and now >= peer.want_at:
            want = peer.follower.want
            peer.put_off_want(now)
        called = peer.id if kind == PROBE else None
        peer.returned = peer.echo
        envelope = Envelope(kind, peer.token, peer.echo, want, called, known)
        self.outbox.append(frame((peer.id,), peer.address, envelope, body))
        return True

    def send_all(self, kind: str, body: bytes = b"", called: str | None = None, known: int | None = None) -> None:
        """Send to all by multicast."""
        self.outbox.append(frame((), None, Envelope(kind, self._beacon, called=called, known=known), body))

    def leave(self, multicast: bool) -> None:
        """Send each peer a goodbye with a token as proof, and a multicast goodbye, which makes receivers probe."""
        known = list(self._members.table.values())
        for _ in range(2):  # in datagrams of their own, for any may be lost
            self.outbox += [frame((peer.id,), peer.address, Envelope(GOODBYE, peer.token, peer.echo)) for peer in known]
        if multicast:
            self.send_all(GOODBYE)

    def call(self, now: float, peer: KnownPeer, body: bytes, is_free: bool, known: int | None) -> None:
        """Announce to one peer; with the digest `known`, ask for introductions.

        Without `known`, a peer with an unverified address is asked to answer: it has no credit for probes later.
        """
        kind = CALL if peer.is_verified or known is not None else PROBE
        self.send(now, peer, kind, body, is_free, known)

    def call_stranger(self, address: Address, body: bytes, known: int | None = None) -> None:
        """Announce to an address at which no peer is known."""
        self.outbox.append(frame((), address, Envelope(CALL, self._beacon, known=known), body))

    def announce(self, now: float, body: bytes, is_multicast: bool) -> None:
        """Announce by multicast, and by unicast to the peers that multicast does not reach."""
        if is_multicast:
            self.send_all(ANNOUNCE, body)
        self.call_remote(now, body)

    def hurry(self, now: float) -> None:
        """Announce at once, as new listeners may be in reach."""
        self._announcer.hurry(now)

    def ask_again(self, now: float, is_multicast: bool) -> None:
        """Ask those endpoints to answer again that know other peers than this endpoint knows."""
        body = self._announcer.calm_body
        if is_multicast:
            self.send_all(ANNOUNCE, body, known=self._members.digest)
        self.call_remote(now, body, is_between=True)

    def call_remote(self, now: float, body: bytes, is_between: bool = False) -> None:
        """Call the peers that multicast does not reach; `is_between` announcements, only those still to be met."""
        members, rendezvous = self._members, self._rendezvous
        strangers = rendezvous.due(now)
        if not strangers and not members.remote:
            return
        known = members.digest if rendezvous.is_asking(now) else None
        for peer in members.table.values():
            address = without_link(peer.address)
            is_free = address in strangers  # to be called in any case, whether that is a peer or not
            strangers.pop(address, None)
            asked = known if rendezvous.is_contact(address) else None
            if peer.is_asleep:
                continue
            if (is_free or peer.id in members.remote) and not (is_between and peer.is_verified and asked is None):
                self.call(now, peer, body, is_free, asked)
        for address in strangers:
            self.call_stranger(address, body, known if address in rendezvous.contacts else None)

    def receive(self, now: float, peer: KnownPeer, item: Inbound, envelope: Envelope) -> None:
        """Record a datagram of a peer: renew its lease, credit its address and check the returned token."""
        peer.received_at, peer.is_leaving = now, False
        if envelope.token and (envelope.kind != ANNOUNCE or not peer.echo):
            peer.echo = envelope.token
        if item.address == peer.address:
            peer.credit = min(peer.credit + 1, CREDIT_LIMIT)
            peer.is_verified = peer.is_verified or envelope.echo == peer.token
        if not peer.is_proven and (peer.is_verified or envelope.echo == self._beacon):
            peer.is_proven = True
            if not self._rendezvous.contacts:  # else a peer may be missing that is only to be introduced
                self._first_round.proved(now, peer.met_at if envelope.echo == peer.token else None)

    def answer(self, now: float, peer: KnownPeer) -> None:
        """Send the peer an announcement as the answer."""
        peer.answer_at = math.inf
        self.send(now, peer, ANSWER, self._announcer.calm_body, known=self._first_round.known)

    def ask_proof(self, now: float, peer: KnownPeer) -> None:
        """Ask a peer to return its token, if that is not too soon after the last time."""
        if now >= peer.ask_at and self.send(now, peer, PROBE, self._announcer.calm_body):
            peer.ask_at = now + ASK_SPACING

    def return_token(self, now: float, peer: KnownPeer) -> None:
        """Return the token of an answer, unless another datagram has, so that the peer knows this endpoint receives."""
        if peer.echo != peer.returned:
            self.send(now, peer, WANT)

    def challenge(self, item: Inbound, token: int, echo: int) -> None:
        """Ask the sender of a datagram to return this token, as proof of the claimed identity."""
        envelope = Envelope(PROBE, token, echo, called=item.peer)
        self.outbox.append(frame((item.peer,), item.address, envelope, self._announcer.calm_body))

    def welcome(self, now: float, peer: KnownPeer, peers: int) -> None:
        """Answer a newcomer; with many peers after a random delay, because all of them answer."""
        if peers <= PROMPT_ANSWERS:
            self.answer(now, peer)
        else:
            peer.answer_at = now + self._random.uniform(0, peers * ANSWER_SPACING)

    def serve(self, now: float, peer: KnownPeer, epoch: int, version: int) -> None:
        """Send the operations that a peer wants, a few at a time."""
        log = self._announcer.log
        if epoch != log.epoch:
            self.answer(now, peer)  # which tells it of the new epoch
            return
        missing = version < log.version
        limit = min(FRAMES_PER_WANT, self._frames_left, peer.affordable)
        if missing and limit > 0:
            bodies = Operations.encode(log, version, self._announcer.size, limit)
            self._frames_left -= len(bodies)
            for body in bodies:
                self.send(now, peer, OPERATIONS, body)
        elif missing:
            self._statistics["reply withheld"] += 1

    def tell(self, now: float, peer: KnownPeer) -> None:
        """Send a peer recent changes of interests ahead of data, because it may reply at once on a new topic.

        Multicast arrives on another socket, where data may overtake it. These datagrams cost no credit, because data
        goes to the address anyway. An address without credit gets only one small datagram.
        """
        announcer = self._announcer
        if announcer.is_fresh and peer.told != announcer.log.position:
            told, peer.told = max(peer.told, announcer.settled), announcer.log.position
            credit = peer.affordable
            size, frames = (announcer.size, min(credit, FRAMES_OF_NEWS)) if credit else (CALM_BODY, 1)
            for is_announcement, body in announcer.news(told, min(size, announcer.size), frames):
                self.send(now, peer, ANSWER if is_announcement else OPERATIONS, body, is_free=True)

    def tell_all(self) -> None:
        """Before multicast data: announce the changes of interests that have not been announced yet."""
        announcer = self._announcer
        if announcer.told != announcer.log.position:
            for is_announcement, body in announcer.news(announcer.told, announcer.size, FRAMES_OF_NEWS):
                self.send_all(ANNOUNCE if is_announcement else OPERATIONS, body)
            announcer.told = announcer.log.position

    def introduce(self, now: float, peer: KnownPeer, others: list[tuple[str, Address]]) -> None:
        """Send a peer the addresses of others, in random order; only to a verified address, as the answer is large."""
        if not peer.is_verified:
            return
        self._random.shuffle(others)
        for body in Introductions.encode(others, self._announcer.size, FRAMES_PER_INTRODUCTION):
            self.send(now, peer, INTRODUCE, body)

    def reply(self, now: float, peer: KnownPeer, envelope: Envelope, is_new: bool, own_id: str) -> None:
        """Answer a request or a newcomer, and ask an unproven peer for proof that it receives from this endpoint."""
        if envelope.known is not None and envelope.kind in (ANSWER, ANNOUNCE):
            peer.known, peer.is_starting = envelope.known, envelope.kind == ANNOUNCE
        if envelope.called == own_id:
            self.answer(now, peer)
        elif envelope.kind == ANSWER:
            peer.answer_at = math.inf  # it knows this endpoint
            if not peer.is_proven:
                self.ask_proof(now, peer)
        elif is_new or self._members.is_stranger(envelope) or self._first_round.is_asked(envelope):
            self.welcome(now, peer, len(self._members.table))
        elif not peer.is_proven and peer.answer_at == math.inf:
            self.ask_proof(now, peer)
        if envelope.kind == CALL and envelope.known is not None and envelope.known != self._members.digest:
            others = [(other.id, other.address) for other in self._members.table.values() if other is not peer]
            self.introduce(now, peer, others)

    def ask(self, now: float, peer: KnownPeer) -> None:
        """Ask for operations that are missing, if it is time."""
        if not peer.follower.is_behind:
            return
        if peer.answer_at < math.inf:
            peer.want_at = max(peer.want_at, peer.answer_at)  # it goes with the answer
        elif now >= peer.want_at and not self.send(now, peer, WANT):
            peer.put_off_want(now)

    def attend(self, now: float, peer: KnownPeer, is_remote: bool) -> None:
        """Send what is due by time."""
        if now >= peer.answer_at:
            self.answer(now, peer)
        if peer.is_asleep:
            return
        self.ask(now, peer)
        if now >= max(peer.received_at + peer.patience, peer.probe_at):
            self._probe(now, peer, is_remote)

    def _probe(self, now: float, peer: KnownPeer, is_remote: bool) -> None:
        by_unicast = peer.affordable > 0 or is_remote
        spacing = PROBE_SPACING if by_unicast else MULTICAST_PROBE_SPACING
        if now < self._probed_at + spacing:
            peer.probe_at = self._probed_at + spacing
            return
        self._probed_at = now
        peer.probe_at = now + (peer.lease - peer.patience) / PROBES
        if by_unicast:
            self.send(now, peer, PROBE, self._announcer.calm_body)
        else:
            self.send_all(PROBE, self._announcer.calm_body, peer.id)
