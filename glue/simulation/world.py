"""A small world of hosts on a virtual LAN in virtual time, all of whose chances follow from one seed.

    world = World(seed=7)
    kitchen, hall = world.endpoint("kitchen"), world.endpoint("hall")
    world.network.set_conditions(Conditions(loss=0.1, jitter=0.002), source=kitchen.host)
    world.at(5.0, lambda: world.network.partition([kitchen.host], [hall.host]))
    assert world.run_until(lambda: not hall.peers, timeout=30.0)

Hosts run whole endpoints, or any other `Machine`. It takes as long as the machines' own work; two runs that do
the same have the same `trace_hash`.
"""

from __future__ import annotations

from typing import Any

from glue.contract import Address
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.hosts import Hosts


class World(Hosts):
    """Hosts with whole endpoints, the network between them, and the time; `Hosts` tells the rest."""

    def endpoint(
        self,
        name: str | None = None,
        *,
        address: Address | None = None,
        offset: float = 0.0,
        drift: float = 0.0,
        **settings: Any,
    ) -> SimulatedEndpoint:
        """Start an endpoint on a host of its own; `settings` are those of `glue.Endpoint`, layers included.

        The rest is as for `add`. Raises ConfigurationError for a wrong setting, or an address that is taken.
        """
        name = f"endpoint-{len(self.hosts) + 1}" if name is None else name
        return SimulatedEndpoint(self, name, address, offset, drift, **settings)
