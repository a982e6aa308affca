"""How long the radio of a battery node is on in each moment awake, in the simulator.

A node sleeps for 60 seconds, wakes up, gets the 20 messages that waited for it at its publishers, publishes a reading,
and sleeps again. Its radio is on from waking up until it has announced that it sleeps. Virtual time: the figures depend
on the seeds alone, not on the machine.

    python -m benchmarks.sleep [--seeds 20] [--cycles 10]
"""

from __future__ import annotations

import argparse
from statistics import mean
from typing import Any

from glue.simulation import World
from glue.simulation.conditions import Conditions

REST = 60.0
MESSAGES = 20
PUBLISHERS = 1, 5, 20
DELAYS = 0.0005, 0.005, 0.01
LOSSES = 0.0, 0.05
BAR = 0.1  # seconds: the mean of a moment awake


def radio_times(seed: int, publishers: int, delay: float, loss: float, cycles: int) -> list[float]:
    """Seconds that the radio was on in each of these cycles."""
    world = World(seed)
    world.network.set_conditions(Conditions(delay=delay, loss=loss))
    node = world.endpoint("node", sleep=REST)
    others = [world.endpoint(f"publisher-{number}") for number in range(publishers)]
    for other in others:
        other.subscribe("node/state")
    received: list[Any] = []
    node.subscribe("node/command/#", lambda message: received.append(message.payload))
    world.run(1.0)
    times: list[float] = []

    def awake(woke: Any) -> None:
        node.publish("node/state", {"battery": 3.7})
        node.sleep(then=awake)

    node.sleep(then=awake)
    for cycle in range(cycles + 1):
        world.run(REST / 2)
        if cycle:
            times.append(node.radio_time)
        for number in range(MESSAGES):
            others[number % publishers].publish(f"node/command/{number % publishers}", [cycle, number])
        world.run(REST / 2)
        world.run_until(lambda: not node.host.is_up, REST)
        if len(received) != (cycle + 1) * MESSAGES:
            raise RuntimeError(f"{len(received)} messages came, {(cycle + 1) * MESSAGES} were published")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="radio-on time of a battery node, in the simulator")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--cycles", type=int, default=10)
    arguments = parser.parse_args()
    print("| publishers | delay | loss | mean | 95 % | longest |\n|---|---|---|---|---|---|")
    for publishers in PUBLISHERS:
        for delay in DELAYS:
            for loss in LOSSES:
                times: list[float] = []
                for seed in range(arguments.seeds):
                    times += radio_times(seed, publishers, delay, loss, arguments.cycles)
                times.sort()
                shown = [f"{1000 * value:.0f} ms" for value in (mean(times), times[len(times) * 95 // 100], times[-1])]
                print(f"| {publishers} | {1000 * delay:g} ms | {loss:.0%} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
