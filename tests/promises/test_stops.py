"""A host that is stopped for longer than its lease, and finds newer messages in one socket than in the other.

Its publishers have given it up and begin new channels. What it did not join in time comes by unicast; what they sent
before the lease ended waits in its multicast socket. The host is slow, so all that happens while it reads.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from glue import Gap, Message
from glue.simulation import Conditions, SimulatedEndpoint, World

LEASE = 2.0
SMALL, LARGE = (100, 0.02), (150_000, 0.2)  # bytes, and seconds between two


class House:
    """Four endpoints that publish small and large messages evenly and hear each other; the first loses 5 %."""

    def __init__(self, seed: int, retain: bool = False) -> None:
        self.world = World(seed)
        self.endpoints = [
            self.world.endpoint(f"host{number}", announce_interval=LEASE / 5, lease_intervals=5.0)
            for number in range(4)
        ]
        self.stopped = self.endpoints[1]
        self.stopped.host.turn_time = 0.03
        self.world.network.set_conditions(Conditions(loss=0.05), destination=self.endpoints[0].host)
        self.heard: dict[str, list[Message]] = {}
        self.missed: Counter[str] = Counter()
        self.stopped.on_gap = lambda gap: self.miss(gap)
        self.stopped.subscribe("#", lambda message: self.heard.setdefault(message.topic, []).append(message))
        for endpoint in self.endpoints:
            if endpoint is not self.stopped:
                endpoint.subscribe("#")
        assert self.world.run_until(lambda: all(len(endpoint.peers) == 3 for endpoint in self.endpoints), 5)
        self.is_over = False
        for number, endpoint in enumerate(self.endpoints):
            for size, interval in (SMALL, LARGE):
                flow = partial(self.flow, endpoint, f"{endpoint.name}/{size}", size, interval, retain)
                self.world.after(0.003 * number, flow)
        self.world.run(0.5)

    def miss(self, gap: Gap) -> None:
        self.missed[gap.topic] += gap.count

    def flow(self, endpoint: SimulatedEndpoint, topic: str, size: int, interval: float, retain: bool) -> None:
        if not self.is_over:
            self.world.after(interval, lambda: self.flow(endpoint, topic, size, interval, retain))
            if not endpoint.host.is_paused:
                endpoint.publish(topic, bytes(size), retain=retain)

    def stop(self, seconds: float) -> None:
        self.stopped.pause()
        self.world.run(seconds)
        self.stopped.resume()
        self.world.run(2.0)


def test_after_a_stop_longer_than_the_lease_order_holds_and_each_message_is_heard_or_missed() -> None:
    house = House(1)
    for seconds in (3.0, 5.0):
        house.stop(seconds)
    house.is_over = True
    house.world.run(3.0)
    late = house.stopped.statistics["topics"]["messages too late"]
    assert late > 0
    assert sum(house.missed.values()) >= late
    for topic, messages in house.heard.items():
        numbers = [message.sequence for message in messages]
        assert numbers == sorted(set(numbers))
        assert len(numbers) + house.missed[topic] == numbers[-1] - numbers[0] + 1
    assert len(house.heard) == 8


def test_after_a_stop_nothing_is_handed_up_behind_a_newer_retained_value() -> None:
    house = House(3, retain=True)
    house.stop(3.0)
    assert house.stopped.statistics["topics"]["messages too late"] > 0
    assert any(message.retained for messages in house.heard.values() for message in messages)
    for messages in house.heard.values():
        numbers = [message.sequence for message in messages]
        assert numbers == sorted(set(numbers))
