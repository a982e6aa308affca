"""Recorded minutes of mergeable keys alone: replicas that write, lose each other's messages, crash and come back.

A seed decides who writes what, what arrives where, and what befalls clocks, disks and replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from glue.contract import Delivery, Publication
from glue.errors import ModelError, StorageError
from glue.model.mergeable import Prefixes
from glue.model.mergeable.context import Context
from glue.model.mergeable.part import Mergeable
from glue.model.mergeable.wire import Digest, Message, Pull, Push, decode_stored, encode
from glue.model.questions import Question, Read, Refused, Synchronize, Write
from glue.model.state import Delete, Expect, Pattern, Set, Update
from glue.model.storage.deltas import DELTAS, DeltaFile
from glue.simulation.disk import SimulatedDisk
from tests.recorded.minutes import Minutes

PREFIXES = Prefixes({"count/": "counter", "set/": "set", "reg/": "register", "multi/": "multi"})
OTHERS = Prefixes({"count/": "counter"})
NAMES = ("a", "b", "c", "d")
TOPIC = "$glue/model/m/merge"
STEPS = 260


class Replica:
    """One replica: its part of a model, its disk, and what it was asked."""

    def __init__(self, run: Run, name: str, is_durable: bool) -> None:
        self.name = name
        self.ahead = 0.0  # of its wall clock
        self.disk = SimulatedDisk(Random(f"disk {name}")) if is_durable else None
        self.statistics = Counter[str]()
        self.lives = 0
        self.asked = 0
        self._run = run
        self.begin()

    def begin(self) -> None:
        """Begin a life with what the disk has."""
        self.lives += 1
        file = None if self.disk is None else DeltaFile(self.disk)
        deltas = [] if file is None else [decode_stored(PREFIXES, data) for data in file.load()]
        self.part = Mergeable(
            PREFIXES, file, deltas, TOPIC, self.statistics, Random(f"{self.name} {self.lives}"), self._run.now,
            self._run.at + self.ahead,
        )  # fmt: skip
        self.part.store.is_watched = True
        self._counted = self.statistics.copy()
        self._state = ""

    def news(self) -> str:
        """What has changed since this was asked before; empty if nothing has."""
        store = self.part.store
        size = -1 if self.disk is None else self.disk.size(DELTAS)
        state = (
            f"{len(store)} {store.size} {store.mark:x} {store.version} {store.context.size} {self.part.deadline} {size}"
        )
        more = [f"{count} {what}" for what, count in sorted((self.statistics - self._counted).items())]
        is_same, self._state, self._counted = state == self._state and not more, state, self.statistics.copy()
        return "" if is_same else f"  {self.name}: {', '.join(more)} {state}"


class Run:
    """Replicas, and the messages between them."""

    def __init__(self, seed: int, minutes: Minutes) -> None:
        self.random = Random(seed)
        self.now, self.at = 50.0, 1_700_000_000.0
        self.minutes = minutes
        self.replicas = [Replica(self, name, number % 2 == 0) for number, name in enumerate(NAMES)]
        self.cut: set[str] = set()
        self.under_way: list[tuple[Replica, Delivery]] = []

    def go(self) -> Counter[str]:
        """Take all steps; return what was counted."""
        acts: dict[Callable[[], str], float] = {
            self.write: 12, self.turn: 16, self.wait: 8, self.read: 2, self.synchronize: 2, self.part: 1, self.heal: 1,
            self.crash: 1, self.forge: 1.5, self.fill: 0.5, self.shift: 1, self.meet: 1, self.ask_wrong: 1,
        }  # fmt: skip
        for _ in range(STEPS):
            (act,) = self.random.choices([*acts], [*acts.values()])
            self.minutes.say(f"{self.now:.4f} {act()}")
            for replica in self.replicas:
                if news := replica.news():
                    self.minutes.say(news)
        self.heal()
        for _ in range(60):
            self.now, self.at = self.now + 0.1, self.at + 0.1
            for replica in self.replicas:
                self.receive(replica)
        totals = Counter[str]()
        for replica in self.replicas:
            totals.update(replica.statistics)
            found = [(c.key, c.document, c.is_conflict) for c in replica.part.match(Pattern("#"))]
            self.minutes.say(f"{replica.name} has {found}", replica.news())
            self.minutes.say(f"{replica.name} {replica.part.conflicts('#')} {replica.part.end(Refused('over'))}")
        return totals

    # ------------------------------------------------------------------------------------------- questions

    def ask(self, replica: Replica, question: Question, timeout: float = 2.0) -> str:
        replica.asked += 1
        token: Any = f"{replica.name}{replica.asked}"
        try:
            if not replica.part.concerns(question):
                return f"{token}: not of this part"
            up, changes = replica.part.ask(self.now, self.at + replica.ahead, token, question, self.now + timeout)
        except (ModelError, StorageError) as error:
            return f"{token}: {error}"
        return f"{token}: {self.told(up)}, {self.changes(changes)}"

    def told(self, up: list[Any]) -> str:
        return str([(one.token, one.answer) for one in up])

    def changes(self, changes: list[Any]) -> str:
        return str([(one.key, one.document, one.index, one.live, one.is_conflict) for one in changes])

    def write(self) -> str:
        replica, random = self.random.choice(self.replicas), self.random
        operations = [self.operation() for _ in range(random.choice((1, 1, 1, 2, 3)))]
        told = self.ask(replica, Write(operations, False))
        return f"{replica.name} writes {operations}: {told}"

    def operation(self) -> Any:
        random = self.random
        kind, number = random.choice(("count", "set", "reg", "multi")), random.randrange(3)
        key = f"{kind}/{number}"
        if random.random() < 0.15:
            return Delete(key)
        if kind == "count":
            return Update(key, random.choice((1, -1, 5, 1000, 2**52)))
        if kind == "set":
            some = random.sample("pqrs", 2)
            return (
                Set(key, some)
                if random.random() < 0.3
                else Update(key, {one: random.choice((True, None)) for one in some})
            )
        if random.random() < 0.3:
            return Update(key, {random.choice("xy"): random.choice((1, None, "z"))})
        return Set(key, random.choice((1, None, "text", {"x": 1}, [1, 2])))

    def ask_wrong(self) -> str:
        """What is refused: other keys beside mergeable ones, keys twice, conditions, values of a wrong kind."""
        replica = self.random.choice(self.replicas)
        some: list[Any] = [
            Write([Set("plain", 1), Set("reg/1", 1)], False), Write([Set("plain", 1)], False), Read("#"), Read("reg/+"),
            Write([Set("reg/1", 1), Delete("reg/1")], False), Write([Expect("reg/1", 1)], False),
            Write([Set("count/1", 1)], False), Write([Update("count/1", 1.5)], False),
            Write([Set("set/1", "x")], False), Write([Update("set/1", {"x": False})], False),
            Write([Update("set/1", {"x" * 2000: True})], False),
            Write([Update("multi/1", {"x": "y" * (1 << 21)})], False), Write([Set("set/1", [1])], False),
        ]  # fmt: skip
        return f"{replica.name} {[self.ask(replica, one)[:200] for one in some]}"

    def read(self) -> str:
        pattern = self.random.choice(("count/#", "reg/+", "set/1", "multi/#", "reg/9"))
        return f"{pattern} {self.ask(self.random.choice(self.replicas), Read(pattern))}"

    def synchronize(self) -> str:
        return self.ask(self.random.choice(self.replicas), Synchronize(), self.random.choice((0.3, 2.0)))

    # --------------------------------------------------------------------------------------------- messages

    def receive(self, replica: Replica) -> str:
        """Give a replica what has come for it, and its time."""
        due = [delivery for to, delivery in self.under_way if to is replica]
        self.under_way = [one for one in self.under_way if one[0] is not replica]
        up: list[Any] = []
        try:
            changes, down = replica.part.receive(self.now, due, up)
        except StorageError as error:
            replica.begin()
            return f"{error}"
        sent = [self.send(replica, one) for one in down if isinstance(one, Publication)]
        return f"{replica.name} {len(due)} come, {self.told(up)}, {self.changes(changes)}, {sent}"

    def send(self, replica: Replica, publication: Publication) -> str:
        """Put a message on its way; some are lost, and some come twice."""
        body = publication.payloads[0]
        for other in self.replicas:
            is_for = publication.topic in other.part.topics(other.name) and other is not replica
            luck = self.random.random()
            if is_for and luck > 0.2 and not {replica.name, other.name} & self.cut:
                delivery = delivered(publication.topic, body, replica.name)
                self.under_way += [(other, delivery)] * (2 if luck > 0.9 else 1)
        kind = body.split(b",", 2)[1].decode()
        return f"{kind} {publication.topic} {publication.options.lifespan} {len(body)} {crc32(body):08x}"

    def turn(self) -> str:
        return self.receive(self.random.choice(self.replicas))

    def wait(self) -> str:
        seconds = self.random.choice((0.001, 0.004, 0.006, 0.05, 0.16, 0.5, 1.1, 7.0))
        self.now, self.at = self.now + seconds, self.at + seconds
        return "; ".join(self.receive(replica) for replica in self.replicas if replica.part.deadline <= self.now)

    # ------------------------------------------------------------------------------------- what else happens

    def part(self) -> str:
        self.cut = {self.random.choice(NAMES)}
        return f"without {self.cut}"

    def heal(self) -> str:
        self.cut = set()
        return "together"

    def crash(self) -> str:
        replica = self.random.choice(self.replicas)
        if replica.disk is not None:
            replica.disk.crash()
        replica.begin()
        return f"{replica.name} begins life {replica.lives}"

    def shift(self) -> str:
        replica = self.random.choice(self.replicas)
        replica.ahead = self.random.choice((0.0, 3.0, 9.99, 10.01, 3600.0, -50.0))
        return f"{replica.name} is {replica.ahead} s ahead"

    def meet(self) -> str:
        replica = self.random.choice(self.replicas)
        replica.part.meet(self.now)
        return f"{replica.name} meets"

    def fill(self) -> str:
        """A disk is full for a moment, or fails to sync."""
        replica = self.random.choice(self.replicas)
        if replica.disk is None:
            return "no disk"
        replica.disk.is_full = self.random.random() < 0.7
        replica.disk.fails_to_sync = not replica.disk.is_full
        told = [self.ask(replica, Write([Update("count/0", 1)], False)), self.receive(replica)]
        replica.disk.is_full = False
        try:
            replica.part.recover()
            replica.part.recover()
        except StorageError as error:
            told.append(f"{error}")
        return f"{told}"

    def forge(self) -> str:
        """Messages that no replica sends."""
        replica, random = self.random.choice(self.replicas), self.random
        store = replica.part.store
        last = store.context.last(store.life)
        claim = Context({store.life: [1, last + 2]})
        delta = self.random.choice(self.replicas).part.store.whole()
        messages: list[tuple[Prefixes, Message]] = [
            (PREFIXES, Digest(True, claim, 0)), (PREFIXES, Digest(random.random() < 0.5, store.context, store.mark)),
            (PREFIXES, Digest(True, store.context, store.mark ^ 1)), (PREFIXES, Pull(Context())),
            (PREFIXES, Pull(store.context)), (PREFIXES, Push(delta)), (PREFIXES, Push(delta, store.mark)),
            (OTHERS, Digest(True, Context(), 0)),
        ]  # fmt: skip
        prefixes, message = random.choice(messages)
        body: Any = encode(prefixes, message)
        body = random.choice((body, body, body, body[:-1], "text", b"[]", body.replace(b"[1,", b"[99,")))
        self.under_way.append((replica, delivered(TOPIC, body, random.choice(NAMES))))
        return f"to {replica.name} {body[:60]!r}: {self.receive(replica)}"


def delivered(topic: str, body: Any, publisher: str) -> Delivery:
    """A message as it arrives."""
    return Delivery(topic, [body], None, publisher, publisher, 1, 1, 0.0, False, ())


def merging(seeds: range) -> str:
    """Return the record of some seeds."""
    minutes, totals = Minutes(), Counter[str]()
    for seed in seeds:
        totals.update(Run(seed, minutes).go())
    return minutes.text() + "".join(f"{what}: {count}\n" for what, count in sorted(totals.items()))


MERGING: dict[str, Callable[[], str]] = {
    "merging": partial(merging, range(3)),
    "merging-more": partial(merging, range(3, 6)),
}
