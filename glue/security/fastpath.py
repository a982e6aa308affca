"""The fast path of security: single trains of fresh lives, and lone datagrams in a session."""

from __future__ import annotations

from typing import Any

from glue.contract import CONSUMED, Address, Train
from glue.security.layer import Sealing
from glue.security.sealer import SealedTrain


class SealingFastPath:
    """Single trains; see `glue.contract.fastpath`."""

    __slots__ = ("_layer",)

    def __init__(self, layer: Sealing) -> None:
        self._layer = layer

    def session_part(self) -> None:
        """Nothing: in a session, `SealedNetworkPart` seals and opens at the network."""

    def receive_one(self, now: float, item: Train) -> Train | tuple[()] | None:
        """The train, opened; None if not each of its datagrams is the next of a fresh life."""
        if self._layer.is_own(item.data):
            self._layer.statistics["own datagrams received"] += -(-len(item.data) // item.segment)
            return CONSUMED
        return self._layer.open_train(now, item)

    def send_one(self, now: float, item: Train) -> Train | None:
        """The train, sealed as it leaves."""
        if now >= self._layer.look_at or self._layer.granted:
            return None
        return SealedTrain(self._layer.seal, item)


class SealedNetworkPart:
    """The network's part in a session (`glue.fastpath.parts.NetworkPart`), with a security layer between.

    A glance opens a datagram and changes no state; the datagram counts as accepted when it is taken.
    """

    __slots__ = ("_layer", "_network", "_sealed", "commit", "expect_answer")

    def __init__(self, network: Any, layer: Sealing) -> None:
        """`network` is the part of the network itself."""
        self._network = network
        self._layer = layer
        self._sealed = b""
        self.commit, self.expect_answer = network.commit, network.expect_answer

    @property
    def is_eager(self) -> bool:
        """Whether answers come fast enough to justify polling."""
        return self._network.is_eager  # type: ignore[no-any-return]

    @property
    def source(self) -> Address:
        """The source address of the latest datagram of `glance`."""
        return self._network.source  # type: ignore[no-any-return]

    def glance(self, until: float) -> bytes | None:
        """Wait for a lone datagram of a fresh life until `until` (monotonic seconds), and open it."""
        sealed = self._network.glance(until)
        if sealed is None:
            return None
        opened = self._layer.peek(sealed)
        if opened is None:
            self._network.keep(sealed)
        self._sealed = sealed
        return opened

    def keep(self, data: bytes) -> None:
        """Put back the latest datagram of `glance`, so that it is received, and opened, next."""
        self._network.keep(self._sealed)

    def take(self, data: bytes) -> None:
        """Mark the latest datagram of `glance` as taken."""
        self._layer.accept(self._sealed)
        self._network.take(self._sealed)

    def post(self, data: bytes, address: Address) -> None:
        """Seal one datagram, and send it to a peer."""
        self._network.post(self._layer.seal(data, len(data), address), address)
