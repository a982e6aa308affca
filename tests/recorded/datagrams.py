"""Shows each datagram of a recorded run of the simulator: when it was sent, by whom, to whom, and what it holds.

`python -m tests.recorded.datagrams NAME > now.txt`, once with a change and once without it, shows where a hash differs.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.recorded.story import Story


def main(name: str) -> None:
    """Run a record, with an observer in its network."""
    from glue.simulation.network import Crossing
    from tests.recorded.test_recorded import RUNS

    begin = Story.__init__

    def observed(story: Story, seed: int, **settings: Any) -> None:
        begin(story, seed, **settings)
        story.world.network.observer = show

    def show(crossing: Crossing) -> None:
        way = f"{crossing.source[0]} to {crossing.destination or 'all'} at {crossing.receiver[0]}"
        print(f"{crossing.sent_at:.6f} {way}: {crossing.outcome} {bytes(crossing.data)!r}")

    Story.__init__ = observed  # type: ignore[assignment, method-assign]
    RUNS[name]()


if __name__ == "__main__":
    main(sys.argv[1])
