"""A swarm of publishers that remember and readers that come late, in virtual time, with losses, partitions and crashes.

Each message says which one it is: its publisher's life, its topic and its number. A reader must get the messages of a
life and a topic in order, without a duplicate, and each gap must be told. When the network is well again, a reader has
everything up to the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import glue
from glue.requests.directory import matches
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.subscription import SimulatedSubscription
from tests.support.planting import sum_of_seeds

TOPICS = ("home/a", "home/b", "home/c/d")
PATTERNS = ("home/#", "home/+", "home/a", "home/c/d")
CALM = 12.0
"""Seconds after which everything must have come: a lease, and a few repeats."""

Life = tuple[str, int]


class Watcher:
    """One subscription with history, and what it may still get."""

    def __init__(self, swarm: Swarm, endpoint: SimulatedEndpoint, slow: float, **options: Any) -> None:
        self.swarm = swarm
        self.options = options
        self.pattern = options.pop("pattern")
        self.begun = dict(swarm.published)
        known = {peer.id for peer in endpoint.peers}
        self.lives = {one.id: one.incarnation for one in swarm.publishers if one.id in known}
        self.last: dict[tuple[str, int, str], int] = {}
        self.first: dict[tuple[str, int, str], int] = {}
        self.told: Counter[tuple[str, str]] = Counter()  # by publisher's id and topic
        self.skipped: Counter[tuple[str, int, str]] = Counter()
        self.endpoint = endpoint
        self.subscription: SimulatedSubscription = endpoint.subscribe(
            self.pattern, self.take, handling_time=slow, **options
        )

    def take(self, message: glue.Message) -> None:
        """Check the order of a message."""
        key = message.publisher_id, message.incarnation, message.topic
        life, number = message.payload
        assert (life, number) == (message.incarnation, message.sequence), "a message in the place of another"
        last = self.last.get(key, 0)
        if self.is_late(*key[:2]):  # best effort may be overtaken then, and its gaps are told later
            self.last[key] = max(number, last)
            self.first.setdefault(key, number)
            return
        assert number > last, f"{key}: {number} after {last}"
        if last:
            self.skipped[key] += 0 if self.is_early(*key[:2]) else number - last - 1
        else:
            self.first[key] = number
        self.last[key] = number

    def is_early(self, peer: str, life: int) -> bool:
        """Whether the offer of a publisher has not come: topics alone may not know of best effort that is lost now."""
        reader: Any = self.subscription._waiting.reader  # type: ignore[union-attr]
        source = reader._sources.get(peer) or reader._silent.get(peer)
        return source is None or source.life != life

    def is_late(self, peer: str, life: int) -> bool:
        """Whether the offer of a publisher was so long in coming that its live messages were handed over before."""
        room: Any = self.subscription._waiting
        return bool(room.reader._met.get(peer) == life)

    def check(self) -> None:
        """When all is calm: everything came, and each gap was told."""
        sums: Counter[tuple[str, str]] = Counter()
        for (peer, _, topic), count in self.skipped.items():
            sums[peer, topic] += count
        for (peer, topic), count in sums.items():
            assert self.told[peer, topic] >= count, (
                f"{count} messages of {topic} are missing, of which nothing was told"
            )
        for publisher in self.swarm.publishers:
            if not publisher.is_running:
                continue
            for topic in TOPICS:
                total = self.swarm.published[publisher.id, publisher.incarnation, topic]
                if not total or not matches(self.pattern, topic):
                    continue
                self.check_end(publisher, topic, total)

    def check_end(self, publisher: SimulatedEndpoint, topic: str, total: int) -> None:
        """What came last, and first, of a life that goes on."""
        key = publisher.id, publisher.incarnation, topic
        last, first = self.last.get(key, 0), self.first.get(key, 0)
        kept = self.swarm.limits[publisher.name]
        is_late = self.is_late(*key[:2])
        if is_late:  # then what found no room is refused
            return
        if self.options.get("start") == "earliest":
            assert last == total, f"{key}: {last} of {total} came"
            assert first == 1 or kept is not None
        elif "last" in self.options:
            assert last == total, f"{key}: {last} of {total} came"
            assert first <= max(1, total - self.options["last"] + 1) or kept is not None
        elif publisher.incarnation != self.lives.get(publisher.id, publisher.incarnation):  # the next one
            assert last == total, f"{key}: {last} of {total} came"
            assert first == 1 or kept is not None
        elif last > self.begun.get(key, 0):  # "latest" begins when the two know each other
            assert last == total, f"{key}: {last} of {total} came"


class Swarm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = chance = self.world.random("swarm of history")
        self.published: Counter[tuple[str, int, str]] = Counter()
        self.limits: dict[str, int | None] = {}
        self.watchers: list[Watcher] = []
        self.readers = [
            self.world.endpoint(f"reader{number}", receive_limit=chance.choice((2000, 65_536, 1 << 22)))
            for number in range(2)
        ]
        self.publishers = [self.world.endpoint(f"publisher{number}") for number in range(2)]
        for publisher in self.publishers:
            self.limits[publisher.name] = chance.choice((None, None, 3, 20))
            self.begin(publisher)

    def begin(self, publisher: SimulatedEndpoint) -> None:
        """Remember in a new life."""
        publisher.remember("home/#", last=self.limits[publisher.name])

    def publish(self) -> None:
        """Publish some messages on a topic."""
        publisher, topic = self.chance.choice(self.publishers), self.chance.choice(TOPICS)
        if not publisher.is_running:
            return
        reliability: Any = "best-effort" if self.chance.random() < 0.1 else "reliable"
        for _ in range(self.chance.choice((1, 1, 2, 30))):
            key = publisher.id, publisher.incarnation, topic
            try:
                publisher.publish(topic, [publisher.incarnation, self.published[key] + 1], reliability=reliability)
            except glue.WouldBlockError:
                return
            self.published[key] += 1

    def join(self) -> None:
        """Begin to read somewhere."""
        chance = self.chance
        options: dict[str, Any] = chance.choice(({"start": "earliest"}, {"start": "latest"}, {"last": 4}))
        reader = chance.choice((*self.readers, chance.choice(self.publishers)))
        if reader.is_running:
            slow = chance.choice((0.0, 0.0, 0.002, 0.02))
            self.watchers.append(Watcher(self, reader, slow, pattern=chance.choice(PATTERNS), **options))
            reader.on_gap = self.note_gap(reader)

    def note_gap(self, reader: SimulatedEndpoint) -> Any:
        def note(gap: glue.Gap) -> None:
            for watcher in self.watchers:
                if watcher.endpoint is reader and watcher.pattern == gap.pattern:
                    watcher.told[gap.publisher_id, gap.topic] += gap.count

        return note

    def disturb(self) -> None:
        """Make the network worse or better, part it, or end a publisher's life."""
        chance, network = self.chance, self.world.network
        what = chance.random()
        if what < 0.5:
            network.set_conditions(
                Conditions(
                    loss=chance.choice((0.0, 0.1, 0.4)),
                    duplicate=chance.choice((0.0, 0.2)),
                    delay=chance.choice((0.0005, 0.03)),
                    jitter=chance.choice((0.0, 0.02)),
                )
            )
        elif what < 0.65:
            hosts = [endpoint.host for endpoint in (*self.readers, *self.publishers)]
            chance.shuffle(hosts)
            network.partition(hosts[:2], hosts[2:])
        elif what < 0.8:
            network.heal()
        else:
            publisher = chance.choice(self.publishers)
            if publisher.is_running:
                publisher.crash()
                self.watchers = [one for one in self.watchers if one.endpoint is not publisher]
            else:
                publisher.restart()
                self.begin(publisher)

    def run(self) -> None:
        """Disturb, calm down, check."""
        for _ in range(40):
            self.world.run(self.chance.choice((0.001, 0.01, 0.2, 1.0)))
            for _ in range(self.chance.randint(0, 4)):
                self.publish()
            if self.chance.random() < 0.15:
                self.join()
            if self.chance.random() < 0.25:
                self.disturb()
        self.world.network.set_conditions(Conditions())
        self.world.network.heal()
        self.world.run(CALM)
        self.finish()
        for watcher in self.watchers:
            watcher.check()
        for endpoint in (*self.readers, *self.publishers):
            if endpoint.is_running:
                assert not endpoint.accounting.waiting, f"{endpoint}: {endpoint.accounting}"

    def finish(self) -> None:
        """Wait until nothing comes any more: a slow reader has nothing waiting for a moment between two pages."""
        readers, before, came = [watcher.endpoint for watcher in self.watchers], -1, 0
        while came > before:
            self.world.run_until(lambda: not any(reader.accounting.waiting for reader in readers), 60.0)
            self.world.run(0.5)
            before, came = came, sum(sum(watcher.last.values()) for watcher in self.watchers)


def counted(seed: int) -> int:
    """Run a seed; returns how many messages came."""
    swarm = Swarm(seed)
    swarm.run()
    return sum(sum(watcher.last.values()) for watcher in swarm.watchers)


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages came."""
    return sum_of_seeds(counted, range(first, last))
