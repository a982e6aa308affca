"""Which peers multicast reaches, and the endpoints that contacts introduce where it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from glue.contract import Address, Inbound
from glue.discovery.announcer import Announcer
from glue.discovery.control import ControlSender
from glue.discovery.membership import Membership
from glue.discovery.peers import KnownPeer
from glue.discovery.rendezvous import Rendezvous
from glue.discovery.wire import ANNOUNCE, CALL, PROBE, Envelope, Introductions


class Reach:
    """Keeps `members.remote`: the peers out of reach of multicast; all of them with `multicast=False`."""

    def __init__(
        self,
        own_id: str,
        multicast: bool,
        members: Membership,
        rendezvous: Rendezvous,
        sender: ControlSender,
        announcer: Announcer,
        statistics: Counter[str],
    ) -> None:
        self._own_id = own_id
        self._multicast = multicast
        self._members = members
        self._rendezvous = rendezvous
        self._sender = sender
        self._announcer = announcer
        self._statistics = statistics

    def locate(self, now: float, peer: KnownPeer, kind: str, is_new: bool) -> None:
        """Find out whether multicast gets to a peer: as long as its own comes, it is taken to hear ours."""
        knows = self._rendezvous.knows
        if kind == ANNOUNCE or (is_new and kind != CALL and not knows(peer.address)):
            peer.overheard = now  # or it has, as it answers
        if kind == ANNOUNCE and self._multicast:
            self._members.remote.pop(peer.id, None)
        elif not self._multicast or (
            now > peer.overheard + peer.lease and (kind in (CALL, PROBE) or knows(peer.address))
        ):
            self._members.remote[peer.id] = peer
        if is_new and self._rendezvous.is_contact(peer.address):
            self._rendezvous.hurry(now)

    def on_introductions(self, now: float, item: Inbound, envelope: Envelope, body: bytes) -> None:
        """Take introductions of a peer."""
        if (peer := self._members.known(now, item, envelope.echo)) is None:
            return
        introduced = Introductions.parse(body, peer.address)
        if introduced is None:
            self._statistics["malformed body"] += 1
            return
        self._sender.receive(now, peer, item, envelope)
        self._introduced(now, peer, introduced)

    def _introduced(self, now: float, by: KnownPeer, endpoints: Sequence[tuple[str, Address]]) -> None:
        """Call endpoints that a contact has introduced, unless they are known."""
        if not self._rendezvous.is_contact(by.address):
            self._statistics["introduction by a stranger"] += 1
            return
        for id, address in endpoints:
            if id != self._own_id and not self._members.is_met(id) and self._rendezvous.meet(now, address):
                self._sender.call_stranger(address, self._announcer.calm_body)
