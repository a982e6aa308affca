"""Recorded minutes of readers of history: sources and keepers that come, go, lie, and have lost a part.

A seed decides what peers do next. What the reader hands over, what it asks for and when it is due stands in the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

from glue.contract import Delivery, Missed
from glue.contract.metadata import DELAYED, Metadata
from glue.history.reader import Reader
from glue.history.wire import EARLIEST, FROM, LAST, LATEST, SINCE, Page, Request, Start
from glue.topics.bundle import MessageGroup
from tests.recorded.minutes import Minutes
from tests.recorded.small import little_room

TOPICS = ("t/a", "t/b", "t/c/d", "u")
PATTERNS = ("t/#", "t/a", "t/+", "#", "t/c/#")
NAMES = {letter * 16: letter for letter in "pqrkl"}
PUBLISHERS, KEEPERS = [id for id in NAMES if id[0] in "pqr"], [id for id in NAMES if id[0] in "kl"]


class Past(Minutes):
    """One reader, and publishers and keepers whose messages are numbers."""

    def __init__(self, seed: int, start: Start, limit: int) -> None:
        super().__init__()
        self.random, self.statistics, self.now = Random(seed), Counter[str](), 100.0
        self.reader = Reader(
            "t/#", start, limit, count(1).__next__, Random(seed), self.statistics, "m" * 16, (100.0, 1_000.0)
        )
        self.lives = dict.fromkeys(NAMES, 1)
        self.logs: dict[tuple[str, int], list[tuple[str, int]]] = {}
        self.asked: list[tuple[str, Request]] = []
        self.unread: list[Delivery] = []

    def live_on(self, steps: int, is_calm: bool = False) -> str:
        """Let a seed decide so many times what happens; return the record. In a calm run keepers are there early."""
        acts: dict[Callable[[], str], float] = {
            self.publish: 14, self.answer: 12, self.wait: 8, self.read: 5, self.offer: 3, self.withdraw: 1,
            self.lose: 2, self.restart: 1, self.miss: 1, self.will: 1, self.meet: 1,
        }  # fmt: skip
        if is_calm:
            acts |= {self.offer: 0.3, self.withdraw: 0.03, self.lose: 0.2, self.restart: 0.1, self.answer: 20}
            for keeper, options in zip(KEEPERS, (("hall", 0), ("hall", 1)), strict=True):
                self.reader.keepers.offered(self.now, keeper, 1, "t/#", *options)
        for _ in range(steps):
            what = self.random.choices(list(acts), list(acts.values()))[0]()
            asked = self.reader.advance(self.now)
            self.asked += asked
            reader = self.reader
            self.say(
                f"{self.now:.2f} {what}:",
                *(f"asks {NAMES[peer]} {request.encode().decode().strip()};" for peer, request in asked),
                *map(self.words, reader.ready),
                f"{reader.waiting} B wait, {reader._held} held, due {reader.deadline:.3f}, {reader.pushed}",
            )
            self.unread += [one for one in reader.ready if isinstance(one, Delivery)]
            reader.ready.clear()
        return self.text() + "".join(f"{what}: {number}\n" for what, number in sorted(self.statistics.items()))

    def words(self, one: Delivery | Missed) -> str:
        """What is handed over, in words."""
        if isinstance(one, Missed):
            return f"misses {one.count} of {one.topic} of {NAMES.get(one.publisher_id)}, {one.cause};"
        who = f"{NAMES.get(one.publisher_id)}{one.incarnation} as {one.publisher[:1]}"
        coded = getattr(one, "encoded", "")
        return f"{one.topic} {list(one.payloads)} #{one.sequence} of {who} to {one.expires:.0f} {coded};"

    def own(self, peer: str) -> list[tuple[str, int]]:
        """What a publisher published in its present life."""
        return self.logs.setdefault((peer, self.lives[peer]), [])

    # ------------------------------------------------------------------------------------------------- acts

    def publish(self) -> str:
        """A publisher publishes some messages of a topic; they come at once, late, or never."""
        peer, topic = self.random.choice(PUBLISHERS), self.random.choice(TOPICS[:3])
        log = self.own(peer)
        first = 1 + sum(one == topic for one, _ in log)
        numbers = list(range(first, first + self.random.choice((1, 1, 1, 2, 5))))
        log += [(topic, number) for number in numbers]
        if self.random.random() < 0.25:
            return f"{NAMES[peer]} publishes {topic} {numbers}, lost"
        again = self.random.choice((0, 0, 0, 0, 0, 2))
        found = Delivery(topic, numbers, None, peer, peer, self.lives[peer], max(1, first - again), 0.0, again > 1, ())
        if self.random.random() < 0.2:
            found = Delivery(
                topic, [b"%d" % n for n in numbers], None, peer, peer, self.lives[peer], first, 0.0, False, (), length=2
            )
        if self.random.random() < 0.05:
            found.metadata = Metadata({DELAYED: f"{peer}-{self.random.randrange(3)}"})
            found.encoded = [b"coded %d" % n for n in found.payloads if n.__class__ is int]
        self.reader.live(self.now, found)
        return f"{NAMES[peer]} publishes {topic} {numbers} -{again}"

    def answer(self) -> str:
        """A peer answers an open request, as well as it can; some answers come twice, or of another life."""
        if not self.asked:
            return "nobody is asked"
        chance = self.random.random
        peer, request = self.asked.pop(self.random.randrange(len(self.asked)))
        if chance() < 0.15:
            return f"{NAMES[peer]} does not answer {request.id}"
        life = self.lives[peer] - (chance() < 0.03)
        page = self.page_of_keeper(peer, request) if request.kept else self.page_of(peer, request)
        taken = [self.reader.page(self.now, peer, life, page) for _ in range(1 + (chance() < 0.1))]
        return f"{NAMES[peer]} answers {request.id} {page.encode()[:60]!r} {taken}"

    def page_of(self, peer: str, request: Request) -> Page:
        """What a publisher answers; of the older half of its messages some are forgotten."""
        log, chance = self.own(peer), self.random.random
        known = chance() < 0.7
        if request.ranges:
            answered = self.random.randint(0, len(request.ranges))
            found = [
                group_of(topic, [n for one, n in log if one == topic and first <= n <= last], chance)
                for topic, first, last, *_ in request.ranges[: max(answered, 1)]
            ]
            return Page(request.id, 0, 0, known, [g for g in found if g is not None], answered=answered)
        place = min(len(log), request.after + self.random.choice((2, 7, 30)))
        part = log[request.after : place]
        if request.heads:
            last = dict(part)
            heads = [(topic, number, "", self.lives[peer], 0) for topic, number in last.items()]
            return Page(request.id, place, len(log), known, heads=heads)
        groups = [group_of(topic, [n for one, n in part if one == topic], chance) for topic in TOPICS]
        return Page(request.id, place, len(log), known, [g for g in groups if g is not None], until=len(log))

    def page_of_keeper(self, peer: str, request: Request) -> Page:
        """What a keeper answers of what all publishers published; the other keeper lacks some topics."""
        chance = self.random.random
        if request.ranges:
            answered = self.random.randint(0, len(request.ranges))
            groups, origins = [], []
            for topic, first, last, _, id, life in request.ranges[: max(answered, 1)]:
                has = [n for one, n in self.logs.get((id, life), []) if one == topic and first <= n <= last]
                group = group_of(topic, has if peer == KEEPERS[0] else has[:2], chance)
                if group is not None:
                    groups.append(group)
                    origins.append((id, id[0] * 3, life, 1))
            return Page(request.id, 0, 0, True, groups, origins, answered=answered)
        heads = []
        for (id, life), log in self.logs.items():
            for topic, last in dict(log).items():
                heads.append((topic, last, id, life, self.random.choice((1, 1, max(1, last - 2)))))
        heads = heads[request.after : request.after + 6]
        place = request.after + len(heads)
        head = place + (len(heads) == 6)
        return Page(request.id, place, head, True, heads=heads, compared=self.random.choice((0, 1, 1)))

    def wait(self) -> str:
        """Time passes."""
        seconds = self.random.choice((0.01, 0.05, 0.1, 0.3, 1.0, 4.0))
        if self.random.random() < 0.3 and self.now < self.reader.deadline < self.now + 9:
            self.now = self.reader.deadline
            return "the deadline comes"
        self.now += seconds
        return f"{seconds} s pass"

    def read(self) -> str:
        """The program reads some of what is ready."""
        from glue.history.source import weight

        part = self.unread[: self.random.choice((1, 3, 20))]
        del self.unread[: len(part)]
        return f"reads {len(part)}, {self.reader.read(sum(map(weight, part)))}"

    def offer(self) -> str:
        """A publisher offers its history, or a keeper what it keeps."""
        peer, pattern = self.random.choice(list(NAMES)), self.random.choice(PATTERNS)
        if peer in KEEPERS:
            options: Any = self.random.choice(((), (), ("hall", 0), ("hall", 1), ("yard", 1)))
            self.reader.keepers.offered(self.now, peer, self.lives[peer], pattern, *options)
            return f"{NAMES[peer]} keeps {pattern} {options}"
        self.reader.offered(self.now, peer, self.lives[peer], peer, pattern)
        return f"{NAMES[peer]} offers {pattern}"

    def withdraw(self) -> str:
        """A peer serves something no more."""
        peer, pattern = self.random.choice(list(NAMES)), self.random.choice(PATTERNS)
        (self.reader.keepers if peer in KEEPERS else self.reader).withdrawn(peer, pattern)
        return f"{NAMES[peer]} withdraws {pattern}"

    def lose(self) -> str:
        """A peer is lost, or an older life of it."""
        peer, reason = self.random.choice(list(NAMES)), self.random.choice(("expired", "expired", "left"))
        life = self.lives[peer] - (self.random.random() < 0.2)
        self.reader.lost(peer, life, reason)
        return f"{NAMES[peer]}{life} {reason}"

    def restart(self) -> str:
        """A peer begins again."""
        peer = self.random.choice(list(NAMES))
        self.lives[peer] += 1
        return f"{NAMES[peer]} begins again"

    def miss(self) -> str:
        """Topics tell of a gap."""
        peer, topic = self.random.choice(PUBLISHERS), self.random.choice(TOPICS)
        self.reader.missed(Missed(topic, peer, peer, 3, "best effort", ()))
        return f"a gap of {topic} of {NAMES[peer]}"

    def will(self) -> str:
        """A will of a publisher comes by another endpoint."""
        peer = self.random.choice(PUBLISHERS)
        found = Delivery("t/a", ["will"], None, peer, peer, self.lives[peer], 1, 0.0, False, ())
        found.via = "x" * 16
        self.reader.live(self.now, found)
        return f"a will of {NAMES[peer]}"

    def meet(self) -> str:
        """All peers that were there at the beginning are known."""
        if self.random.random() < 0.3:
            self.reader.has_met_all()
        return "all are met"


def group_of(topic: str, numbers: list[int], chance: Callable[[], float]) -> MessageGroup | None:
    """Messages of one topic, the first of which may be forgotten; None if there is none."""
    if len(numbers) > 1 and chance() < 0.25:
        numbers = numbers[1:]
    if not numbers:
        return None
    end = next((at for at in range(1, len(numbers)) if numbers[at] != numbers[0] + at), len(numbers))
    numbers = numbers[:end]
    lifespan = 5000 if chance() < 0.2 else None
    return MessageGroup(topic, numbers[0], 0, [b"%d" % n for n in numbers], None, json=True, lifespan_ms=lifespan)


STARTS: dict[str, Start] = {
    "earliest": (EARLIEST, 0), "latest": (LATEST, 0), "since": (SINCE, 500), "from": (FROM, 4), "last": (LAST, 2),
}  # fmt: skip


def run(seed: int, start: Start, limit: int, is_calm: bool) -> str:
    """One reader."""
    return Past(seed, start, limit).live_on(2000, is_calm)


def cramped() -> str:
    """A reader that follows three streams, and holds 2 kB."""
    with little_room({"glue.history.source": {"STREAMS": 3, "HELD": 2000}}):
        past = Past(58, (EARLIEST, 0), 1 << 20)
        past.reader.admits = lambda delivery: delivery.sequence % 7 != 3
        return past.live_on(1500)


READERS: dict[str, Callable[[], str]] = {
    f"reader-{name}{'-calm' * is_calm}": partial(run, seed, start, 1 << 20 if seed % 2 else 6000, is_calm)
    for is_calm in (False, True)
    for seed, (name, start) in enumerate(STARTS.items(), 51)
}
READERS["reader-cramped"] = cramped
