"""A swarm of endpoints that sleep and of their publishers, in virtual time, with losses, stops and restarts.

Each message says which one it is: its publisher's life, its topic and its number. A sleeper must get the messages of a
life and a topic in order and without a duplicate, and each gap must be told. What was published for it while it slept
must have come once it is told that it is awake. While it sleeps, nothing is sent to it and no publisher waits for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

import glue
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.network import Crossing
from glue.transport import sleepers
from tests.support.planting import sum_of_seeds

REST = 20.0
TOPICS = "node/a", "node/b", "node/c"
CALM = 2 * REST + 15.0
SENT_ASLEEP = 400  # datagrams before a publisher notices that a node sleeps: first windows of 3 * 128 and 16 frames
TIMES_ASLEEP = (
    10  # half seconds of one sleep in which a publisher sends something: what is resent again and again has more
)

Key = tuple[str, int, str]


class Node:
    """A sleeper, and what it got."""

    def __init__(self, swarm: Swarm, endpoint: SimulatedEndpoint) -> None:
        self.swarm = swarm
        self.endpoint = endpoint
        self.last: Counter[Key] = Counter()
        self.got: dict[Key, set[int]] = defaultdict(set)
        self.owed: dict[Key, set[int]] = defaultdict(set)
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()
        self.due: dict[Key, set[int]] = {}
        self.asleep_since = float("inf")
        self.sent_asleep: dict[Any, set[bytes]] = defaultdict(set)
        self.sent_when: dict[Any, set[int]] = defaultdict(set)  # half seconds
        self.woke = 0
        endpoint.on_gap = self.note_gap
        endpoint.subscribe("node/#", self.take)
        turn_on: Any = endpoint._turn_on

        def woken(core: Any) -> None:
            self.asleep_since = float("inf")
            self.due = {key: set(numbers) for key, numbers in self.owed.items()}
            turn_on(core)

        endpoint._turn_on = woken  # type: ignore[method-assign]
        swarm.world.after(0.5, self.sleep)

    def sleep(self) -> None:
        """Sleep for some time, and again when awake."""
        self.endpoint.sleep(self.swarm.chance.choice((0.5, 5.0, REST)), self.awake)

    def awake(self, woke: glue.Woke) -> None:
        """Check that all came that was published before."""
        self.woke += 1
        for publisher in self.swarm.publishers:
            doubtful = not publisher.is_running or publisher.name in self.swarm.doubtful
            if publisher.name not in woke.silent and not doubtful:
                self.check_due(publisher, woke)
        if not self.swarm.is_over:
            delay = self.swarm.chance.choice((0.0, 0.01, 0.3))
            self.swarm.world.after(delay, self.sleep)

    def check_due(self, publisher: SimulatedEndpoint, woke: glue.Woke) -> None:
        """What a living publisher owed when this endpoint woke up has come."""
        for key, numbers in self.due.items():
            if key[:2] == (publisher.id, publisher.incarnation):
                missing = numbers - self.got[key]
                lost = self.swarm.lost[publisher.id, publisher.incarnation]
                assert len(missing) <= lost, f"{self.endpoint}: {woke}, but {sorted(missing)} of {key} are missing"

    def take(self, message: glue.Message) -> None:
        """Check the order of a message."""
        key = message.publisher_id, message.incarnation, message.topic
        life, number = message.payload[:2]
        assert (life, number) == (message.incarnation, message.sequence), "a message in the place of another"
        assert number > self.last[key], f"{key}: {number} after {self.last[key]}"
        if self.last[key]:
            self.skipped[key[0], key[2]] += number - self.last[key] - 1
        self.last[key] = number
        self.got[key].add(number)

    def note_gap(self, gap: glue.Gap) -> None:
        """Count what was told as missing."""
        self.told[gap.publisher_id, gap.topic] += gap.count

    def check(self) -> None:
        """When all is calm: everything came, and each gap was told."""
        for where, count in self.skipped.items():
            assert self.told[where] >= count, f"{count} messages of {where} are missing, {self.told[where]} told"
        for publisher in self.swarm.publishers:
            life = publisher.id, publisher.incarnation
            for key, numbers in self.owed.items():
                if publisher.is_running and key[:2] == life:
                    missing = numbers - self.got[key]
                    assert len(missing) <= self.swarm.lost[life], f"{sorted(missing)} of {key} never came"


class Swarm:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.chance = chance = self.world.random("swarm of sleepers")
        self.is_over = False
        self.published: Counter[Key] = Counter()
        self.lost: Counter[tuple[str, int]] = Counter()
        self.doubtful: set[str] = set()
        self.held = chance.choice((sleepers.HELD_FOR_ONE, sleepers.HELD_FOR_ONE, 4000))
        self.publishers = [
            self.world.endpoint(f"publisher{n}", queue_limit=30_000) for n in range(chance.choice((1, 3)))
        ]
        for publisher in self.publishers:
            self.begin(publisher)
        self.listener = self.world.endpoint("listener")
        self.listener.subscribe("node/a")
        self.world.run(0.2)
        self.nodes = [
            Node(self, self.world.endpoint(f"node{number}", sleep=REST)) for number in range(chance.choice((1, 2)))
        ]
        self.world.network.observer = self.observe

    def begin(self, publisher: SimulatedEndpoint) -> None:
        """Count what a new life of a publisher loses."""
        life = publisher.id, publisher.incarnation

        def lose(cause: str, count: int) -> None:
            self.lost[life] += count

        def gone(peer: glue.Peer) -> None:
            if peer.reason == "expired":  # one that is not proven has a short lease, but no messages wait for it
                owed = [key for node in self.nodes if node.endpoint.id == peer.id for key in node.owed]
                assert life not in [key[:2] for key in owed], f"{peer} was given up while it slept"

        publisher.on_lost = lose
        publisher.on_peer_removed = gone

    def observe(self, crossing: Crossing) -> None:
        """Count what is sent to a sleeper that sleeps."""
        doubtful = [one.host.address for one in self.publishers if one.name in self.doubtful]
        if crossing.outcome == "receiver down" and crossing.destination and crossing.source not in doubtful:
            for node in self.nodes:
                if node.endpoint.host.address == crossing.destination:
                    place = crossing.source, node.endpoint._cycle
                    sent = node.sent_asleep[place]
                    sent.add(crossing.data)  # the network may double it
                    assert len(sent) <= SENT_ASLEEP, "too much is sent to an endpoint that sleeps"
                    node.sent_when[place].add(int(self.world.time * 2))
                    assert len(node.sent_when[place]) <= TIMES_ASLEEP, "an endpoint that sleeps is sent to for ever"

    def publish(self) -> None:
        """Publish some messages on a topic."""
        chance = self.chance
        publisher, topic = chance.choice(self.publishers), chance.choice(TOPICS)
        if not publisher.is_running or publisher.host.is_paused:
            return
        key = publisher.id, publisher.incarnation, topic
        size = chance.choice((0, 0, 200, 3000))
        for _ in range(chance.choice((1, 1, 3, 12))):
            try:
                publisher.publish(topic, [publisher.incarnation, self.published[key] + 1, "x" * size])
            except glue.WouldBlockError:
                return
            self.published[key] += 1
            for node in self.nodes:
                if node.endpoint.id in publisher.subscribers(topic):
                    node.owed[key].add(self.published[key])

    def disturb(self) -> None:
        """Make the network worse or better, stop a publisher, or end its life."""
        chance, network = self.chance, self.world.network
        publisher = chance.choice(self.publishers)
        what = chance.random()
        if what < 0.6:
            network.set_conditions(
                Conditions(
                    loss=chance.choice((0.0, 0.05, 0.3)),
                    duplicate=chance.choice((0.0, 0.2)),
                    delay=chance.choice((0.0005, 0.01, 0.03)),
                    jitter=chance.choice((0.0, 0.02)),
                )
            )
        elif what < 0.75 and publisher.is_running:
            self.doubtful.add(publisher.name)
            publisher.pause()
            self.world.after(chance.choice((0.2, 5.0)), publisher.resume)
        elif publisher.is_running:
            publisher.crash()
        else:
            self.doubtful.add(publisher.name)
            publisher.restart()
            self.begin(publisher)

    def run(self) -> None:
        """Disturb, calm down, check."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sleepers, "HELD_FOR_ONE", self.held)
            for _ in range(40):
                self.step()
            self.calm_down()

    def step(self) -> None:
        """Let some time pass, and let something happen."""
        self.world.run(self.chance.choice((0.01, 0.3, 2.0, 8.0)))
        for node in self.nodes:
            if node.endpoint._cycle % 2 and node.asleep_since == float("inf"):
                node.asleep_since = self.world.time
                continue
            if node.asleep_since + 3 < self.world.time:
                self.check_backlog(node.endpoint.id)
        for _ in range(self.chance.randint(0, 4)):
            self.publish()
        if self.chance.random() < 0.2:
            self.disturb()

    def check_backlog(self, peer: str) -> None:
        """No publisher waits for long for an endpoint that sleeps, even if it missed the announcement of that."""
        for publisher in self.publishers:
            if publisher.is_running and not publisher.host.is_paused and publisher.name not in self.doubtful:
                transport: Any = publisher._core.stack.layers["transport"]
                for channel in transport.channels.values():
                    if channel.peers == (peer,) and channel.members[peer].answered_at + 3 < publisher.host.now:
                        assert not channel.backlog, f"{publisher} waits for an endpoint that sleeps"

    def calm_down(self) -> None:
        """Mend all, let everything come, and check."""
        self.world.network.set_conditions(Conditions())
        for publisher in self.publishers:
            if publisher.is_running:
                publisher.resume()
        self.world.run(CALM)
        self.is_over = True
        self.world.run(CALM)
        for node in self.nodes:
            assert node.woke > 1
            assert not node.endpoint._cycle % 2
            node.check()
        for publisher in self.publishers:
            if publisher.is_running:
                assert not publisher.backlog
                assert not publisher.accounting.sending, f"{publisher}: {publisher.accounting}"


def counted(seed: int) -> int:
    """Run a seed; returns how many messages came."""
    swarm = Swarm(seed)
    swarm.run()
    return sum(len(numbers) for node in swarm.nodes for numbers in node.got.values())


def hunt(first: int, last: int) -> int:
    """Run these seeds; returns how many messages came."""
    return sum_of_seeds(counted, range(first, last))
