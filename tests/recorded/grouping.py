"""Recorded minutes of groups of one model alone: what each replica answers, sends, counts and waits for.

A seed decides what is asked where, what arrives, and what befalls disks, clocks and replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from glue.contract import Delivery, Publication
from glue.errors import CorruptStorageError
from glue.model import ModelOptions
from glue.model.consensus import ConsensusSettings
from glue.model.group import ModelGroup
from glue.model.mergeable import Prefixes
from glue.model.names import Names, id_of
from glue.model.questions import (
    Question,
    Read,
    Remove,
    Synchronize,
    Transfer,
    Unwatch,
    WatchPattern,
    Write,
)
from glue.model.requests import Ask, OpenModel
from glue.model.state import ABSENT, AcquireLock, Delete, Expect, ExpectRevision, ReleaseLock, Set, Update
from glue.model.storage import FileStorage, MemoryStorage, Storage
from glue.simulation.disk import SimulatedDisk
from tests.recorded.minutes import Minutes

NAME, SCOPE = "m", "1/m"
PEOPLE = ("attic", "cellar", "kitchen", "hall")
STEPS = 350
NUMBERS = ("_calls", "_reads", "_watches")


class Member:
    """One replica: its group, its disk, and what it was asked."""

    def __init__(self, run: Run, name: str, number: int) -> None:
        self.name, self.id = name, id_of(name)
        self.is_observer = number == run.voters
        self.disk = SimulatedDisk(Random(f"disk {name}")) if number % 2 == 0 else None
        self.lives = self.asked = 0
        self._run = run
        self.begin()

    def begin(self) -> None:
        """Begin a life with what the disk has."""
        self.lives += 1
        rng = Random(f"{self.name} {self.lives}")
        storage: Storage = MemoryStorage(rng) if self.disk is None else FileStorage(self.disk, rng)
        try:
            stored = storage.load()
        except CorruptStorageError:
            assert isinstance(storage, FileStorage)
            stored = storage.begin_anew()
        settings = self._run.settings(self.is_observer)
        options = ModelOptions(
            consensus=settings, storage=storage, stored=stored, mergeable=Prefixes({}), delta_file=None, deltas=[],
            names={},
        )  # fmt: skip
        names = Names()
        names.learn_all({id_of(name): name for name in PEOPLE[:3]})
        opened = OpenModel(NAME, options, 0.0)
        self.group = ModelGroup(opened, SCOPE, self.id, self.lives, rng, self._run.now, names)
        self.topics = [one.patterns[0] for one in self.group.open() if hasattr(one, "patterns")]
        self._state = ""

    def counted(self) -> Counter[str]:
        """All that was counted in this life."""
        return self.group.statistics + self.group.replica.statistics

    def news(self, now: float) -> str:
        """What is different from when this was asked before; empty if nothing is."""
        group = self.group
        lengths = [len(getattr(group, name)) for name in NUMBERS]
        state = (
            f"{group.status} {lengths} {group.deadline} {group.backlog} {group.size} {group.is_voter} "
            f"{group.failure(now)} {sorted(self.counted().items())}"
        )
        is_same, self._state = state == self._state, state
        return "" if is_same else f"  {self.name}: {state} {group.age(now):.4f}"


class Run:
    """Replicas, and the messages between them."""

    def __init__(self, seed: int, minutes: Minutes) -> None:
        self.random = Random(seed)
        self.minutes = minutes
        self.now = 100.0
        self.voters = 3 if seed % 2 else 2
        self.members = [Member(self, name, number) for number, name in enumerate(PEOPLE[: self.voters + 1])]
        self.cut: set[str] = set()
        self.delay = 0.002
        self.under_way: list[tuple[float, int, Member, Delivery]] = []
        self.sent = 0

    def settings(self, is_observer: bool) -> ConsensusSettings:
        """Settings with little room, which a short run reaches."""
        return ConsensusSettings(
            voters=self.voters, observer=is_observer, election_timeout=1.0, heartbeat=0.3, ticket_timeout=2.0,
            compact_after=3000, trailing=3, append_limit=600, in_flight_limit=2000, uncommitted_limit=4000,
            snapshot_piece=300, ticket_limit=40,
        )  # fmt: skip

    def go(self) -> Counter[str]:
        """Take all steps; return what was counted in the last lives."""
        acts: dict[Callable[[], str], float] = {
            self.write: 12, self.read: 4, self.lock: 4, self.wait: 25, self.watch: 1, self.part: 1, self.heal: 1.5,
            self.crash: 0.7, self.fill: 0.7, self.manage: 0.7, self.flood: 0.5, self.garble: 1, self.retire: 0.1,
        }  # fmt: skip
        self.pass_time(3.0)
        for _ in range(STEPS):
            (act,) = self.random.choices([*acts], [*acts.values()])
            self.minutes.say(f"{self.now:.4f} {act()}")
            self.look()
        self.heal()
        self.minutes.say(self.pass_time(6.0))
        self.look()
        totals = Counter[str]()
        for member in self.members:
            totals.update(member.counted())
            found = [(c.key, c.document, c.index, c.live) for c in member.group.local("#")]
            self.minutes.say(f"{member.name} {found} {self.told(member.group.close()[0])}")
        return totals

    def look(self) -> None:
        for member in self.members:
            if news := member.news(self.now):
                self.minutes.say(news)

    # ------------------------------------------------------------------------------------------- questions

    def ask(self, member: Member, question: Question, timeout: float = 3.0) -> str:
        member.asked += 1
        token: Any = f"{member.name}{member.asked}"
        return self.told(member.group.ask(self.now, Ask(NAME, token, question, timeout, self.now)))

    def told(self, up: list[Any]) -> str:
        """Answers, and deliveries to watches."""
        found = []
        for one in up:
            if isinstance(one, Delivery):
                changes = [(c.key, c.document, c.index, c.live) for c in one.payloads]
                found.append(f"{one.tokens} {one.sequence} {one.publisher_id[:2]} {one.incarnation} {changes}")
            else:
                entries = getattr(one.answer, "entries", None)
                answer = one.answer if entries is None else [(c.key, c.document, c.index) for c in entries]
                found.append(f"{one.token} {answer}")
        return "; ".join(found)

    def write(self) -> str:
        random, member = self.random, self.random.choice(self.members)
        key = f"k/{random.randrange(5)}"
        operations: list[Any] = random.choice((
            [Set(key, random.choice((1, "text", {"a": 1}, None)))], [Update(key, {"a": random.choice((1, None))})],
            [Delete(key)], [Expect(key, random.choice((1, ABSENT))), Set(key, 2)],
            [ExpectRevision(key, 9), Delete(key)], [Set(key, "x" * 300), Set("k/9", 1)],
            [Set(key, 1), Update("sum", {member.name: random.randrange(9)})],
        ))  # fmt: skip
        patience, times = random.choice((0.05, 0.5, 3.0)), random.choice((1, 1, 3))
        told = [self.ask(member, Write(operations), patience) for _ in range(times)]
        return f"{member.name} writes {repr(operations).replace(repr(ABSENT), 'nothing'):.120}: {told}"

    def read(self) -> str:
        member = self.random.choice(self.members)
        pattern = self.random.choice(("k/+", "k/1", "#", "none"))
        return f"{member.name} reads {pattern}: {self.ask(member, Read(pattern), self.random.choice((0.05, 3.0)))}"

    def lock(self) -> str:
        member, random = self.random.choice(self.members), self.random
        door = f"door{random.randrange(2)}"
        operation: Any = ReleaseLock(door, member.name)
        if random.random() < 0.7:
            operation = AcquireLock(door, member.name, random.choice((300, 1500, 9000)))
        told = self.ask(member, Write([operation], random.random() < 0.5), random.choice((0.5, 4.0)))
        return f"{member.name} {operation}: {told}"

    def watch(self) -> str:
        member, token = self.random.choice(self.members), self.random.randrange(3)
        question: Any = Unwatch(token) if self.random.random() < 0.3 else WatchPattern(token, "k/#")
        return f"{member.name} {type(question).__name__} {token}: {self.ask(member, question)}"

    def manage(self) -> str:
        """The leadership is handed over, or a member is removed; and what this model does not have is asked for."""
        member, other = self.random.choice(self.members), self.random.choice(self.members)
        question = self.random.choice((Transfer(other.id), Transfer(other.id), Remove(other.id), Synchronize()))
        return f"{member.name} {type(question).__name__} {other.name}: {self.ask(member, question)}"

    def flood(self) -> str:
        """More than there is room for at once."""
        member = self.random.choice(self.members)
        told = [self.ask(member, Write([Set(f"f/{number % 3}", "y" * 90)]), 1.0) for number in range(60)]
        return f"{member.name} asks {len(told)}: {[one for one in told if one]} {self.turn(member)}"

    # --------------------------------------------------------------------------------------------- messages

    def turn(self, member: Member) -> str:
        """Give a replica what has come for it, and its time."""
        due = [one for one in self.under_way if one[2] is member and one[0] <= self.now]
        self.under_way = [one for one in self.under_way if one not in due]
        up, down = member.group.receive(self.now, [one[3] for one in due])
        return f"{member.name} {len(due)}, {self.told(up)}, {[self.send(member, one) for one in down]}"

    def send(self, member: Member, request: Any) -> str:
        assert isinstance(request, Publication)
        body = request.payloads[0]
        for other in self.members:
            luck = self.random.random()
            if other is not member and request.topic in other.topics and not {member.name, other.name} & self.cut:
                for _ in range(0 if luck < 0.04 else 2 if luck > 0.97 else 1):
                    self.sent += 1
                    at = self.now + self.delay * (1.0 + self.random.random())
                    delivery = Delivery(request.topic, [body], None, member.name, member.id, 1, 1, 0.0, False, ())
                    self.under_way.append((at, self.sent, other, delivery))
        options = request.options
        what = f"{options.lifespan} {options.reliable:d}{options.ordered:d}"
        return f"{request.topic.rpartition('/')[2][:4]} {what} {len(body)} {crc32(body):08x}"

    def pass_time(self, seconds: float) -> str:
        """Let time pass: each replica is called when something has come, or when it is due."""
        end, told = self.now + seconds, list[str]()
        self.under_way.sort(key=lambda one: one[:2])
        while len(told) < 3000:
            due = [(one[0], one[2]) for one in self.under_way[:1]]
            due += [(max(member.group.deadline, self.now), member) for member in self.members]
            at, member = min(due, key=lambda one: one[0])
            if at > end:
                break
            self.now = max(self.now, at)
            told.append(self.turn(member))
            self.under_way.sort(key=lambda one: one[:2])
        self.now = end
        return f"{len(told)} turns {crc32(repr(told).encode()):08x} {' '.join(told)[:150]}"

    def wait(self) -> str:
        return self.pass_time(self.random.choice((0.0, 0.001, 0.01, 0.1, 0.4, 1.3)))

    # ------------------------------------------------------------------------------------- what else happens

    def part(self) -> str:
        self.cut = {self.random.choice(self.members).name}
        self.delay = self.random.choice((0.0005, 0.002, 0.05))
        return f"without {self.cut}, {self.delay}"

    def heal(self) -> str:
        self.cut, self.delay = set(), 0.002
        return "together"

    def crash(self) -> str:
        member = self.random.choice(self.members)
        if member.disk is not None:
            member.disk.crash()
        member.begin()
        return f"{member.name} begins life {member.lives}"

    def fill(self) -> str:
        """A disk is full for a while."""
        member = self.random.choice(self.members)
        if member.disk is None:
            return "no disk"
        member.disk.is_full = True
        told = [self.write(), self.pass_time(self.random.choice((0.1, 1.5))), self.ask(member, Read("#"))]
        self.look()
        member.disk.is_full = False
        return f"{member.name} was full: {told} {self.pass_time(1.2)}"

    def garble(self) -> str:
        """Messages that are none, and names."""
        member, other = self.random.choice(self.members), self.random.choice(self.members)
        body: Any = self.random.choice((b"junk", 5, b'["names",["guest"]]', b'["names",7]', b"[]", {}))
        if self.under_way and self.random.random() < 0.5:
            body = self.random.choice(self.under_way)[3].payloads[0][:-1]
        delivery = Delivery(member.topics[0], [body, body], None, other.name, other.id, 1, 1, 0.0, False, ())
        up, down = member.group.receive(self.now, [delivery])
        return f"{body!r:.80}: {self.told(up)} {[self.send(member, one) for one in down]} {member.group.names.of('x')}"

    def retire(self) -> str:
        """A replica closes the model, and opens it again."""
        member = self.random.choice(self.members)
        up, down = member.group.close()
        told = self.told(up)
        member.begin()
        return f"{member.name} closes: {told} {[getattr(one, 'token', None) for one in down]}"


def grouping(seeds: range) -> str:
    """Return the record of some seeds."""
    minutes, totals = Minutes(), Counter[str]()
    for seed in seeds:
        totals.update(Run(seed, minutes).go())
    return minutes.text() + "".join(f"{what}: {count}\n" for what, count in sorted(totals.items()))


GROUPING: dict[str, Callable[[], str]] = {
    "groups-three": partial(grouping, range(1, 4, 2)),
    "groups-two": partial(grouping, range(2, 5, 2)),
}
