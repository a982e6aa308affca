"""A small world of hosts on a virtual LAN in virtual time. One seed determines everything random.

    world = World(seed=7)
    kitchen, hall = world.endpoint("kitchen"), world.endpoint("hall")
    world.network.set_conditions(Conditions(loss=0.1, jitter=0.002), source=kitchen.host)
    world.at(5.0, lambda: world.network.partition([kitchen.host], [hall.host]))
    assert world.run_until(lambda: not hall.peers, timeout=30.0)

Hosts run whole endpoints, or any other `Machine`. A run takes only the time of the machines' own work. Two identical
runs have the same `trace_hash`.
"""

from __future__ import annotations

from typing import Any

from glue.contract import Address
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.hosts import Hosts


class World(Hosts):
    """Hosts with whole endpoints, their network, and the time. `Hosts` has the other methods."""

    def endpoint(
        self,
        name: str | None = None,
        *,
        address: Address | None = None,
        offset: float = 0.0,
        drift: float = 0.0,
        **settings: Any,
    ) -> SimulatedEndpoint:
        """Start an endpoint on a new host. `settings` are the keywords of `glue.Endpoint`, layers included.

        `address`, `offset` and `drift` are those of `add`. Raises ConfigurationError for a wrong setting or a taken
        address.
        """
        name = f"endpoint-{len(self.hosts) + 1}" if name is None else name
        return SimulatedEndpoint(self, name, address, offset, drift, **settings)
