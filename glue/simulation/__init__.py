"""Deterministic simulator: whole endpoints in virtual time, on a network with faults that follow from a seed."""

from glue.simulation.conditions import Burst, Conditions
from glue.simulation.endpoint import SimulatedEndpoint
from glue.simulation.host import Host
from glue.simulation.link import Link, Outcome
from glue.simulation.machine import Machine, SimulationError
from glue.simulation.network import Crossing, VirtualLan
from glue.simulation.recorded import RecordedOutcomes
from glue.simulation.subscription import SimulatedSubscription
from glue.simulation.world import World

__all__ = [
    "Burst",
    "Conditions",
    "Crossing",
    "Host",
    "Link",
    "Machine",
    "Outcome",
    "RecordedOutcomes",
    "SimulatedEndpoint",
    "SimulatedSubscription",
    "SimulationError",
    "VirtualLan",
    "World",
]  # fmt: skip
