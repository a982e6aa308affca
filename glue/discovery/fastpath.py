"""The fast path of discovery: data from and to known peers passes while no timer of the layer is due."""

from __future__ import annotations

from glue.contract import TO_PEERS, Downward, Inbound, Outbound
from glue.discovery.layer import Discovery
from glue.discovery.peers import KnownPeer
from glue.discovery.wire import KEY


class DiscoveryFastPath:
    """Data of one item at a time; see `glue.contract.fastpath` and `glue.fastpath.parts`."""

    __slots__ = ("_has_part", "_layer", "_table")

    def __init__(self, layer: Discovery, has_part: bool = True) -> None:
        """`has_part`: whether the layer takes part in sessions."""
        self._layer = layer
        self._table = layer.direct  # peers with several paths take the ordinary way
        self._has_part = has_part

    def receive_one(self, now: float, item: Inbound) -> Inbound | None:
        """Data of a known peer passes."""
        layer, peer = self._layer, self._table.get(item.peer)
        if now >= layer.calm_until or KEY in item.header or peer is None or peer.incarnation != item.incarnation:
            return None
        if item.address != peer.address and not peer.speaks_from(item.address):
            return None
        peer.received_at = now - layer.paused
        return item

    def send_one(self, now: float, item: Downward) -> Outbound | None:
        """Data for a known peer goes to its address, and data for several to the group, if that reaches all."""
        if now >= self._layer.calm_until or item.__class__ is not Outbound:
            return None
        if item.peers and (peer := self._table.get(item.peers[0])):
            item.address = peer.address
            return item
        item.address = TO_PEERS
        return item if not item.peers and self._layer.reaches_all else None

    # --------------------------------------------------------------------------------------- in a session

    def session_part(self) -> DiscoveryFastPath | None:
        """The part that this layer takes in a session; None if it takes none."""
        return self if self._has_part else None

    @property
    def calm_until(self) -> float:
        """Before that (monotonic seconds) nothing is due, or to be told before data."""
        return self._layer.calm_until

    def find(self, id: str) -> KnownPeer | None:
        """The peer of this id."""
        return self._table.get(id)

    def commit(self, partner: KnownPeer, received_at: float) -> None:
        """Note when a peer was last received from."""
        partner.received_at = received_at - self._layer.paused
