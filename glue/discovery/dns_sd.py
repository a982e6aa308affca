"""Discovery where multicast is blocked but DNS-SD is at hand: the addresses come from a registry.

The registry only brings endpoints together. Announcements, leases and interests then go by unicast between the
addresses found, by the same protocol as over multicast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

from glue.contract import Address, Downward, Inbound, Leave, Outbound, Upward
from glue.discovery.examined import Examined
from glue.discovery.layer import Discovery
from glue.discovery.peers import PeerInfo
from glue.discovery.registry import Registry

POLL_INTERVAL = 0.25  # seconds between looks into the registry: soon enough for a newcomer, four cheap calls a second


class ServiceDiscovery:
    """A discovery layer that finds peers through a registry.

    Without a registry, only endpoints that know this address can reach it. `attach` sets the registry, once the
    address to register is known.
    """

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
        registry: Registry | None = None,
        rest: int = 0,
    ) -> None:
        """As for `Discovery`; this layer owns the registry, and closes it when the endpoint leaves."""
        self.discovery = Discovery(
            endpoint_id=endpoint_id,
            incarnation=incarnation,
            name=name,
            announce_interval=announce_interval,
            lease_intervals=lease_intervals,
            random=random,
            multicast=False,
            rest=rest,
        )
        self._registry: Registry | None = None
        self._poll_at = 0.0
        if registry is not None:
            self.attach(registry)

    def attach(self, registry: Registry) -> None:
        """Register this endpoint and look for others in this registry."""
        registry.register()
        self._registry = registry

    @property
    def deadline(self) -> float:
        """When `receive` must be called (monotonic seconds)."""
        return self.discovery.deadline if self._registry is None else min(self.discovery.deadline, self._poll_at)

    @property
    def statistics(self) -> Counter[str]:
        """The counters of this layer, by cause."""
        return self.discovery.statistics

    @property
    def is_first_round_over(self) -> bool:
        """As for `Discovery`."""
        return self.discovery.is_first_round_over

    @property
    def examined(self) -> Examined:
        """As for `Discovery`."""
        return self.discovery.examined

    @property
    def peers(self) -> Mapping[str, PeerInfo]:
        """The known peers by id, as they are now."""
        return self.discovery.peers

    def commit(self) -> None:
        """As for `Discovery`."""
        self.discovery.commit()

    def fit(self, size: int) -> int:
        """As for `Discovery`."""
        return self.discovery.fit(size)

    def receive(self, now: float, items: list[Inbound]) -> tuple[list[Upward], list[Outbound]]:
        """As for `Discovery`; also contact new endpoints of the registry."""
        contacts = self._poll(now)
        up, down = self.discovery.receive(now, items)
        return up, contacts + down

    def contact(self, address: Address) -> list[Outbound]:
        """As for `Discovery`."""
        return self.discovery.contact(address)

    def send(self, now: float, items: list[Downward]) -> list[Outbound]:
        """As for `Discovery`; with the order to leave, the registry is closed, which may take a second."""
        down = self.discovery.send(now, items)
        if self._registry is not None and any(isinstance(item, Leave) for item in items):
            self._registry.close()
            self._registry = None
        return down

    def _poll(self, now: float) -> list[Outbound]:
        if self._registry is None or now < self._poll_at:
            return []
        self._poll_at = now + POLL_INTERVAL
        found, lost = self._registry.poll()
        for address in lost:
            self.discovery.forget(address)
        return [frame for address in found for frame in self.discovery.contact(address)]
