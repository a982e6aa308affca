"""Groups of replicas in virtual time, on a network and on disks whose faults follow from a seed.

Consensus alone, without the layers below it: messages travel as they are, so that thousands of seeds are a matter of
a minute. `run_seed` is one run: faults at random while the invariants are checked at every step, then peace, in which
everything must become well.
"""

from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.disk import PowerCut, SimulatedDisk
from glue.simulation.consensus.faults import FAULTS
from glue.simulation.consensus.invariants import Violation
from glue.simulation.consensus.node import Node
from glue.simulation.consensus.swarm import STORM, Result, run_seed, shrunk

__all__ = [
    "FAULTS", "STORM", "Cluster", "Node", "PowerCut", "Result", "SimulatedDisk", "Violation", "run_seed", "shrunk",
]  # fmt: skip
