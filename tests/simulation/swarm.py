"""A swarm: endpoints that talk while everything that can befall them does, all of it drawn from one seed.

The safety phase draws how bad the network is and keeps making it worse and better; the oracle checks all that is
heard meanwhile. The liveness phase heals everything, and demands that within a bound all know each other, all that
is owed has arrived, whatever is published then arrives everywhere, and nobody has anything left to do.

    python -m tests.simulation.swarm 1000 2000    # hunt through these seeds
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf
from random import Random
from typing import Any

from glue import Gap, Peer, WouldBlockError
from glue.endpoint.core import PRIORITIES
from glue.endpoint.options import Reliability
from glue.simulation import Burst, Conditions, SimulatedEndpoint, SimulatedSubscription, World
from glue.stack import Identity
from glue.transport import Transport
from tests.simulation.oracle import Entry, Life, Listener, Oracle

SAFETY = 3.0, 12.0  # virtual seconds under faults, at least and at most
LIVENESS = 15.0  # virtual seconds until everything is as if nothing had ever happened
TOPICS = 3  # of each endpoint
RECLASSED = 0.02  # chance that a message is of another class than those before it on its topic
STEADY = 0.1  # share of worlds in which all publish evenly, and slow hosts stop for longer than their lease
SMALL, LARGE = (100, 0.02), (150_000, 0.3)  # bytes of a message there, and seconds between two of them


class Party:
    """One endpoint of the swarm through all its lives."""

    def __init__(self, swarm: Swarm, number: int, **settings: Any) -> None:
        world, random = swarm.world, swarm.random
        self.swarm = swarm
        self.oracle = swarm.oracle
        self.name = f"party{number}"
        self.topics = [f"swarm/{self.name}/{n}" for n in range(TOPICS)]
        self.classes = {topic: swarm.chance.choice(tuple(PRIORITIES)) for topic in self.topics}
        self.interests = random.sample(["swarm/#", "swarm/+/0", "swarm/party0/#", "+/+/1"], random.choice((1, 1, 2)))
        if swarm.is_steady:
            self.interests = ["swarm/#"]
        self.transports: list[Transport] = []
        self.fading: SimulatedSubscription | None = None
        self.endpoint: SimulatedEndpoint = world.endpoint(
            self.name,
            offset=random.uniform(0, 1e6),
            drift=random.choice((0.0, random.uniform(-0.05, 0.05))),
            transport=self.new_transport,
            **settings,
        )
        self.endpoint.on_peer_removed = self.lost
        self.life: Life
        self.begin()

    def new_transport(self, who: Identity) -> Transport:
        parity = self.swarm.chance.choice((None, None, 0.0, 0.3))
        self.transports.append(Transport(endpoint_id=who.endpoint_id, parity=parity))
        return self.transports[-1]

    def begin(self) -> None:
        self.life = self.endpoint.id, self.endpoint.incarnation
        self.listeners: dict[str, Listener] = {}
        self.endpoint.on_gap = self.miss
        for pattern in self.interests:
            self.listen(pattern)

    def listen(self, pattern: str) -> SimulatedSubscription:
        self.listeners[pattern] = Listener(self.oracle, self.life)
        return self.endpoint.subscribe(pattern, self.listeners[pattern])

    def miss(self, gap: Gap) -> None:
        self.swarm.gaps[gap.cause] += gap.count
        self.listeners[gap.pattern].miss(gap)

    def check_accounting(self, is_over: bool = False) -> None:
        """What became of all messages adds up, at both ends; once all is over, nothing is on its way."""
        accounting = self.endpoint.accounting
        assert accounting.sending == self.transports[-1].unfinished, f"{self.name}: {accounting}"
        assert not is_over or accounting.sending == 0, f"{self.name}: {accounting}"
        assert accounting.waiting == 0, f"{self.name}: {accounting}"
        for listener in self.listeners.values():
            listener.check_best_effort()

    def lost(self, peer: Peer) -> None:
        self.oracle.part(self.life, (peer.id, peer.incarnation))

    def publish(self, topic: str, size: int, reliability: Reliability = "reliable", retain: bool = False) -> None:
        lives = {peer.id: (peer.id, peer.incarnation) for peer in self.endpoint.peers}
        takers = {lives[id] for id in self.endpoint.subscribers(topic)}
        payload = self.oracle.payload(self.life, topic, size)
        if self.swarm.chance.random() < RECLASSED:
            self.classes[topic] = self.swarm.chance.choice(tuple(PRIORITIES))
        try:
            self.endpoint.publish(topic, payload, retain=retain, reliability=reliability, priority=self.classes[topic])
        except WouldBlockError:
            return
        entry = Entry(size, reliability == "reliable", retain, takers)
        takers_that_want = {party.life for party in self.swarm.parties if party.wants(topic)} & takers
        self.oracle.published(self.life, topic, entry, takers_that_want if entry.is_reliable else set())

    def end(self, how: Callable[[], object]) -> None:
        """Crash, or leave."""
        self.oracle.bury(self.life)
        how()

    def restart(self) -> None:
        if not self.endpoint.is_running:
            self.endpoint.restart()
            self.begin()

    def change_interest(self) -> None:
        """Subscribe to everything, or no longer."""
        if self.fading is None or self.fading.closed:
            self.fading = self.listen("#")
        else:
            self.fading.close()
            self.oracle.remit_topics(self.life, lambda topic: not self.wants(topic))

    def wants(self, topic: str) -> bool:
        """Whether any of its subscriptions is to this topic."""
        is_fading = self.fading is not None and not self.fading.closed
        return is_fading or any(matches(pattern, topic) for pattern in self.interests)


def matches(pattern: str, topic: str) -> bool:
    """For the patterns of the swarm."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted, levels = wanted[:-1], levels[: len(wanted) - 1]
    return len(wanted) == len(levels) and all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


class Swarm:
    """A world, its parties, and what befalls them."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random: Random = self.world.random("swarm")
        self.chance: Random = self.world.random("classes, parity and distances")
        self.oracle = Oracle()
        random = self.random
        settings = {"announce_interval": random.choice((0.2, 1.0)), "lease_intervals": random.choice((3.0, 5.0))}
        self.is_over = False
        self.gaps: Counter[str] = Counter()  # messages that subscriptions were told to miss
        self.is_steady = self.chance.random() < STEADY
        if self.is_steady:
            settings = {"announce_interval": 0.4, "lease_intervals": 4.0}
        else:
            self.world.network.set_conditions(self.weather())
        count = random.choice((4, 5) if self.is_steady else (2, 2, 3, 4, 5))
        self.parties = [Party(self, number, **settings) for number in range(count)]
        self.volume = 10 ** random.uniform(1.5, 4.5)  # bytes of a large message
        self.pace = 10 ** random.uniform(-2.0, -0.5)  # seconds between bursts of one party
        self.trouble = 10 ** random.uniform(-1.5, 0.7)  # seconds between misfortunes
        self.lease = settings["announce_interval"] * settings["lease_intervals"]
        for party in self.parties:
            party.endpoint.host.turn_time = self.chance.choice((0.03, 0.1) if self.is_steady else (0.0, 0.003, 0.03))
        kinds = [self.partition, self.isolate, self.cut_one_way, self.pause, self.crash, self.unplug, self.warp]
        kinds += [self.leave, self.change_weather, self.change_interest, self.set_wall_clock]
        self.kinds: list[Callable[[], object]] = [self.heal, *random.sample(kinds, random.randint(1, len(kinds)))]
        if self.is_steady:
            self.kinds, self.trouble = [self.stop], 1.0
            loss = Conditions(loss=self.chance.choice((0.0, 0.05)))
            self.world.network.set_conditions(loss, destination=self.parties[0].endpoint.host)

    # --------------------------------------------------------------------------------------------- weather

    def weather(self) -> Conditions:
        """How bad the network is; each fault plays a part in half of the worlds."""
        random = self.random

        def perhaps(value: float) -> float:
            return random.choice((0.0, value))

        return Conditions(
            loss=perhaps(random.uniform(0, 0.3)),
            burst=random.choice((None, None, Burst(enter=random.uniform(0, 0.02), leave=random.uniform(0.05, 0.5)))),
            duplicate=perhaps(random.uniform(0, 0.5)),
            delay=10 ** random.uniform(-4, -2) * self.chance.choice((1, 1, 10)),
            jitter=perhaps(10 ** random.uniform(-4, -1.3)),
            reorder=perhaps(random.uniform(0, 0.3)),
            rate=random.choice((None, None, 10 ** random.uniform(5.5, 8))),
        )

    # ---------------------------------------------------------------------------------------- what befalls

    def party(self) -> Party:
        return self.random.choice(self.parties)

    def later(self, longest: float, action: Callable[[], object]) -> None:
        self.world.after(self.random.uniform(0, longest), action)

    def partition(self) -> None:
        hosts = [party.endpoint.host for party in self.parties]
        self.random.shuffle(hosts)
        self.world.network.partition(hosts[: self.random.randint(1, len(hosts))])
        self.later(8.0, self.heal)

    def isolate(self) -> None:
        self.world.network.partition([self.party().endpoint.host])
        self.later(8.0, self.heal)

    def cut_one_way(self) -> None:
        one, other = self.random.sample(self.parties, 2)
        self.world.network.block(one.endpoint.host, other.endpoint.host)
        self.later(8.0, self.heal)

    def heal(self) -> None:
        self.world.network.heal()

    def pause(self) -> None:
        party = self.party()
        party.endpoint.pause()
        self.later(8.0, party.endpoint.resume)

    def stop(self) -> None:
        """Pause for longer than the lease, so that the others lose touch while they go on."""
        party = self.party()
        if not party.endpoint.host.is_paused:
            party.endpoint.pause()
            self.world.after(self.lease * self.chance.uniform(1.1, 2.0), party.endpoint.resume)

    def crash(self) -> None:
        party = self.party()
        party.end(party.endpoint.crash)
        self.later(8.0, party.restart)

    def leave(self) -> None:
        party = self.party()
        party.end(party.endpoint.close)
        self.later(8.0, party.restart)

    def unplug(self) -> None:
        host = self.party().endpoint.host
        host.take_down()
        self.later(8.0, host.bring_up)

    def warp(self) -> None:
        jump = self.random.choice((0.0, self.random.uniform(0, 20)))
        self.party().endpoint.host.adjust_clock(drift=self.random.uniform(-0.05, 0.05), jump=jump)

    def set_wall_clock(self) -> None:
        self.party().endpoint.host.wall_offset = self.random.choice((0, 3600, -3600, 3e8, -3e8))

    def change_weather(self) -> None:
        one, other = self.random.sample(self.parties, 2)
        self.world.network.set_conditions(self.weather(), source=one.endpoint.host, destination=other.endpoint.host)

    def change_interest(self) -> None:
        party = self.party()
        if party.endpoint.is_running and not party.endpoint.host.is_paused:
            party.change_interest()

    # --------------------------------------------------------------------------------------------- traffic

    def burst(self, party: Party) -> None:
        """One party publishes a little, or much, and will again."""
        random = self.random
        if self.is_over:
            return
        self.world.after(random.expovariate(1 / self.pace), partial(self.burst, party))
        if not party.endpoint.is_running or party.endpoint.host.is_paused:
            return
        topic = random.choice(party.topics)
        choices: tuple[Reliability, ...] = ("reliable", "reliable", "reliable", "best-effort")
        reliability = random.choice(choices)
        for _ in range(random.choice((1, 1, 2, 20))):
            size = int(random.choice((random.uniform(1, 100), random.uniform(1, self.volume))))
            party.publish(topic, size, reliability, retain=random.random() < 0.1)

    def flow(self, party: Party, topic: str, size: int, interval: float) -> None:
        """One party publishes evenly, as long as it is not stopped."""
        if not self.is_over:
            self.world.after(interval, partial(self.flow, party, topic, size, interval))
            if not party.endpoint.host.is_paused:
                party.publish(topic, size)

    def misfortune(self) -> None:
        """Something happens to somebody."""
        if not self.is_over:
            self.world.after(self.random.expovariate(1 / self.trouble), self.misfortune)
            self.random.choice(self.kinds)()

    # ---------------------------------------------------------------------------------------------- phases

    def run(self) -> str:
        """Both phases; returns the hash of all that happened. Raises AssertionError for a broken promise."""
        for party in self.parties:
            if self.is_steady:
                for topic, kind in zip(party.topics, (SMALL, LARGE), strict=False):
                    self.world.after(self.random.uniform(0, 1), partial(self.flow, party, topic, *kind))
            else:
                self.world.after(self.random.uniform(0, 1), partial(self.burst, party))
        self.world.after(self.random.uniform(0, 2), self.misfortune)
        self.world.run(SAFETY[1] if self.is_steady else self.random.uniform(*SAFETY))
        for party in self.parties:
            party.check_accounting()
        self.make_peace()
        self.demand("all know each other", self.is_complete)
        self.demand("all that is owed arrives", lambda: not self.oracle.open)
        for party in self.parties:
            for topic in party.topics:
                party.publish(topic, 100)
        self.demand("what is published now arrives", lambda: not self.oracle.open)
        self.demand("nothing is left to do", self.is_idle)
        for party in self.parties:
            party.check_accounting(is_over=True)
        self.welcome()
        return self.world.trace_hash

    def welcome(self) -> None:
        """What a newcomer publishes at once reaches all who want it."""
        for party in self.parties:
            party.endpoint.subscribe("$greeting")  # no wildcard matches it
        self.world.run(0.5)
        receipt = self.world.endpoint("newcomer").publish("$greeting", "hello", receipt=True)
        self.demand("what a newcomer publishes at once arrives", lambda: receipt.complete)
        assert sorted(receipt.delivered) == sorted(party.name for party in self.parties), receipt

    def make_peace(self) -> None:
        """End all faults."""
        self.is_over = True
        self.world.network.heal()
        self.world.network.clear_conditions()
        for party in self.parties:
            party.endpoint.host.bring_up()
            party.endpoint.resume()
            party.restart()

    def demand(self, what: str, condition: Callable[[], object]) -> None:
        if not self.world.run_until(condition, LIVENESS):
            raise AssertionError(f"within {LIVENESS} s of peace: {what}; {self.describe()}")

    def is_complete(self) -> bool:
        """Whether each party knows the present life of each other, and what it wants."""
        lives = {party.life for party in self.parties}
        return all(
            {party.life, *((peer.id, peer.incarnation) for peer in party.endpoint.peers)} == lives
            and all(
                {other.endpoint.id for other in self.parties if other is not party and other.wants(topic)}
                == set(party.endpoint.subscribers(topic))
                for topic in party.topics
            )
            for party in self.parties
        )

    def is_idle(self) -> bool:
        """Whether no party has data or timers for any, but those of discovery."""
        return all(party.endpoint.backlog == 0 and party.transports[-1].deadline == inf for party in self.parties)

    def describe(self) -> str:
        """Who is how."""
        return (
            "; ".join(
                f"{party.life} backlog {party.endpoint.backlog}, knows {[peer.name for peer in party.endpoint.peers]}, "
                f"{dict(party.transports[-1].statistics)}"
                for party in self.parties
            )
            + f"; open: { ({k: v[:5] for k, v in self.oracle.open.items()}) }"
        )


def main(first: int, stop: int) -> None:
    """Hunt through seeds."""
    for seed in range(first, stop):
        swarm = Swarm(seed)
        try:
            swarm.run()
        except Exception:
            print(f"seed {seed} at virtual time {swarm.world.time}", flush=True)
            traceback.print_exc(limit=-3)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
