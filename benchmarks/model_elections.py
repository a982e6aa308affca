"""How long voters take to elect another leader after the death of theirs, in virtual time, over thousands of seeds.

    python -m benchmarks.model_elections --seeds 5000

Consensus alone: three voters with disks, commands all the time, links that take 0.1 to 5 ms. The leader is killed at a
random moment. The figure is the time until another one leads, so without the millisecond that a commit takes then.
`benchmarks.model_takeover` has the whole stack in it, with endpoints that start again.
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from statistics import median, quantiles

from glue.model.consensus import ConsensusSettings
from glue.simulation.consensus import Cluster

TIMEOUT = 0.7
"""As for `glue mqtt --shared`; heartbeats as at an endpoint."""
SETTINGS = ConsensusSettings(voters=3, election_timeout=TIMEOUT, heartbeat=TIMEOUT / 3, ticket_timeout=2 * TIMEOUT)
SYNC = 0.02
"""Seconds that a sync takes, half as long or half as long again: a disk that others use, too."""
LIMIT = 60.0


def took(seed: int) -> float:
    """Seconds from the death of a leader until there is another one."""
    random, cluster = Random(seed), Cluster(seed)
    cluster.net.delay, cluster.net.slowest = 0.0001, 0.005
    nodes = [cluster.add(peer, SETTINGS) for peer in "abc"]
    for node in nodes:
        node.sync_delay = SYNC
    if not cluster.run_until(lambda: cluster.leader() is not None, LIMIT):
        return LIMIT
    cluster.run(1.0)
    for _ in range(random.randrange(20, 60)):
        cluster.propose(random.choice(nodes), random.randbytes(20))
        cluster.run(random.random() * 0.02)
    leader = cluster.leader()
    assert leader is not None
    leader.crash()
    at = cluster.time
    cluster.run_until(lambda: cluster.leader() is not None, LIMIT)
    return cluster.time - at


def main() -> int:
    """Run; prints the distribution."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_elections", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=1000, help="(default: %(default)s)")
    options = parser.parse_args()
    times = [took(seed) for seed in range(options.seeds)]
    cuts = quantiles(times, n=1000)
    print(f"{len(times)} deaths of a leader: another one after {median(times):.2f} s, 95 % within {cuts[949]:.2f} s, "
          f"99 % {cuts[989]:.2f} s, 99.9 % {cuts[998]:.2f} s, longest {max(times):.2f} s")  # fmt: skip
    return int(max(times) >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
