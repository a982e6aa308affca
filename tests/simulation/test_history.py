"""History in virtual time.

python -m tests.simulation.test_history 0 10000    # hunt through these seeds
"""

from __future__ import annotations

import sys

from tests.simulation.history_swarm import hunt

if __name__ == "__main__":
    print(hunt(int(sys.argv[1]), int(sys.argv[2])))
