"""A swarm of keepers: publishers that die, keepers that come and go, and readers that compare what they got.

python -m tests.simulation.test_keepers_serve 0 1000      # hunt through these seeds
"""

from __future__ import annotations

from collections import Counter

import glue
from glue.contract.ranges import RangeSet
from glue.simulation import Conditions, SimulatedEndpoint, World
from tests.support.planting import sum_of_seeds

Key = tuple[str, int, str]
"""A stream: a publisher's id and life, and a topic."""


class Swarm:
    """One seed: publishers that die, keepers that come and go, and readers that want everything."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = chance = self.world.random("swarm of keepers")
        self.publishers = [self.world.endpoint(f"publisher{number}") for number in range(2)]
        self.keepers = [self.world.endpoint(f"keeper{number}") for number in range(chance.randint(1, 4))]
        self.readers = [self.world.endpoint("reader", receive_limit=chance.choice((2000, 1 << 20)))]
        replicas = chance.choice((None, None, 1, 2))
        for keeper in self.keepers:
            keeper.keep("log/#", replicas=replicas)
        self.remembers = chance.random() < 0.3
        for publisher in self.publishers:
            self.begin(publisher)
        self.published: Counter[Key] = Counter()
        self.last: list[dict[Key, int]] = []
        self.first: dict[tuple[int, str, int, str], int] = {}
        self.stored_before: list[dict[Key, int]] = []  # by reader: the first numbers that keepers had
        self.skipped: list[Counter[tuple[str, str]]] = []
        self.told: Counter[tuple[str, str]] = Counter()
        self.readers[0].on_gap = lambda gap: self.told.update({(gap.publisher_id, gap.topic): gap.count})

    def begin(self, publisher: SimulatedEndpoint) -> None:
        """Begin a life of a publisher."""
        if self.remembers:
            publisher.remember("log/#", last=5)

    def read(self) -> None:
        """Subscribe to everything, and check the order of what comes."""
        last: dict[Key, int] = {}
        skipped: Counter[tuple[str, str]] = Counter()
        self.last.append(last)
        self.skipped.append(skipped)
        self.stored_before.append({key: next(iter(found))[0] for key, found in self.stored().items()})
        first = self.first

        def take(message: glue.Message) -> None:
            key = message.publisher_id, message.incarnation, message.topic
            assert message.payload == [message.incarnation, message.sequence]
            before = last.get(key, 0)
            first.setdefault((id(last), *key), message.sequence)
            assert message.sequence > before, f"{key}: {message.sequence} after {before}"
            skipped[key[0], key[2]] += message.sequence - before - 1 if before else 0
            last[key] = message.sequence

        slow = self.chance.choice((0.0, 0.005))
        self.readers[0].subscribe("log/#", take, start="earliest", handling_time=slow)

    def stored(self) -> dict[Key, RangeSet]:
        """The numbers that the keepers have together."""
        found: dict[Key, RangeSet] = {}
        for keeper in self.keepers:
            for stream, state in keeper._keepers[0].log.streams(lambda topic: True):
                for start, stop in state.durable:
                    found.setdefault((*stream,), RangeSet()).add(start, stop)
        return found

    def step(self) -> None:
        """Publish, or disturb."""
        chance, world = self.chance, self.world
        what = chance.random()
        publisher = chance.choice(self.publishers)
        if what < 0.5 and publisher.is_running:
            topic = chance.choice(("log/a", "log/b"))
            for _ in range(chance.choice((1, 5, 40))):
                key = publisher.id, publisher.incarnation, topic
                publisher.publish(topic, [publisher.incarnation, self.published[key] + 1])
                self.published[key] += 1
        elif what < 0.6:
            conditions = Conditions(loss=chance.choice((0.0, 0.2)), jitter=chance.choice((0.0, 0.01)))
            world.network.set_conditions(conditions)
        elif what < 0.7:
            if publisher.is_running:
                publisher.crash()
            else:
                publisher.restart()
                self.begin(publisher)
        elif what < 0.8:
            keeper = chance.choice(self.keepers)
            keeper.pause()
            world.after(chance.uniform(0.02, 2.0), keeper.resume)
        elif what < 0.9:
            world.network.partition([chance.choice(self.keepers).host])
            world.after(chance.uniform(0.1, 2.0), world.network.heal)

    def run(self) -> None:
        """Disturb, calm down, and compare with what the keepers have together."""
        for _ in range(40):
            self.world.run(self.chance.choice((0.001, 0.05, 0.5)))
            self.step()
            if self.chance.random() < 0.1 and len(self.last) < 3:
                self.read()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        self.world.run(5.0)  # a keeper that was paused gets what was under way to it
        self.read()
        self.world.run(30.0)
        reader = self.readers[0]
        self.world.run_until(lambda: not reader.accounting.waiting, 60.0)
        stored = self.stored()
        for last, skipped, before in zip(self.last, self.skipped, self.stored_before, strict=True):
            for key, ranges in stored.items():
                skipped[key[0], key[2]] += max(0, ranges.stop - 1 - last.get(key, 0))
            for key, number in before.items():  # without a word only if the keeper was known in time
                skipped[key[0], key[2]] += max(0, self.first[id(last), *key] - number)
        for place, count in sum(self.skipped, Counter[tuple[str, str]]()).items():
            assert self.told[place] >= count, f"{count} messages of {place} are missing, {self.told[place]} are told"
        holes: Counter[tuple[str, str]] = Counter()
        for key, ranges in stored.items():
            (first, _), *_ = ranges
            holes[key[0], key[2]] += ranges.stop - first - len(ranges.common(range(first, ranges.stop)))
            holes[key[0], key[2]] += max(0, self.last[-1].get(key, 0) + 1 - ranges.stop)  # came live, but to no keeper
        for place, count in self.skipped[-1].items():  # this reader began when all was calm
            assert count <= holes[place], f"{count} messages of {place} are missing, of which keepers have some"
        assert not reader.accounting.waiting


def counted(seed: int) -> int:
    """Run a seed; returns how many messages came."""
    swarm = Swarm(seed)
    swarm.run()
    return sum(sum(last.values()) for last in swarm.last)


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages came."""
    return sum_of_seeds(counted, range(first, last))
