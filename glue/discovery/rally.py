"""Peers in a rally (`glue.fastpath.session`): where they are, and that they were heard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from glue.discovery.peers import KnownPeer


class Timers(Protocol):
    """What the fast path needs of the discovery layer."""

    paused: float
    """Seconds for which this host stood still; leases do not count them."""

    @property
    def calm_until(self) -> float:
        """Before that (monotonic seconds) nothing is due, or to be told before data."""


class Partners:
    """The known peers of one endpoint."""

    def __init__(self, layer: Timers, table: Mapping[str, KnownPeer]) -> None:
        self._layer = layer
        self._table = table

    @property
    def calm_until(self) -> float:
        """Before that (monotonic seconds) nothing is due, or to be told before data."""
        return self._layer.calm_until

    def find(self, id: str) -> KnownPeer | None:
        """The peer of this id."""
        return self._table.get(id)

    def book(self, partner: KnownPeer, heard_at: float) -> None:
        """A peer was heard, at last then."""
        partner.heard = heard_at - self._layer.paused
