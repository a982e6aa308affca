"""Groups of replicas in virtual time, on a network and disks with faults that follow from a seed.

The simulation contains consensus alone. Messages travel as objects, so thousands of seeds take about a minute.
`run_seed` is one run: random faults while every step is checked against the invariants, then a phase without faults, in
which the group must recover.
"""

from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.faults import FAULTS
from glue.simulation.consensus.invariants import Violation
from glue.simulation.consensus.node import Node
from glue.simulation.consensus.swarm import STORM, RunResult, run_seed, shrunk
from glue.simulation.disk import PowerCut, SimulatedDisk

__all__ = [
    "FAULTS", "STORM", "Cluster", "Node", "PowerCut", "RunResult", "SimulatedDisk", "Violation", "run_seed", "shrunk",
]  # fmt: skip
