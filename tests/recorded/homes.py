"""Recorded minutes of keepers that elect homes of durable consumers, and of members, in a network that loses messages.

A seed decides who publishes, joins, handles, leaves, dies, and what else is asked; disks fill up and keepers restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

from glue.consumers.membership import Membership, Taken
from glue.consumers.moving import MovingHome
from glue.consumers.positions import Positions
from glue.consumers.wire import PREFIX, encode, parse
from glue.contract.heads import MalformedError
from glue.contract.matching import covers
from glue.errors import StorageError
from glue.simulation.disk import SimulatedDisk
from glue.storage import FileLog, Record, Retention
from tests.recorded.minutes import Minutes
from tests.recorded.small import little_room

KEEPERS = ("k" * 16, "l" * 16, "m" * 16)
ENDPOINTS = ("x" * 16, "y" * 16)
CONSUMERS = (("bill", "a/#"), ("audit", "a/+"), ("other", "b"))
TOPICS = ("a/1", "a/2", "a/3/4", "b")
WRONG: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    7,
    "",
    "x",
    "a/#",
    [],
    [1],
    [[1, 2, 3]],
    ["since", 5],
    ["soon", 1],
    {},
    1 << 53,
)


class Homes(Minutes):
    """Keepers, endpoints with members, and the messages between them."""

    def __init__(self, seed: int, keepers: int) -> None:
        super().__init__()
        self.random, self.now, self.seed = Random(seed), 10.0, seed
        self.statistics: Counter[str] = Counter()
        self.alerts: list[str] = []
        self.disks = {keeper: SimulatedDisk(Random(seed + n)) for n, keeper in enumerate(KEEPERS[:keepers])}
        self.homes: dict[str, MovingHome] = {}
        self.logs: dict[str, FileLog] = {}
        for keeper in self.disks:
            self.open(keeper)
        self.lives = dict.fromkeys(ENDPOINTS, 1)
        self.numbers = count(1)
        self.published: Counter[str] = Counter()
        self.members: list[tuple[str, Membership]] = []
        self.taken: list[tuple[Membership, Taken, int]] = []
        self.wire: list[tuple[float, str, str, int, bytes]] = []
        self.is_read_allowed, self.is_split = True, False

    @property
    def unix_time(self) -> float:
        """The wall clock."""
        return 1_000_000 + self.now

    def open(self, keeper: str) -> None:
        """Begin a life of a keeper."""
        log = self.logs[keeper] = FileLog(self.disks[keeper], Random(self.seed), 3000)
        self.homes[keeper] = home = MovingHome(
            keeper, log, Positions(self.disks[keeper], "log"), self.statistics,
            lambda pattern: keeper != KEEPERS[2] or covers("a/#", pattern),
            lambda pattern: [one for one in self.disks if one != keeper],
            lambda alert: self.alerts.append(f"{keeper[0]} {alert.kind} {alert.name}: {alert.detail}"),
            directory=self.disks[keeper], now=self.now, limit=20.0,
        )  # fmt: skip
        home.may_read = lambda peer, pattern: self.is_read_allowed or pattern != "a/+"

    def send(self, source: str, life: int, messages: list[tuple[str, bytes]]) -> str:
        """Messages leave; some are lost, late or come twice. Returns them in words."""
        told = []
        for topic, payload in messages:
            head = payload.partition(b"\n")[0].decode()
            told.append(f"{topic.removeprefix(PREFIX)[:8]} {head[:150]}")
            other_side = (topic.split("/")[2][0] in "kx") != (source[0] in "kx")
            if self.is_split and other_side:
                continue
            for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2))):
                delay = self.random.choice((0.0, 0.0, 0.0, 0.01, 0.2))
                self.wire.append((self.now + delay, topic, source, life, payload))
        return "; ".join(told)

    def live_on(self, steps: int) -> str:
        """Let a seed decide so many times what happens; return the record."""
        acts: dict[Callable[[], str], float] = {
            self.deliver: 30, self.advance: 16, self.publish: 8, self.handle: 9, self.wait: 7, self.join: 1.2,
            self.leave: 0.4, self.ask: 1, self.damage: 1, self.crash: 0.25, self.fill: 0.2, self.forbid: 0.1,
            self.split: 0.25, self.retain: 0.3,
        }  # fmt: skip
        for _ in range(steps):
            what = self.random.choices(list(acts), list(acts.values()))[0]()
            due = [f"{home.deadline:.3f}" for home in self.homes.values()]
            self.say(f"{self.now:.3f} {what}; due {due}", *self.alerts)
            self.alerts.clear()
        for keeper, home in self.homes.items():
            for consumer in home.consumers.values():
                self.say(f"{keeper[0]} {consumer.describe(self.now, keeper)}")
            for id, ballot in home.ballots.items():
                self.say(f"{keeper[0]} {id} {ballot.about()} {ballot.role}")
        return self.text() + "".join(f"{what}: {number}\n" for what, number in sorted(self.statistics.items()))

    # ------------------------------------------------------------------------------------------------- acts

    def deliver(self) -> str:
        """The next messages arrive."""
        due = [one for one in self.wire if one[0] <= self.now][: self.random.choice((1, 4))]
        told = []
        for one in due:
            self.wire.remove(one)
            _, topic, source, life, payload = one
            kind, to, *rest = topic.removeprefix(PREFIX).split("/")
            if kind == "ask" and to in self.homes:
                messages = self.homes[to].take(self.now, self.unix_time, source, life, payload)
                told.append(f"{to[0]} takes of {source[0]}: {self.send(to, 1, messages)}")
            elif kind == "tell" and int(rest[0]) == self.lives.get(to):
                told.append(self.hand_over(to, source, payload))
        return f"arrive {len(due)}, {told}"

    def hand_over(self, endpoint: str, keeper: str, payload: bytes) -> str:
        """An endpoint takes what a keeper tells."""
        head, groups = parse(payload)
        found = []
        for owner, member in self.members:
            if owner == endpoint and (head.get("name"), head.get("pattern")) == (member.name, member.pattern):
                try:
                    for taken in member.told(self.now, keeper, head, groups):
                        self.taken += [(member, taken, place + 1) for place in range(len(taken.group.payloads))]
                        group = taken.group
                        found.append(f"{group.topic} {group.sequence}+{len(group.payloads)} {taken.is_again}")
                except MalformedError as error:
                    found.append(f"malformed: {error}")
        return f"{endpoint[0]} is told {head.get('tell')} {found}"

    def advance(self) -> str:
        """A keeper or a member does what is due."""
        if self.members and self.random.random() < 0.5:
            endpoint, member = self.random.choice(self.members)
            keepers = sorted(self.disks) if self.random.random() < 0.9 else [KEEPERS[0]]
            messages = member.advance(self.now, keepers)
            return f"{endpoint[0]} {member.member[-3:]} {self.send(endpoint, self.lives[endpoint], messages)}"
        keeper = self.random.choice(list(self.homes))
        return f"{keeper[0]} {self.send(keeper, 1, self.homes[keeper].advance(self.now))}"

    def publish(self) -> str:
        """Somebody publishes; keepers store it, perhaps not all of them."""
        topic, amount = self.random.choice(TOPICS), self.random.choice((1, 1, 2, 7))
        first = self.published[topic] + 1
        self.published[topic] += amount
        payloads = [b"%d" % n for n in range(first, first + amount)]
        record = Record("p" * 16, "p", 1, topic, first, payloads, self.unix_time)
        stored = []
        for keeper, log in self.logs.items():
            if self.random.random() < 0.93:
                try:
                    log.append([record])
                    log.sync()
                    stored.append(keeper[0])
                except StorageError:
                    pass
        return f"{topic} {first}+{amount} at {stored}"

    def handle(self) -> str:
        """Programs handle some messages; a few fail."""
        told = []
        for _ in range(self.random.choice((1, 3, 8))):
            if self.taken:
                member, taken, place = self.taken.pop(0 if self.random.random() < 0.8 else -1)
                is_done = self.random.random() < 0.9
                member.finished(taken.member, taken.number, place, is_done)
                told.append(
                    f"{taken.group.topic} {taken.group.sequence + place - 1} {is_done} {member.is_over(taken.number)}"
                )
        return f"handled: {told}"

    def wait(self) -> str:
        """Time passes."""
        self.now += self.random.choice((0.005, 0.02, 0.1, 0.3, 1.0) if self.random.random() < 0.98 else (25.0,))
        return "time passes"

    def join(self) -> str:
        """A member begins."""
        if len(self.members) >= 5:
            return "enough members"
        endpoint, (name, pattern) = self.random.choice(ENDPOINTS), self.random.choice(CONSUMERS)
        start: Any = self.random.choice(
            (["earliest", 0], ["latest", 0], ["since", int(self.unix_time * 1e6) - 9_000_000])
        )
        member = Membership(
            name, pattern, (endpoint, self.lives[endpoint]), self.numbers.__next__, start, self.random.random() < 0.4,
            lambda: self.alerts.append(f"{endpoint[0]} is fenced of {name}"),
        )  # fmt: skip
        self.members.append((endpoint, member))
        return f"{endpoint[0]} is a member of {name} {pattern} {start}"

    def leave(self) -> str:
        """A member leaves, or its endpoint dies."""
        if not self.members:
            return "nobody leaves"
        endpoint, member = self.members.pop(self.random.randrange(len(self.members)))
        self.taken = [one for one in self.taken if one[0] is not member]
        if self.random.random() < 0.6:
            return f"{endpoint[0]} leaves {member.name}: {self.send(endpoint, self.lives[endpoint], member.leave())}"
        self.lives[endpoint] += 1
        self.members = [one for one in self.members if one[0] != endpoint]
        return f"{endpoint[0]} begins again"

    def ask(self) -> str:
        """People ask for the list, move or forget a consumer."""
        keeper, (name, pattern) = self.random.choice(list(self.homes)), self.random.choice(CONSUMERS)
        start: Any = self.random.choice(
            (["earliest", 0], ["latest", 0], ["since", int(self.unix_time * 1e6) - 5_000_000])
        )
        kind = self.random.choice(("list", "list", "seek", "forget", "where"))
        head = {"ask": kind, "name": name, "pattern": pattern, "id": next(self.numbers), "start": start}
        told = self.homes[keeper].take(self.now, self.unix_time, ENDPOINTS[0], 1, encode(head))
        return f"x asks {keeper[0]} to {kind} {name}: {[payload.decode('latin1')[:400] for _, payload in told]}"

    def damage(self) -> str:
        """A message that somebody changed on its way."""
        if not self.wire:
            return "nothing to damage"
        _, topic, source, life, payload = self.random.choice(self.wire)
        head, groups = parse(payload)
        key = self.random.choice([*head, "begin"])
        head[key] = self.random.choice(WRONG)
        if "/tell/" in topic:
            return f"{key} {head[key]}: {self.hand_over(topic.split('/')[3], source, encode(head, groups))}"
        keeper = topic.rpartition("/")[2]
        source = self.random.choice((source, *KEEPERS, *ENDPOINTS))
        messages = self.homes[keeper].take(self.now, self.unix_time, source, life, encode(head, groups))
        return f"{keeper[0]} takes of {source[0]} {key} {head[key]}: {self.send(keeper, 1, messages)}"

    def crash(self) -> str:
        """A keeper dies and is there again."""
        keeper = self.random.choice(list(self.homes))
        self.disks[keeper].crash()
        self.open(keeper)
        return f"{keeper[0]} begins again"

    def fill(self) -> str:
        """A disk is full, or has room again."""
        disk = self.disks[self.random.choice(list(self.disks))]
        disk.is_full = not disk.is_full
        return f"full: {[one.is_full for one in self.disks.values()]}"

    def split(self) -> str:
        """The network is split between k with x and the others, or whole again."""
        self.is_split = not self.is_split
        return f"split: {self.is_split}"

    def retain(self) -> str:
        """A keeper removes what is old."""
        keeper = self.random.choice(list(self.homes))
        try:
            removed = self.logs[keeper].retain([Retention(lambda topic: topic[0] == "a", count=5)], self.unix_time)
        except StorageError as error:
            return f"{keeper[0]} cannot remove: {error}"
        return f"{keeper[0]} removes {removed}"

    def forbid(self) -> str:
        """Rules change."""
        self.is_read_allowed = not self.is_read_allowed
        return f"allowed: {self.is_read_allowed}"


def run(seed: int, keepers: int) -> str:
    """Some keepers."""
    return Homes(seed, keepers).live_on(2500)


def cramped() -> str:
    """Keepers with room for a few things only."""
    with little_room({
        "glue.consumers.consumer": {"MEMBERS": 2, "WINDOW": 8}, "glue.consumers.home": {"CONSUMERS": 2, "SHARES": 2},
        "glue.consumers.voting": {"CHANGES": 4, "STREAMS": 2}, "glue.consumers.moving": {"SHARED": 1},
        "glue.consumers.membership": {"SHARES": 3},
    }):  # fmt: skip
        return run(73, 3)


HOMES: dict[str, Callable[[], str]] = {
    "homes-one": partial(run, 71, 1), "homes-three": partial(run, 72, 3), "homes-cramped": cramped,
    "homes-two": partial(run, 75, 2), "homes-more": partial(run, 74, 3),
}  # fmt: skip
