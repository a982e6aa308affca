"""Several segments in one world: hosts with an interface on each of them, for endpoints with several interfaces.

    segments = Segments(world, "eth0", "wlan0")
    kitchen = segments.endpoint("kitchen")               # on both
    hall = segments.endpoint("hall", on=["wlan0"])       # on one of them
    segments["eth0"].partition([segments.nic(kitchen, "eth0")])    # pulls the cable of the kitchen

Each segment is a `VirtualLan` with conditions, cuts and counts of its own. Its hosts are the interfaces (`Nic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glue.contract import Address, GroupOn, Train, link_of, on_link, without_link
from glue.contract.requests import LinkChanged
from glue.simulation.host import Host
from glue.simulation.network import VirtualLan

if TYPE_CHECKING:
    from glue.simulation.endpoint import SimulatedEndpoint
    from glue.simulation.world import World

PORT = 37319


class Nic(Host):
    """One interface of a host, as a segment sees it."""

    def __init__(self, host: Host, address: Address, link: str) -> None:
        """`link`: the name of the interface in the addresses of the endpoint; empty if it has no other."""
        self.index = host.index
        self.address = address
        self.is_up = True
        self._host = host
        self._link = link

    def __repr__(self) -> str:
        return f"<Nic {self.address} of {self._host}>"

    @property
    def is_listening(self) -> bool:
        """Whether an arriving datagram finds a socket."""
        return self.is_up and self._host.is_listening

    def receive(self, source: Address, data: bytes, segment: int, is_multicast: bool = False) -> bool:
        """Pass an arriving train to the host; its source tells the link, if the host has several."""
        return self._host.receive(on_link(source, self._link) if self._link else source, data, segment, is_multicast)


class Segments:
    """The segments of a world by name."""

    def __init__(self, world: World, *names: str) -> None:
        self._world = world
        self._lans = {name: VirtualLan(world._schedule, world.seed + number) for number, name in enumerate(names, 1)}
        self._nics: dict[Host, dict[str, Nic]] = {}

    def __getitem__(self, name: str) -> VirtualLan:
        return self._lans[name]

    def endpoint(self, name: str, on: Sequence[str] | None = None, **settings: Any) -> SimulatedEndpoint:
        """Start an endpoint with an interface on each of these segments, by default on all; `settings` as ever."""
        links = [*self._lans] if on is None else [*on]
        endpoint = self._world.endpoint(name, interface=links, **settings)
        host, number = endpoint.host, endpoint.host.index + 1
        nics = self._nics[host] = {}
        for link in links:
            place = [*self._lans].index(link) + 1
            nic = nics[link] = Nic(host, (f"10.{place}.0.{number}", PORT), link if len(links) > 1 else "")
            self._lans[link].attach(nic)
        host.use(self._transmit)
        return endpoint

    def nic(self, endpoint: SimulatedEndpoint, link: str) -> Nic:
        """Return the interface of an endpoint on a segment."""
        return self._nics[endpoint.host][link]

    def switch(self, endpoint: SimulatedEndpoint, link: str, is_up: bool) -> None:
        """Switch an interface off or on; the endpoint is told, as the kernel tells it."""
        self.nic(endpoint, link).is_up = is_up
        endpoint.host.submit(LinkChanged(link, is_up))

    def _transmit(self, host: Host, train: Train) -> None:
        """Send a host's train through the interface of its address, or through several, as `LinkedNetwork` does."""
        nics, address = self._nics[host], train.address
        if address:
            names = [link_of(address)] if link_of(address) else [*nics]
            address = without_link(address)
        else:
            names = [name for name in nics if not isinstance(address, GroupOn) or name in address.links]
        for name in names:
            if nics[name].is_up:
                self._lans[name].transmit(nics[name], Train(address, train.data, train.segment))
