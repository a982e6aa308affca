"""Discovery: announce, listen, and translate endpoint ids to addresses.

Each endpoint multicasts its identity and its interests: on start, at each change of interests, and every interval. A
newcomer is answered at once by unicast, so that two endpoints know each other within one round trip. Any datagram of
a peer renews the peer's lease. A peer that is silent for most of the lease is probed, so that lost announcements alone
hardly ever remove a peer. Data passes through: up only from current lives of known peers, down to the peers'
addresses. Peers out of reach of multicast get announcements and shared data by unicast (see `rendezvous`). A peer with
several addresses is reached by the best of them (see `links`).

The layer has its own clock, which stands still while the driver is late. Therefore no peer is lost because this
endpoint was suspended and could not listen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

import orjson

from glue.contract import (
    TO_PEERS,
    Address,
    Downward,
    Inbound,
    Interest,
    Leave,
    LinkChanged,
    Outbound,
    Sleep,
    Upward,
)
from glue.contract.counters import Counters
from glue.discovery import wire
from glue.discovery.announcer import IN_STEP, Announcer
from glue.discovery.control import ControlSender
from glue.discovery.examined import Examined
from glue.discovery.first_round import FirstRound
from glue.discovery.learning import Learning
from glue.discovery.links import Links
from glue.discovery.membership import Membership
from glue.discovery.peers import KnownPeer, PeerInfo
from glue.discovery.reach import Reach
from glue.discovery.rendezvous import Rendezvous
from glue.discovery.wire import KEY, Announcement, Envelope, Operations
from glue.errors import ConfigurationError

MAX_NAME = 512  # bytes of a name as JSON, so that the name fits in the smallest announcement
ROUNDING = 1e-6  # seconds by which a timer may be early, because of rounding errors

PRESENT, ASLEEP, LEFT = "present", "asleep", "left"

Handler = Callable[[float, Inbound, Envelope, bytes], None]
"""Takes a control frame: the time, the frame, its header entry, and its body."""


class Discovery:
    """The discovery layer of one endpoint, over multicast or, with `multicast=False`, over unicast alone."""

    backlog = unfinished = 0

    def __init__(
        self,
        *,
        endpoint_id: str,
        incarnation: int,
        name: str,
        announce_interval: float = 1.0,
        lease_intervals: float = 5.0,
        random: Random,
        multicast: bool = True,
        links: Sequence[str] = (),
        rest: int = 0,
    ) -> None:
        """Without multicast, or beyond its reach, peers are found by way of `contact`, or they find this endpoint.

        `links` are the names of this endpoint's links, if it has several.

        Raises ConfigurationError for a name that takes more than 512 bytes as JSON.
        """
        if len(orjson.dumps(name)) > MAX_NAME:
            raise ConfigurationError(f"name={name!r} takes more than {MAX_NAME} bytes as JSON; choose a shorter one")
        self.statistics = statistics = Counters()
        self._id = endpoint_id
        self._incarnation = incarnation
        self._interval = announce_interval
        self._multicast = multicast
        self._reaches_all = multicast and not links
        self._announcer = Announcer(name, announce_interval, random, rest)
        self._members = members = Membership(endpoint_id, statistics, random)
        self.table, self.direct = members.table, members.direct  # the known peers by id; with one address
        self._rendezvous = Rendezvous(statistics)
        self._first_round = FirstRound(members)
        self._sender = sender = ControlSender(self._announcer, self._rendezvous, self._first_round, statistics, random)
        self._reach = Reach(endpoint_id, multicast, members, self._rendezvous, sender, self._announcer, statistics)
        self.links = Links(endpoint_id, links, members, sender, statistics, random)
        self._learning = Learning(members, sender, statistics, announce_interval, lease_intervals)
        self.examined = Examined(members, sender, statistics, random, multicast)
        self._state: str | None = None  # before the first call; then PRESENT or ASLEEP, then LEFT
        self._slept_at = 0.0  # since when it is asleep, on the layer's clock, which then stands still
        self.paused = 0.0  # by how much the layer's clock is behind the driver's
        self._check_at = math.inf  # when the first of the peers needs attention
        self.calm_until = -math.inf  # on the driver's clock: before that nothing is due, and data just passes
        self._up: list[Upward] = []
        self._handlers = self._handlers_by_kind()

    @property
    def deadline(self) -> float:
        """When `receive` must be called (monotonic seconds)."""
        due = -math.inf if self.examined.is_asked else self._due + self.paused
        return due if due < self.links.due else self.links.due

    @property
    def _due(self) -> float:
        """When the first timer is due, on the layer's clock."""
        if self._state == ASLEEP:
            return math.inf
        first = min(self._announcer.due, self._check_at, self._rendezvous.call_at, self._first_round.due)
        return min(first, self.examined.due)

    @property
    def reaches_all(self) -> bool:
        """Whether multicast reaches every peer, without a choice of links."""
        return self._reaches_all and not self._members.remote

    def commit(self) -> None:
        """Find out until when data just passes."""
        calm_until = min(self._due, self._announcer.calm_until) + self.paused - ROUNDING
        self.calm_until = calm_until if calm_until < self.links.due else self.links.due

    @property
    def is_first_round_over(self) -> bool:
        """Whether the peers that answer at once are known with their interests, or the time limit is over."""
        return self._first_round.is_over

    @property
    def peers(self) -> Mapping[str, PeerInfo]:
        """The known peers by id."""
        return {id: peer.info(self.paused) for id, peer in self._members.table.items()}

    def fit(self, size: int) -> int:
        """Return the largest body above for the largest frame below (bytes): the same, as data gets no header here."""
        self._announcer.fit(size)
        self.examined.fit(size)
        return size

    def receive(self, now: float, items: list[Inbound]) -> tuple[list[Upward], list[Outbound]]:
        """Data of known peers passes up, between the news; announcements and replies go down."""
        if self._state == ASLEEP:
            self.statistics["received asleep"] += len(items)
            return [], []
        now = self._listen(now)
        up = self._up = self._learning.up = []
        table = self._members.table
        for item in items:
            if KEY in item.header:
                self._control(now, item)
                continue
            peer = table.get(item.peer)
            if peer is not None and peer.incarnation == item.incarnation and peer.speaks_from(item.address):
                peer.received_at = now
                if peer.paths is not None:
                    self.links.heard(peer, item.address)
                up.append(item)
            else:
                self.links.refuse(now, peer, item)
        in_step = items and len(table) in IN_STEP
        if now >= (self._announcer.rides_from if in_step else self._announcer.due):
            self._announce(now)
        elif now >= self._rendezvous.call_at:
            self._sender.call_remote(now, self._announcer.calm_body, is_between=True)
        if now >= self._check_at:
            self._attend(now)
        if not self._first_round.is_over and self._first_round.goes_on(now, self.paused, up):
            self._sender.ask_again(now, self._multicast)
        self.examined.advance(now)
        if self.links.now >= self.links.due:
            up += self.links.advance()
        return up, self._sender.take() if self._sender.outbox else []

    def send(self, now: float, items: list[Downward]) -> list[Outbound]:
        """Data goes to addresses; interests are announced at once, and so is leaving."""
        now = self._listen(now)
        for item in items:
            if item.__class__ is Outbound:
                if self._state != ASLEEP:
                    self._route(now, item)
            elif isinstance(item, Interest):
                if self._state != LEFT and (unknown := self._announcer.change(now, item)):
                    self.statistics["unknown interest withdrawn"] += unknown
            elif isinstance(item, Leave):
                self._leave()
            elif isinstance(item, LinkChanged):
                self.links.link_changed(now, item)
            elif isinstance(item, Sleep):
                now = self._sleep(now, item.cycle)
            else:
                self.statistics["order not understood"] += 1
        if now >= self._announcer.rides_from and self._state != ASLEEP:
            self._announce(now)
        return self._sender.take()

    def contact(self, address: Address) -> list[Outbound]:
        """Call this address, too, from now on; returns what goes down at once."""
        if self._rendezvous.add(address) and self._state == PRESENT:
            self._sender.call_stranger(address, self._announcer.calm_body)
        return self._sender.take()

    def forget(self, address: Address) -> None:
        """No longer call this address for its own sake; a peer there stays for its lease."""
        self._rendezvous.contacts.pop(address, None)

    def _listen(self, now: float) -> float:
        """Return the time on the layer's clock: never later than the next timer, however late the call is.

        The first call begins the first round.
        """
        self.calm_until = -math.inf  # until `commit`
        self.links.now = now
        if self._state is None:
            self._state = PRESENT
            self._announcer.due = now
            self._first_round.begin(now)
        due = self._due
        time = now - self.paused
        if time < due - ROUNDING:
            return time
        if time > due + self._interval:
            self.statistics["suspended"] += 1
        self.paused = now - due
        return due

    def _route(self, now: float, item: Outbound) -> None:
        """Give data its address; peers out of reach of multicast get copies, and recent interests go first."""
        if not item.peers:
            for peer in self._members.remote.values():
                self._sender.tell(now, peer)
                self._sender.outbox.append(
                    Outbound((peer.id,), item.bodies, dict(item.header), item.reliable, item.expires, (), peer.address)
                )
            if not self._multicast:
                return
            self._sender.tell_all()
            item.address = self.links.to_group() if self.links.is_used else TO_PEERS
        elif known := self._members.table.get(item.peers[0]):
            self._sender.tell(now, known)
            item.address = known.address
            if known.paths is not None:
                self.links.sent(known)
        else:
            self.statistics["unknown destination"] += len(item.bodies)
            return
        self._sender.outbox.append(item)

    def _leave(self) -> None:
        if self._state == LEFT:
            return
        self._state = LEFT
        self._announcer.stop()
        self._first_round.end()
        self.examined.stop()
        self.links.stop()
        self._check_at = self._rendezvous.call_at = math.inf
        self._sender.leave(self._multicast)

    def _sleep(self, now: float, cycle: int) -> float:
        """Fall asleep or wake up, and announce it; return the time on the layer's clock."""
        if self._state == PRESENT and cycle % 2:
            self._announcer.sleep(now, cycle)
            self._announce(now)
            self._announce(now)  # twice: peers do not ask for an announcement that is lost
            self._state, self._slept_at = ASLEEP, now
        elif self._state == ASLEEP and not cycle % 2:
            self.paused += now - self._slept_at
            self._state, now = PRESENT, self._slept_at
            self._announcer.sleep(now, cycle)
        return now

    def _announce(self, now: float) -> None:
        """Announce by multicast, and by unicast to peers out of reach of multicast."""
        body = self._announcer.announce(now)
        if self._check_at < self._announcer.due:  # received datagrams have most likely postponed it since
            self._check_at = self._next_check()
        self._sender.announce(now, body, self._multicast)

    def _handlers_by_kind(self) -> dict[str, Handler]:
        """The methods that take control frames, by kind."""
        return {
            **dict.fromkeys((wire.ANNOUNCE, wire.CALL, wire.ANSWER, wire.PROBE), self._on_announcement),
            wire.WANT: self._on_want,
            wire.OPERATIONS: self._on_operations,
            wire.INTRODUCE: self._reach.on_introductions,
            wire.EXAMINE: self.examined.receive,
            wire.GOODBYE: self._on_goodbye,
            wire.PATH: self.links.answer,
        }

    def _control(self, now: float, item: Inbound) -> None:
        """Hand a control frame to what takes its kind, unless it is malformed or claims to be of this endpoint."""
        envelope = Envelope.parse(item.header[KEY])
        if envelope is None or item.address is None:
            self.statistics["malformed header"] += len(item.bodies)
        elif envelope.kind not in self._handlers:
            self.statistics["unknown kind"] += len(item.bodies)
        elif item.peer == self._id:
            self._members.clash(item, self._incarnation, self._up)
        elif self._state != LEFT:
            handler = self._handlers[envelope.kind]
            for body in item.bodies:
                handler(now, item, envelope, body)
            self._check_at = min(self._check_at, self.links.controlled(item))

    def _on_announcement(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Admit a newcomer, or learn what a peer says of itself; answer. What contradicts a known peer is verified."""
        peer, announcement, is_new = self._members.current(item), None, False
        if peer is None or body != peer.body or peer.is_doubted:
            announcement = Announcement.parse(body)
            if announcement is None:
                self.statistics["malformed body"] += 1
                return
        if peer is not None:
            self._members.settle(now, peer, item, envelope.echo)
        if peer is None or not peer.speaks_from(item.address):
            if self.links.meet(now, peer, item):
                return
            if token := self._members.doubts(now, item, envelope.echo):
                self._sender.challenge(item, token, 0 if peer else envelope.token)
            if peer is not None:
                self._sender.ask_proof(now, peer)  # where it is known to be
            if peer is not None or announcement is None or token:
                return
            peer, is_new = self._members.admit(now, item, announcement.name, self._up), True
            if peer is None:
                return
        self._sender.receive(now, peer, item, envelope)
        if announcement is not None:
            self._learning.learn(now, peer, announcement, body, envelope.echo)
        if peer.rest and self._learning.tell_sleep(peer):
            self._sender.answer(now, peer)
        self._reach.locate(now, peer, envelope.kind, is_new)
        self._sender.reply(now, peer, envelope, is_new, self._id)
        self._converse(now, peer, envelope)
        if envelope.kind == wire.ANSWER:
            self._sender.return_token(now, peer)

    def _on_want(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Send a peer the operations that it lacks."""
        if (peer := self._members.known(now, item, envelope.echo)) is None:
            return
        self._sender.receive(now, peer, item, envelope)
        self._converse(now, peer, envelope)

    def _on_operations(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Take a part of a peer's interest log."""
        if (peer := self._members.known(now, item, envelope.echo)) is None:
            return
        operations = Operations.parse(body)
        if operations is None:
            self.statistics["malformed body"] += 1
            return
        self._sender.receive(now, peer, item, envelope)
        self._learning.follow(now, peer, operations)
        self._converse(now, peer, envelope)

    def _on_goodbye(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Remove a peer whose goodbye is proven; ask any other whether it is still there."""
        peer = self._members.dismiss(now, item, envelope.echo, self._up)
        if peer is not None:
            # The peer is probed, and gone if it does not answer.
            peer.received_at = min(peer.received_at, now - peer.patience)
            self._check_at = min(self._check_at, peer.wake_at)

    def _converse(self, now: float, peer: KnownPeer, envelope: Envelope) -> None:
        """Give what the peer wants and ask for what is missing; once it is proven, tell what it wants to hear."""
        self._learning.receive(peer)
        if envelope.want is not None:
            self._sender.serve(now, peer, *envelope.want)
        self._sender.ask(now, peer)
        self._check_at = min(self._check_at, peer.wake_at)

    def _attend(self, now: float) -> None:
        """Look after the peers that need it now."""
        peers = self._members.table
        for peer in [peer for peer in peers.values() if peer.wake_at <= now]:
            if now >= peer.move_at:
                self._members.move(peer)
            if now >= peer.ends_at:
                self._members.expire(now, peer, self._up)
            else:
                self._sender.attend(now, peer, peer.id in self._members.remote)
        self._check_at = self._next_check()

    def _next_check(self) -> float:
        return min((peer.wake_at for peer in self._members.table.values()), default=math.inf)
