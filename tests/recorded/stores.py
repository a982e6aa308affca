"""Recorded minutes of what serves history: a publisher's memory, and keepers that read their logs and heal each other.

A seed decides what is published, kept, asked for, dropped and forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import Any

from glue.contract.heads import MalformedError
from glue.contract.metadata import Metadata
from glue.history.healing import Healer
from glue.history.memory import Limits, PublishedMemory
from glue.history.server import Server, matcher
from glue.history.wire import EARLIEST, FROM, LAST, LATEST, SINCE, Page, Request, decode_page
from glue.history.wire import decode_request as decoded
from glue.simulation.disk import SimulatedDisk
from glue.storage import JSON, FileLog, Record, Retention
from glue.topics.bundle import MessageGroup
from tests.recorded.minutes import Minutes
from tests.recorded.small import little_room

TOPICS = ("t/a", "t/b", "t/c/d", "u")
PATTERNS = ("t/#", "t/a", "t/+", "#", "t/c/#", "u")
KEEPERS = ("k" * 16, "l" * 16, "m" * 16)
READERS = ("x" * 16, "y" * 16)


def answered(server: Server, now: float) -> tuple[tuple[str, int], bytes] | None:
    """The next page, after as many steps as it takes."""
    answer = None
    while server and answer is None:
        answer = server.answer(now)
    return answer


class Shelf(Minutes):
    """What a publisher remembers, and requests for it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random, self.statistics, self.now = Random(seed), Counter[str](), 50.0
        self.memory = PublishedMemory()
        self.server = Server(self.memory, lambda id, life, pattern: pattern != "#" or life == 1, self.statistics)
        self.patterns = ["t/+"]
        self.memory.remember(Limits("t/+", last=40))
        self.numbers: Counter[str] = Counter()
        self.ids = count(1)

    def live_on(self, steps: int) -> str:
        """Let a seed decide so many times what happens; return the record."""
        acts: dict[Callable[[], str], float] = {
            self.record: 12, self.ask: 8, self.answer: 9, self.wait: 3, self.remember: 1.5, self.forget: 0.5,
            self.expire: 1, self.damage: 1, self.leave: 0.3,
        }  # fmt: skip
        for _ in range(steps):
            what = self.random.choices(list(acts), list(acts.values()))[0]()
            self.say(f"{self.now:.2f} {what}:", f"{self.memory.size} B up to {self.memory.head}, {bool(self.server)}")
        return self.text() + "".join(f"{what}: {number}\n" for what, number in sorted(self.statistics.items()))

    def remember(self) -> str:
        """Remember a pattern, perhaps with other limits."""
        pattern, choice = self.random.choice(PATTERNS), self.random.choice
        last, age, size = choice((None, None, 3, 20)), choice((None, None, 8.0)), choice((1 << 20, 3000, 30_000))
        self.memory.remember(Limits(pattern, last, age, size))
        self.patterns = sorted({*self.patterns, pattern})
        return f"remembers {pattern} {last} {age} {size}"

    def forget(self) -> str:
        """Forget a pattern."""
        if not self.patterns:
            return "nothing to forget"
        pattern = self.patterns.pop(self.random.randrange(len(self.patterns)))
        self.memory.forget(pattern)
        return f"forgets {pattern}"

    def record(self) -> str:
        """Publish messages."""
        choice = self.random.choice
        topic, amount = choice(TOPICS), choice((1, 1, 1, 2, 3, 9))
        first = self.numbers[topic] + 1
        self.numbers[topic] += amount
        payloads = [b"%d" % n + bytes(choice((0, 0, 100))) for n in range(first, first + amount)]
        length = len(payloads[0]) if len({*map(len, payloads)}) == 1 else None
        lifespan = choice((None, None, 1500))
        group = MessageGroup(topic, first, int(self.now * 1e6), payloads, length, lifespan_ms=lifespan)
        self.memory.record(self.now, group, inf if lifespan is None else self.now + lifespan / 1000)
        self.now += choice((0.0, 0.0, 0.0004, 0.02))
        return f"publishes {topic} {first} to {first + amount - 1}"

    def ask(self) -> str:
        """A reader asks for something, perhaps again."""
        choice, id = self.random.choice, next(self.ids) - self.random.choice((0, 0, 0, 1))
        reader, room = (choice(READERS), choice((1, 1, 2))), choice((1, 300, 5000, 1 << 20))
        after = choice((0, 0, max(0, self.memory.head - 5), self.memory.head + choice((0, 1))))
        if self.random.random() < 0.4:
            topic, first = choice(TOPICS), self.random.randint(1, 12)
            ranges = [(choice(TOPICS), first, first + n, choice((0, 0, 20)), "", 0) for n in range(choice((1, 2, 5)))]
            request = Request(id, room=room, ranges=[(topic, 1, 900, 0, "", 0), *ranges])
        else:
            start: Any = choice(
                (
                    (EARLIEST, 0),
                    (EARLIEST, 0),
                    (LATEST, 0),
                    (SINCE, int(self.now * 1e6) - 1_000_000),
                    (FROM, 7),
                    (LAST, 4),
                )
            )
            until = choice((0, 0, self.memory.head, max(0, self.memory.head - 9)))
            request = Request(id, choice(PATTERNS), start, after, until, room, choice((True, False, False)))
        self.server.ask(reader, request.encode(), lambda who, topic: topic != "u" or who[0] == "x")
        return f"{reader[0][0]} asks {request.encode()[:70]!r}"

    def answer(self) -> str:
        """Answer one request."""
        answer = answered(self.server, self.now)
        if answer is None:
            return "nothing to answer"
        (id, life), payload = answer
        return f"answers {id[0]}{life} {words(decode_page(payload))}"

    def wait(self) -> str:
        """Time passes."""
        self.now += self.random.choice((0.01, 0.3, 0.3, 1.5))
        return "time passes"

    def expire(self) -> str:
        """Drop what is old."""
        self.memory.expire(self.now)
        return "drops what is old"

    def leave(self) -> str:
        """A reader leaves."""
        self.server.forget(READERS[0])
        return "x leaves"

    def damage(self) -> str:
        """A request is damaged on its way."""
        kind = self.random.choice(({"ranges": [("t/a", 1, 3, 0, "", 0)]}, {"pattern": "t/#", "after": 3}, {
            "pattern": "t/+", "digest": True, "eras": (5, 6), "kept": True}))  # fmt: skip
        payload = bytearray(Request(next(self.ids), **kind).encode())
        payload[self.random.randrange(len(payload))] = self.random.choice(b'019{}[]",t/#-\n')
        try:
            told = decoded(bytes(payload)).encode()
        except MalformedError as error:
            told = b"malformed " + str(error).encode()
        return f"{bytes(payload)!r} is {told!r}"


def words(page: Page) -> str:
    """A page in words."""
    groups = [f"{g.topic} {g.sequence}+{len(g.payloads)} {g.at} {g.lifespan_ms} {g.type}" for g in page.groups]
    names = "".join(f" {name}" for name in (*page.origins, *page.heads)) + f" {page.digests or ''}"
    return (
        f"{page.id}: to {page.next} of {page.head}, {page.until}, {page.known}, {page.answered}, {page.compared}"
        f" {groups}{names}"
    )


class Keeping(Minutes):
    """Keepers with logs, of which each misses some messages, heals from the others, and answers readers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random, self.statistics, self.now = Random(seed), Counter[str](), 1.0
        ids = count(1)
        self.logs = {k: FileLog(SimulatedDisk(Random(seed)), Random(seed), 4000) for k in KEEPERS}
        self.memory, self.is_full = PublishedMemory(), False
        self.memory.remember(Limits("#", last=20))
        self.publisher = Server(self.memory, lambda *_: True, self.statistics)
        self.healers: dict[str, Healer] = {}
        self.servers: dict[str, Server] = {}
        for number, (keeper, log) in enumerate(self.logs.items()):
            healer = Healer(
                log, lambda topic: topic != "t/b", lambda: not self.is_full, ids.__next__, Random(seed), self.statistics
            )
            for pattern in (("t/#", "u"), ("#",), ("t/+", "t/c/#"))[number]:
                healer.patterns[pattern] = matcher(pattern)
            self.healers[keeper] = healer
            server = self.servers[keeper] = Server(PublishedMemory(), lambda *_: False, self.statistics)
            server.keep(log)
            server.keeps = lambda peer, topic: peer != KEEPERS[2] or topic != "u"
            server.compared = lambda now, pattern, healer=healer: len(healer.compared(now, pattern)[0])  # type: ignore[misc]
        self.numbers: Counter[tuple[str, str]] = Counter()
        self.open: list[tuple[str, str, Request]] = []
        self.ids = count(10_000)

    @property
    def unix_time(self) -> float:
        """The time of the wall clock."""
        return 1_000_000 + self.now

    def live_on(self, steps: int) -> str:
        """Let a seed decide so many times what happens; return the record."""
        acts: dict[Callable[[], str], float] = {
            self.publish: 9, self.heal: 12, self.answer: 12, self.wait: 4, self.meet: 3, self.part: 0.4, self.ask: 5,
            self.retain: 0.3, self.fill: 0.3, self.hurry: 0.5,
        }  # fmt: skip
        for _ in range(steps):
            what = self.random.choices(list(acts), list(acts.values()))[0]()
            due = [f"{healer.deadline:.3f}" for healer in self.healers.values()]
            self.say(f"{self.now:.3f} {what}", f"due {due}, {[log.end for log in self.logs.values()]}")
        return self.text() + "".join(f"{what}: {number}\n" for what, number in sorted(self.statistics.items()))

    def publish(self) -> str:
        """Somebody publishes; each keeper gets it or not."""
        choice = self.random.choice
        origin, topic, amount = choice("pq") * 16, choice(TOPICS), choice((1, 1, 3, 8))
        first = self.numbers[origin, topic] + 1
        self.numbers[origin, topic] += amount
        payloads = [b"%d" % n for n in range(first, first + amount)]
        record = Record(
            origin, origin[:1], 1, topic, first, payloads, self.unix_time, flags=JSON,
            properties={"unit": "K"} if choice((0, 0, 1)) else {},
        )  # fmt: skip
        if origin[0] == "p":
            group = MessageGroup(topic, first, int(self.unix_time * 1e6), payloads, None, json=True)
            group.metadata = Metadata(record.properties) if record.properties else None
            self.memory.record(self.now, group, inf)
        got = [keeper for keeper in KEEPERS if self.random.random() < 0.6]
        for keeper in got:
            self.logs[keeper].append([record])
            self.logs[keeper].sync()
        return f"{origin[0]} publishes {topic} {first}+{amount}, kept by {[keeper[0] for keeper in got]}"

    def heal(self) -> str:
        """A keeper does what is due."""
        keeper = self.random.choice(KEEPERS)
        asked = self.healers[keeper].advance(self.now, self.unix_time)
        if asked is None:
            return f"{keeper[0]} has nothing to ask"
        self.open.append((keeper, *asked))
        return f"{keeper[0]} asks {asked[0][0]} {asked[1].encode()!r}"

    def answer(self) -> str:
        """A keeper or the publisher answers; now and then not, twice, or in another life."""
        if not self.open:
            return "nobody waits"
        keeper, peer, request = self.open.pop(0)
        if self.random.random() < 0.15:
            return f"{peer[0]} does not answer {request.id}"
        server = self.servers.get(peer, self.publisher)
        server.ask((keeper, 1), request.encode())
        answer = answered(server, self.now)
        if answer is None:
            return f"{peer[0]} has no answer to {request.id}"
        page = decode_page(answer[1])
        told = []
        for _ in range(self.random.choice((1, 1, 1, 2))):
            life = self.random.choice((1, 1, 1, 1, 1, 1, 1, 2))
            records = self.healers[keeper].page(self.now, peer, life, page)
            told.append(
                None if records is None else [(r.topic, r.origin[0], r.sequence, len(r.payloads)) for r in records]
            )
            if records:
                self.logs[keeper].append(records)
                self.logs[keeper].sync()
        return f"{peer[0]} answers {words(page)} {told}"

    def ask(self) -> str:
        """A reader asks a keeper."""
        choice = self.random.choice
        keeper, room = choice(KEEPERS), choice((1, 200, 1 << 20))
        if choice((0, 1)):
            ranges = []
            for _ in range(choice((1, 3))):
                first = self.random.randint(1, 15)
                ranges.append((choice(TOPICS), first, first + choice((0, 3, 40)), 0, choice("pq") * 16, 1))
            request = Request(next(self.ids), room=room, ranges=ranges, kept=True)
        else:
            at = int((self.unix_time - choice((1, 30, 900))) * 1e6)
            start: Any = choice(((EARLIEST, 0), (LATEST, 0), (SINCE, at), (FROM, 7), (LAST, 4)))
            request = Request(
                next(self.ids), choice(PATTERNS), start, choice((0, 0, 1)), room=room, heads=True, kept=True
            )
        self.servers[keeper].ask((READERS[0], 1), request.encode())
        answer = answered(self.servers[keeper], self.now)
        return f"x asks {keeper[0]} {request.encode()!r}, {words(decode_page(answer[1])) if answer else 'nothing'}"

    def wait(self) -> str:
        """Time passes."""
        self.now += self.random.choice((0.01, 0.1, 0.3, 1.0, 1.0, 70.0) if self.random.random() < 0.9 else (4000.0,))
        return "time passes"

    def meet(self) -> str:
        """A keeper meets another one, or the publisher."""
        keeper, pattern, life = (
            self.random.choice(KEEPERS),
            self.random.choice(PATTERNS),
            self.random.choice((1, 1, 1, 1, 2)),
        )
        if self.random.random() < 0.3:
            self.healers[keeper].met(self.now, "p" * 16, life, "p", pattern, False)
            return f"{keeper[0]} meets p{life} with {pattern}"
        peer = self.random.choice([other for other in KEEPERS if other != keeper])
        self.healers[keeper].met(self.now, peer, life, peer[0], pattern, True)
        return f"{keeper[0]} meets {peer[0]}{life} with {pattern}"

    def part(self) -> str:
        """A partner is gone, or keeps something no more."""
        keeper, peer = self.random.choice(KEEPERS), self.random.choice((*KEEPERS, "p" * 16))
        pattern = self.random.choice((*PATTERNS, ""))
        if pattern:
            self.healers[keeper].parted(peer, pattern, peer in KEEPERS)
        else:
            self.healers[keeper].lost(peer)
        return f"{keeper[0]} parts from {peer[0]} {pattern}"

    def retain(self) -> str:
        """A keeper removes what is old."""
        keeper = self.random.choice(KEEPERS)
        removed = self.logs[keeper].retain([Retention(lambda topic: topic != "u", age=300.0)], self.unix_time)
        return f"{keeper[0]} removes {removed}"

    def fill(self) -> str:
        """Logs have no room for old messages, or have it again."""
        self.is_full = not self.is_full
        return f"full: {self.is_full}"

    def hurry(self) -> str:
        """A keeper notices that something is missing."""
        keeper = self.random.choice(KEEPERS)
        self.healers[keeper].hurry(self.now)
        return f"{keeper[0]} misses something"


def cramped(run: Callable[[], str]) -> str:
    """Return the record of a run whose pages and tables hold a few things only."""
    with little_room({
        "glue.history.memory": {"PAGE_MESSAGES": 7, "LOOKED_AT": 9},
        "glue.history.kept": {"HINTS": 2, "SINCE_RECORDS": 9},
        "glue.history.server": {
            "PAGE_GROUPS": 3, "READER_REQUESTS": 3, "REQUESTS": 5, "REQUEST_BYTES": 500, "PAGE": 900,
        },
        "glue.history.eras": {"KNOWN": 2}, "glue.history.healing": {"STREAM_GAPS": 2, "RANGES": 3, "ROOM": 500},
    }):  # fmt: skip
        return run()


def runs() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield all runs with their names."""
    for name, kind, steps in (("memory", Shelf, 2500), ("keepers", Keeping, 1200)):
        for seed, is_cramped in ((61, False), (62, True)):
            run = partial(_run, kind, seed, steps)
            yield f"{name}{'-cramped' * is_cramped}", partial(cramped, run) if is_cramped else run


def _run(kind: type[Shelf] | type[Keeping], seed: int, steps: int) -> str:
    return kind(seed).live_on(steps)


STORES: dict[str, Callable[[], str]] = dict(runs())
