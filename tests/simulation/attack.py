"""A swarm of attacks: a stranger sends what it likes beside honest traffic, all of it drawn from one seed.

The attacker has a host of its own, overhears everything, and sends from its own address: forged announcements,
goodbyes, interest epochs, acknowledgements and data, with likely, random and huge numbers, in the names of the parties
and in others; mutated, truncated and spliced copies of what it overheard; replays. It answers nothing. What would end,
deafen or replace a party it sends from the party's own address, too.

What is promised: honest streams lose nothing and stay in order, no queue stands still for good, nobody is taken for
gone, and at a bounded time after the last forged datagram all is as if there had been none.

    python -m tests.simulation.attack 0 1000    # hunt through these seeds

`python -m tests.namespaces.flood` sends mutated datagrams to real processes for minutes.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial
from math import inf
from random import Random
from typing import Any

import orjson

from glue import Message, Peer, WouldBlockError
from glue.contract import Event, Request, Train
from glue.endpoint.core import id_of
from glue.simulation import Conditions, Crossing, SimulatedEndpoint, World

HUGE = (1 << 53) - 1
OVERHEARD = 512  # datagrams that the attacker remembers
RATE = 300  # datagrams a second
QUIET, ATTACK, PEACE = 1.0, 4.0, 15.0
"""Virtual seconds: until all know each other; of the attack; after it, more than the lease of a stranger."""
PACE = 0.02  # seconds between the messages of a party
WORDS = ("announce", "call", "answer", "probe", "want", "operations", "introduce", "goodbye")


def mutate(original: bytes, random: Random) -> bytes:
    """Return a datagram with some bytes changed, removed or inserted, mostly digits of the header."""
    data = bytearray(original)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(1 + min(len(data), random.choice((40, 120, 1500))))
        data[at : at + random.choice((0, 1, 1))] = random.choice((b"", b"9", b"0", b"1", b",", b"-"))
    return bytes(data)


class Silent:
    """The attacker's machine: it takes what arrives and says nothing by itself."""

    deadline = inf

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        return [], []


class Party:
    """An honest endpoint that publishes numbers on a topic of its own, and hears those of the others."""

    def __init__(self, world: World, number: int, **settings: Any) -> None:
        self.name = f"party{number}"
        self.topic = f"swarm/{number}"
        self.said = 0
        self.heard: dict[str, list[int]] = {}
        self.lost: list[Peer] = []
        self.endpoint: SimulatedEndpoint = world.endpoint(self.name, **settings)
        self.endpoint.on_peer_removed = self.lost.append
        self.endpoint.subscribe("swarm/#", self.hear)

    def hear(self, message: Message) -> None:
        self.heard.setdefault(message.topic, []).append(int(bytes(message.payload).rstrip(b".")))

    def publish(self, size: int) -> None:
        try:
            self.endpoint.publish(self.topic, b"%d" % self.said + b"." * size)
        except WouldBlockError:
            return
        self.said += 1


class Attack:
    """A world with honest parties and an attacker."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.random = world.random("attack")
        self.overheard: list[bytes] = []
        self.parties = [Party(world, number, **self.settings()) for number in range(self.random.choice((2, 3, 4)))]
        self.attacker = world.add(Silent())
        world.network.set_conditions(Conditions(delay=0.0005, jitter=self.random.choice((0.0, 0.0005))))
        world.network.observer = self.overhear
        self.size = self.random.choice((0, 100, 5000))
        self.ends_at = 0.0
        kinds = [self.stranger, self.announcement, self.goodbye, self.epoch, self.restart, self.acknowledgement]
        kinds += [self.data, self.mutated, self.mutated, self.truncated, self.spliced, self.replayed, self.operations]
        self.spoofed = [self.announcement, self.goodbye, self.epoch, self.restart]
        self.kinds: list[Callable[[], bytes]] = self.random.sample(kinds, self.random.randint(1, len(kinds)))

    def settings(self) -> dict[str, Any]:
        """The settings of the parties."""
        return {}

    def overhear(self, crossing: Crossing) -> None:
        """The attacker remembers some of what passes."""
        if crossing.source == self.attacker.address:
            return
        if len(self.overheard) < OVERHEARD:
            self.overheard.append(crossing.data)
        else:
            self.overheard[self.random.randrange(OVERHEARD)] = crossing.data

    # ---------------------------------------------------------------------------------------- what is forged

    def number(self) -> int:
        """A number as a forger would choose it: likely, random or huge."""
        random = self.random
        return random.choice((0, 1, 2, random.randrange(100), random.randrange(5000), random.randrange(HUGE), HUGE))

    def datagram(self, who: tuple[str, int], header: dict[str, object], body: bytes = b"") -> bytes:
        return orjson.dumps({"glue": [1, 1, *who, self.number()], **header}) + b"\n" + body

    def victim(self) -> tuple[str, int]:
        """The id and incarnation of a party."""
        endpoint = self.random.choice(self.parties).endpoint
        return endpoint.id, endpoint.incarnation

    def discovery(self, who: tuple[str, int], kind: str, body: bytes = b"") -> bytes:
        token = self.random.choice((0, self.number()))
        return self.datagram(who, {"discovery": [token, self.number(), None, None, kind]}, body)

    def body(self, name: str, **changes: object) -> bytes:
        usual = {"name": name, "interval_ms": 1000, "epoch": 0, "version": 1, "previous": 0, "base": 0}
        return orjson.dumps({**usual, "operations": ["+#"], **changes})

    def stranger(self) -> bytes:
        """A silent subscriber to everything, who announces an interval of an hour."""
        name = f"stranger {self.random.randrange(100)}"
        return self.discovery((id_of(name), 1), "announce", self.body(name, interval_ms=3_600_000))

    def announcement(self) -> bytes:
        """What a party does not say of itself."""
        changes = {key: self.number() for key in ("interval_ms", "epoch", "previous") if self.random.random() < 0.5}
        return self.discovery(self.victim(), self.random.choice(WORDS), self.body("party0", **changes))

    def epoch(self) -> bytes:
        """A party wants to hear nothing, it is said, from the last of all epochs on."""
        body = self.body("party0", epoch=HUGE, version=0, operations=[])
        return self.discovery(self.victim(), "announce", body)

    def operations(self) -> bytes:
        body = orjson.dumps({"epoch": 0, "first": self.random.choice((0, 1)), "last": True, "operations": ["-swarm/#"]})
        return self.discovery(self.victim(), "operations", body)

    def goodbye(self) -> bytes:
        return self.discovery(self.victim(), "goodbye")

    def restart(self) -> bytes:
        """A party has a new life, it is said."""
        id, incarnation = self.victim()
        kind = self.random.choice(("announce", "goodbye"))
        return self.discovery((id, self.random.choice((incarnation + 1, HUGE))), kind, self.body("party0"))

    def acknowledgement(self) -> bytes:
        entry = ["ack", self.number(), self.number(), self.random.randrange(1, 6), self.number()]
        return self.datagram(self.victim(), {"transport": entry}, b"[]")

    def data(self) -> bytes:
        random = self.random
        kind = random.choice(("data", "data", "group", "skip", "best"))
        numbers = [self.number() for _ in range({"skip": 0, "best": 1}.get(kind, 5))]
        channel = [] if kind == "best" else [random.choice((1, 2, 3, self.number()))]
        return self.datagram(self.victim(), {"transport": [kind, *numbers, *channel, self.number()]}, b"forged")

    def replayed(self) -> bytes:
        return self.random.choice(self.overheard)

    def mutated(self) -> bytes:
        return mutate(self.replayed(), self.random)

    def truncated(self) -> bytes:
        data = self.replayed()
        return data[: self.random.randrange(1, len(data))]

    def spliced(self) -> bytes:
        return self.replayed().partition(b"\n")[0] + b"\n" + self.replayed().partition(b"\n")[2]

    # ------------------------------------------------------------------------------------------------ phases

    def strike(self) -> None:
        """Send one forged datagram to all, or to one party; and another one soon."""
        if self.world.time >= self.ends_at:
            return
        self.world.after(self.random.expovariate(RATE), self.strike)
        kind = self.random.choice(self.kinds)
        data = kind()[:1472]
        host, other = (party.endpoint.host for party in self.random.sample(self.parties, 2))
        if kind in self.spoofed and self.random.random() < 0.5:
            host.receive(other.address, data, len(data))
        else:
            self.world.network.transmit(
                self.attacker, Train(self.random.choice(((), host.address)), data, max(1, len(data)))
            )

    def talk(self, party: Party, until: float) -> None:
        if self.world.time < until:
            self.world.after(PACE, partial(self.talk, party, until))
            party.publish(self.size)

    def run(self) -> str:
        """All phases; returns the hash of all that happened. Raises AssertionError for a broken promise."""
        self.world.run(QUIET)
        self.ends_at = self.world.time + ATTACK
        for party in self.parties:
            self.talk(party, self.ends_at + 1.0)
        self.world.after(0.1, self.strike)  # by then there is something to overhear
        self.world.run(ATTACK + PEACE)
        for party in self.parties:
            self.check(party)
        return self.world.trace_hash

    def check(self, party: Party) -> None:
        wanted = {other.topic: [*range(other.said)] for other in self.parties}
        state = f"{party.name}: {dict(party.endpoint.statistics)}"
        assert party.said >= (ATTACK + 1.0) // PACE, f"publishing stood still at {party.said}; {state}"
        for topic, numbers in wanted.items():
            heard = party.heard.get(topic, [])
            assert heard == numbers, f"{topic}: {len(numbers)} said, {len(heard)} heard by {state}"
        ids = {other.endpoint.id for other in self.parties}
        gone = [peer for peer in party.lost if peer.id in ids]
        assert not gone, f"{party.name} took {gone} for gone"
        assert {peer.id for peer in party.endpoint.peers} == ids - {party.endpoint.id}, state
        assert party.endpoint.backlog == 0, state


def main(first: int, stop: int) -> None:
    """Hunt through seeds."""
    for seed in range(first, stop):
        attack = Attack(seed)
        try:
            attack.run()
        except Exception:
            kinds = sorted({kind.__name__ for kind in attack.kinds})
            print(f"seed {seed} at virtual time {attack.world.time} by {kinds}", flush=True)
            traceback.print_exc(limit=-2)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
