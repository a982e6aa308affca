"""Links and paths: finds all paths to each peer, and lets its data take the best one (`paths` decides which).

A peer has several paths if it announces itself through several interfaces, or if several links of this endpoint reach
it. A datagram from another address than the known ones counts for nothing until that address is proved: a question with
a token goes there, and the token comes back on a path that is known already. If all known paths are silent, the peer
moves to the new address instead (see `membership`). A peer with a single path costs nothing here.

Times are those of the driver, not of the layer's clock: what is late is not to be taken for lost, but a round trip is
to be measured as it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from glue.contract import TO_PEERS, Address, GroupOn, Inbound, LinkChanged, PathChanged, Upward, link_of, without_link
from glue.discovery.control import ControlSender
from glue.discovery.membership import Membership
from glue.discovery.peers import ASK_SPACING, KnownPeer
from glue.discovery.wire import PATH, PREFERRED, PROVE, TOKEN_BITS, Envelope, frame

if TYPE_CHECKING:  # imported with the first peer that has several paths
    from glue.discovery.paths import Path, Paths


class Links:
    """The paths to the peers of one endpoint, whose links have these `names`: none for an endpoint of one interface."""

    def __init__(
        self,
        own_id: str,
        names: Iterable[str],
        members: Membership,
        sender: ControlSender,
        statistics: Counter[str],
        random: Random,
    ) -> None:
        self._own_id = own_id
        self.names = frozenset(names)
        self.is_used = bool(self.names)  # or any peer has several addresses
        self._down: set[str] = set()
        self._members = members
        members.on_addresses = self.follow
        self._sender = sender
        self._statistics = statistics
        self._random = random
        self._watched: dict[str, KnownPeer] = {}  # the peers with several paths
        self._group: tuple[int, Address] = -1, TO_PEERS  # as of that many changes of the members
        self.now = -math.inf  # of the present call of the layer
        self.due = math.inf  # when `advance` must be called
        self.news: list[Upward] = []

    def stop(self) -> None:
        """Ask nothing any more."""
        self._watched.clear()
        self.due = math.inf

    # ------------------------------------------------------------------------------------------ addresses

    def follow(self, peer: KnownPeer) -> None:
        """Watch the paths at the addresses of a peer, which have changed; one address needs no watch."""
        self._members.changes += 1
        addresses = peer.address, *peer.aliases
        if not peer.aliases:
            peer.paths = None
            self._watched.pop(peer.id, None)
            self._members.direct[peer.id] = peer
            self.is_used = bool(self.names or self._watched)
            return
        self.is_used = True
        if peer.paths is None:
            from glue.discovery.paths import ASK_INTERVAL, Paths

            look_at = self.now + self._random.random() * ASK_INTERVAL
            peer.paths = Paths(self.now, peer.address, self._own_id < peer.id, look_at)
            self._members.direct.pop(peer.id, None)
            self._watched[peer.id] = peer
        for address in [address for address in peer.paths.table if address not in addresses]:
            del peer.paths.table[address]
        for address in addresses:
            peer.paths.add(self.now, address, link_of(address) in self._down)
        self.due = min(self.due, peer.paths.due)

    def meet(self, now: float, peer: KnownPeer | None, item: Inbound) -> bool:
        """Ask for proof that a new address is a peer's; `now` is on the layer's clock.

        Returns False if this endpoint has one link only, or for no current life of a peer: then this is not done here.
        """
        if not self.names or peer is None or peer.incarnation != item.incarnation:
            return False
        if token := self._doubt(now, peer, item):
            self._send(peer, item.address, Envelope(PATH, token), PROVE)
        return True

    def refuse(self, now: float, peer: KnownPeer | None, item: Inbound) -> None:
        """Count data from no current life at a known address; ask a peer about a new address."""
        self._members.refuse(item)
        self.meet(now, peer, item)

    def _doubt(self, now: float, peer: KnownPeer, item: Inbound) -> int:
        """Return the token for an address that is not known to be this peer's; 0 if it is too soon to ask for it."""
        is_another = item.address != peer.claimed
        if now < peer.ask_at or item.address is None or (is_another and peer.move_at < math.inf):
            return 0
        peer.ask_at = now + ASK_SPACING
        if is_another:
            peer.claimed, peer.claimed_at = item.address, now
        self._statistics["doubtful address"] += 1
        return self._members.question(peer.id, peer.incarnation, item.address)

    def to_group(self) -> Address:
        """Return the destination of multicast data that leaves now: the links that the peers' data takes."""
        for peer in self._watched.values():
            self.sent(peer)
        if self._group[0] != self._members.changes:
            links = {link_of(peer.address) for peer in self._members.table.values()} - self._down
            address = GroupOn(links) if links and links < self.names else TO_PEERS
            self._group = self._members.changes, address
        return self._group[1]

    # ---------------------------------------------------------------------------------------- what passes

    def heard(self, peer: KnownPeer, address: Address | None) -> None:
        """Note a datagram of a peer with several paths."""
        if peer.paths is not None and address is not None:
            self._change(peer, peer.paths.heard(self.now, address), is_lost=True)

    def controlled(self, item: Inbound) -> float:
        """Note a frame of discovery; returns when its sender may move to another address."""
        peer = self._members.current(item)
        if peer is None:
            return math.inf
        self.heard(peer, item.address)
        return peer.move_at

    def sent(self, peer: KnownPeer) -> None:
        """Note data to a peer with several paths."""
        if peer.paths is not None and peer.paths.sent(self.now):
            self.due = min(self.due, peer.paths.due)

    def answer(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Take a question or an answer; `now` is on the layer's clock."""
        peer = self._members.current(item)
        if peer is None or item.address is None:
            self._members.refuse(item)
            return
        if envelope.echo:
            self._members.settle(now, peer, item, envelope.echo)
        is_known = peer.speaks_from(item.address)
        if is_known:
            peer.received_at = now
            if envelope.echo and peer.paths is not None:
                self._change(peer, peer.paths.answered(self.now, item.address, envelope.echo), is_lost=True)
        if envelope.token:
            token = 0 if is_known else self._doubt(now, peer, item)
            self._send(peer, item.address, Envelope(PATH, token, envelope.token), PROVE if token else b"")
            if body == PROVE and peer.affordable:
                for address in (peer.address, *peer.aliases):
                    if address != item.address:
                        self._send(peer, address, Envelope(PATH, 0, envelope.token))
        if body == PREFERRED and peer.paths is not None:
            self._change(peer, peer.paths.told(self.now, item.address), is_lost=True, is_told=True)

    def _send(self, peer: KnownPeer, address: Address | None, envelope: Envelope, body: bytes = b"") -> None:
        self._sender.outbox.append(frame((peer.id,), address, envelope, body))

    # -------------------------------------------------------------------------------------------- choices

    def link_changed(self, now: float, order: LinkChanged) -> None:
        """A link can be used from now on, or cannot; `now` is on the layer's clock."""
        if order.is_up:
            self._down.discard(order.link)
            self._sender.hurry(now)
        elif order.link in self.names:
            self._down.add(order.link)
        self._members.changes += 1
        for peer in self._watched.values():
            if peer.paths is not None:
                self._change(peer, peer.paths.set_down(self.now, order.link, not order.is_up), is_lost=True)

    def advance(self) -> list[Upward]:
        """Ask what is due to be asked, and change to better paths; returns the news."""
        due = math.inf
        for peer in [*self._watched.values()]:
            paths = peer.paths
            if paths is None or self._members.table.get(peer.id) is not peer:
                del self._watched[peer.id]
                continue
            if paths.due <= self.now:
                asked, better = paths.plan(self.now)
                for path in asked:
                    self._ask(peer, paths, path)
                self._change(peer, better, is_lost=False)
                if gone := paths.forget(self.now):
                    peer.aliases = tuple(address for address in peer.aliases if address not in gone)
                    self.follow(peer)
            if peer.paths is not None:
                due = min(due, paths.due)
        self.due = due
        news, self.news = self.news, []
        return news

    def _ask(self, peer: KnownPeer, paths: Paths, path: Path) -> None:
        token = self._random.randrange(1, 1 << TOKEN_BITS)
        path.ask(self.now, token)
        self._send(peer, path.address, Envelope(PATH, token), PREFERRED if path is paths.current else b"")
        self._statistics["path questions"] += 1

    def _change(self, peer: KnownPeer, path: Path | None, is_lost: bool, is_told: bool = False) -> None:
        """Let a peer's data take another path, if there is one to take; tell the peer, unless it told this endpoint."""
        paths = peer.paths
        if path is None or paths is None:
            return
        paths.change(self.now, path)
        others = [address for address in (peer.address, *peer.aliases) if address != path.address]
        peer.address, peer.aliases = path.address, tuple(others)
        self._members.changes += 1
        self._statistics["paths changed"] += 1
        self.news.append(PathChanged(peer.id, path.address, is_lost))
        if not is_told:
            self._ask(peer, paths, path)
        self.due = -math.inf  # the news go up with the next call

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return, by name of the peer, which path carries its data, and what all of them are like."""
        return {peer.name: _described(peer) for peer in [*self._members.table.values()]}


def _described(peer: KnownPeer) -> dict[str, Any]:
    paths = peer.paths
    told: dict[str, Any] = {"link": link_of(peer.address), "address": list(without_link(peer.address)[:2])}
    told["paths"] = [] if paths is None else [_path(path) for path in [*paths.table.values()]]
    return told


def _path(path: Path) -> dict[str, Any]:
    return {
        "link": path.link,
        "address": list(without_link(path.address)[:2]),
        "round_trip": round(path.smoothed, 6),
        "loss": round(path.loss, 3),
        "answers": not path.misses and not path.is_down,
    }
