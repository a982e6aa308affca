"""Recorded minutes of what guards topics and files: rules, signed and private topics, and directories sealed at rest.

A seed decides what members want, say and sign, which rules come, and what befalls the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import orjson

from glue.contract import Delivery, Inbound, Outbound, PeerAdded, PeerInterest, PeerRemoved, Subscribe, Unsubscribe
from glue.endpoint.core import id_of
from glue.errors import GlueError
from glue.security import AES_GCM, CHACHA, new_key, rotated
from glue.security.at_rest import CHUNK, SealedDirectory, sealed_directory
from glue.security.gates import guarded
from glue.security.guard import DURABLE, REFUSED, TOPIC, Policy
from glue.security.rules import ACTIONS
from glue.simulation.disk import SimulatedDisk
from tests.recorded import sealing
from tests.recorded.minutes import Minutes

STEPS = 300
TOPICS = ("home/door", "home/safe/1", "home/vault", "home/x", "news", "$glue/request/r/home/door", "$glue/x/y", TOPIC)
PATTERNS = (
    "home/#", "home/safe/+", "news", "#", "$glue/limited/9/home/door", "$glue/sample/1/x/home/safe/#",
    "$glue/model/m/a", "$glue/share/g/1/x/news", "$glue/responder/home/door", "$glue/keeper/k/1/home/#",
    "$glue/qos/offer/home/x", "$glue/publisher/p/home/vault", "$glue/limited/9", "$glue/will/1/2/3/4/news",
    "$glue/anything",
)  # fmt: skip
ALL: dict[str, Any] = {"who": "#", "may": [*ACTIONS], "topics": ["#"]}
MARKS: list[dict[str, Any]] = [
    {"topics": ["home/door", "home/vault"], "signed": True}, {"topics": ["home/safe/#", "home/vault"], "private": True},
]  # fmt: skip
POLICIES: list[list[dict[str, Any]]] = [
    [ALL],
    [ALL, *MARKS],
    [ALL, *MARKS, {"who": "guest", "may_not": ["subscribe"], "topics": ["home/safe/#", "home/vault"]}],
    [ALL, MARKS[1], {"who": "attic", "may_not": ["publish", "keep"], "topics": ["home/+"]}],
    [{"who": "+", "may": ["publish", "subscribe"], "topics": ["home/#"]}, MARKS[0]],
    [{"who": "hall", "may": ["publish", "respond", "keep"], "topics": ["news", "home/x"]}],
    [ALL, {"who": "kitchen", "may_not": ["publish", "keep", "respond"], "topics": ["home/#", "news"]}],
    [ALL, MARKS[0], {"who": "+", "may_not": [*ACTIONS[1:]], "topics": ["home/door"]}],
    [],
]


class Guarded:
    """One member: its gates above and below topics."""

    def __init__(self, member: sealing.Member, run: sealing.Run, key: Any, minutes: Minutes) -> None:
        self.member, self.id, self.name = member, id_of(member.name), member.name
        self.told: list[str] = []
        identity = member.identity
        secrets = SimpleNamespace(
            identity=identity, key=key, policy=None, entropy=Random(f"topics {self.name}").randbytes,
            on_policy=lambda policy: self.told.append(f"policy {policy.version}"),
        )  # fmt: skip
        who: Any = SimpleNamespace(
            secrets=secrets, endpoint_id=self.id, incarnation=member.lives,
            tell=lambda cause, address: self.told.append(cause),
        )  # fmt: skip
        self.lower, self.upper = guarded(who, member.layer)

    def news(self) -> str:
        """What was told and counted so far."""
        told, self.told = self.told, []
        counted = sorted((Counter(self.lower.statistics) + Counter(self.upper.statistics)).items())
        return f"{self.name} {counted} {told} {self.lower.deadline} {self.upper.deadline} {self.upper.guard.changes}"


class Guards(Minutes):
    """Members that have met, and what they say to each other."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random, self.now = Random(seed), 100.0
        meeting = sealing.Run(seed, True, Minutes())
        for member in meeting.members:
            meeting.depart(member, member.layer.send(0.0, [sealing.train(None, member.beginning + b"hello")]))
        while meeting.under_way:
            items, meeting.under_way = meeting.under_way, []
            for member, arriving in items:
                meeting.receive(member, arriving)
        self.meeting = meeting
        self.members = [Guarded(member, meeting, meeting.key, self) for member in meeting.members]
        self.version = 1
        assert meeting.authority is not None
        self.policies = [Policy.make(meeting.authority, 1, POLICIES[seed % 2 + 1])]
        for one in self.members:
            self.taken(one, self.delivery(TOPIC, [self.policies[0].to_text().encode()], one))
        self.kept: list[tuple[Guarded, Inbound]] = []

    def go(self) -> str:
        """Take all steps; return the record."""
        acts: dict[Callable[[], str], float] = {
            self.protect: 14, self.interest: 4, self.deliver: 6, self.policy: 1, self.come: 1, self.renew: 0.3,
            self.ask: 3, self.note: 1, self.turn: 3, self.acknowledge: 2, self.wait: 2,
        }  # fmt: skip
        for _ in range(STEPS):
            (act,) = self.random.choices([*acts], [*acts.values()])
            self.say(act())
            for one in self.members:
                self.say(one.news())
        totals = Counter[str]()
        for one in self.members:
            totals.update(one.lower.statistics)
            totals.update(one.upper.statistics)
        return self.text() + "".join(f"{what}: {count}\n" for what, count in sorted(totals.items()))

    def protect(self) -> str:
        """A bundle goes from one to some, and some of it is lost, doubled, damaged or passed on by another."""
        random = self.random
        one, *others = random.sample(self.members, random.choice((2, 3, 4)))
        groups = [{"topic": topic} for topic in random.sample(TOPICS[:6], random.choice((1, 1, 2)))]
        body = orjson.dumps({"groups": groups}) + b"\n" + random.randbytes(9)
        if random.random() < 0.05:
            body = random.choice((b"no index", b'{"groups":1}\nx', b'{"groups":[{"topic":5}]}\nx', b"\x11"))
        item = Outbound(tuple(sorted(other.id for other in others)), [body], reliable=random.random() < 0.5)
        item.priority = random.choice((0, 1))
        one.lower.send(self.now, [item]) if random.random() < 0.5 else one.lower.send_one(self.now, item)
        sent = bytes(item.bodies[0])
        told = []
        for other in random.sample(self.members, 4):
            if other is one or random.random() < 0.1:
                continue
            bodies = [sent] if random.random() < 0.9 else [sent, sent]
            if random.random() < 0.06:
                bodies = [self.damaged(sent)]
            peer, life = (one if random.random() < 0.96 else others[0]), one.member.lives + (random.random() < 0.02)
            inbound = Inbound(peer.id, life, None, {}, bodies, 0.5, item.reliable)
            self.kept.append((other, inbound))
            told.append(self.arrive(other, inbound))
        if self.kept and random.random() < 0.1:
            told.append(self.arrive(*random.choice(self.kept)))
        return f"{one.name} {len(body)} {len(sent)} {crc32(sent):08x}: {told}"

    def damaged(self, body: bytes) -> bytes:
        place = self.random.randrange(len(body))
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        return self.random.choice((changed, body[:place], body[13:], body + b"x"))

    def arrive(self, other: Guarded, inbound: Inbound) -> str:
        found = other.lower.receive_one(self.now, inbound) if self.random.random() < 0.4 else None
        if found is None:
            up, _ = other.lower.receive(self.now, [inbound])
            return f"{other.name} {[self.shown(one) for one in up]}"
        return f"{other.name} at once {self.shown(found)}"

    def shown(self, item: Any) -> str:
        if isinstance(item, Inbound):
            return (
                f"{item.peer[:2]} {item.incarnation} {item.age} {item.reliable} {[bytes(body) for body in item.bodies]}"
            )
        if isinstance(item, PeerInterest):
            return f"{item.peer[:2]} +{item.added} -{item.removed}"
        return f"{type(item).__name__} {getattr(item, 'payloads', '')!r:.300} {getattr(item, 'topic', '')}"

    def interest(self) -> str:
        one, other = self.random.sample(self.members, 2)
        added, removed = (self.random.sample(PATTERNS, self.random.choice((0, 1, 3))) for _ in range(2))
        up, down = one.lower.receive(self.now, [PeerInterest(other.id, added, removed)])
        return f"{other.name} to {one.name} +{added} -{removed}: {[self.shown(item) for item in up]} {down}"

    def come(self) -> str:
        one, other = self.random.sample(self.members, 2)
        if self.random.random() < 0.5:
            one.lower.receive(self.now, [PeerAdded(other.id, 1, other.name, ("10.0.0.9", 1))])
            return f"{one.name} meets {other.name}"
        one.lower.receive_one(self.now, PeerRemoved(other.id, 1, other.name, "expired"))
        return f"{one.name} loses {other.name}"

    def delivery(self, topic: str, payloads: list[Any], publisher: Guarded) -> Delivery:
        return Delivery(topic, payloads, None, publisher.name, publisher.id, 1, 1, 0.0, False, ())

    def deliver(self) -> str:
        """Messages of others, of oneself, of strangers, and wills, come up to the gate above."""
        random = self.random
        one, other = random.choice(self.members), random.choice(self.members)
        topic = random.choice((*TOPICS[:-1], REFUSED + one.id))
        item = self.delivery(topic, [random.choice((b"x", "x", 5)) for _ in range(random.choice((1, 3)))], other)
        if random.random() < 0.1:
            item.publisher_id = "f" * 16
        if random.random() < 0.2:
            item.via = random.choice(self.members).id
        return f"{topic} {other.name} to {one.name}: {self.taken(one, item)}"

    def acknowledge(self) -> str:
        one, other = self.random.sample(self.members, 2)
        said = [
            {self.random.choice(("durable", "refused", "held", "unheld", "x")): self.random.choice((
                [[topic, 1]], [[topic, 1], [], 5, [6]], topic, [["news", 1], [topic, 2]],
            ))} for topic in self.random.sample(TOPICS, 3)
        ]  # fmt: skip
        item = self.delivery(DURABLE + "x", [*said, "text"], self.random.choice((one, other, other)))
        return f"{said} {other.name} to {one.name}: {self.taken(one, item)}"

    def taken(self, one: Guarded, item: Delivery) -> str:
        found = one.upper.receive_one(self.now, item) if self.random.random() < 0.5 else None
        if found is not None:
            return f"at once {self.shown(found)}"
        up, down = one.upper.receive(self.now, [item])
        return f"{[self.shown(one) for one in up]} {[self.shown(one) for one in down]}"

    def policy(self) -> str:
        """Rules come, most of them newer; the former ones, forged ones and cut ones come, too."""
        random = self.random
        assert self.meeting.authority is not None
        if random.random() < 0.7:
            self.version += random.choice((0, 1, 1, 2))
            self.policies.append(Policy.make(self.meeting.authority, max(self.version, 1), random.choice(POLICIES)))
        text = random.choice(self.policies[-3:]).to_text().encode()
        if random.random() < 0.1:
            text = random.choice((text[:-5], text.replace(b"home", b"hone"), b"{}"))
        told = [self.taken(one, self.delivery(TOPIC, [text], one)) for one in random.sample(self.members, 3)]
        return f"{len(text)} {told}"

    def renew(self) -> str:
        one = self.random.choice(self.members)
        one.member.layer.renew()
        for member in (one.member, *self.meeting.members):
            hello = member.layer.send(0.0, [sealing.train(None, member.beginning + b"on")])
            self.meeting.depart(member, hello)
            while self.meeting.under_way:
                self.meeting.receive(*self.meeting.under_way.pop(0))
        return f"{one.name} renews"

    def ask(self) -> str:
        """What a member itself may do, and what it is told if it may not."""
        one, told = self.random.choice(self.members), list[str]()
        for _ in range(4):
            action, topic = self.random.choice(ACTIONS), self.random.choice((*TOPICS, *PATTERNS))
            try:
                one.upper.guard.require(action, topic)
                told.append(f"{one.upper.guard.decide_own(action, topic)}")
            except GlueError as error:
                told.append(f"{error}")
        topic, other = self.random.choice(TOPICS), self.random.choice(self.members)
        told.append(f"{one.upper.guard.lets_hear(other.id, topic)} {one.upper.guard.lets_say(other.id, topic)}")
        return f"{one.name} {told} {one.upper.guard.rules.marks_of(topic)} {one.lower.fit(1000)} {one.upper.fit(10)}"

    def note(self) -> str:
        one, token = self.random.choice(self.members), self.random.randrange(3)
        item: Any = Unsubscribe(token) if self.random.random() < 0.3 else Subscribe(token, self.random.choice(PATTERNS))
        passed = (
            one.upper.send(self.now, [item]) if self.random.random() < 0.5 else [one.upper.send_one(self.now, item)]
        )
        return f"{one.name} {type(item).__name__} {token} {passed == [item]}"

    def turn(self) -> str:
        one = self.random.choice(self.members)
        up, down = one.upper.receive(self.now, [])
        lower, _ = one.lower.receive(self.now, [])
        return f"{one.name} {up} {[self.shown(item) for item in down]} {[self.shown(item) for item in lower]}"

    def wait(self) -> str:
        self.now += self.random.choice((0.1, 0.5, 0.99, 1.0, 1.01))
        return f"{self.now:.2f}"


class Files(Minutes):
    """A sealed directory on a disk with faults."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = Random(seed)
        self.disk = SimulatedDisk(Random(f"disk {seed}"))
        self.keys = [new_key(Random("files").randbytes)]
        self.lives = 0
        self.files = self.open()

    def open(self) -> SealedDirectory:
        self.lives += 1
        suite = (AES_GCM, CHACHA)[self.lives % 2]
        return sealed_directory(self.disk, self.keys[-1], suite, Random(f"life {self.lives}").randbytes, "here")

    def go(self) -> str:
        for _ in range(STEPS):
            act = self.random.choices(
                [self.append, self.read, self.truncate, self.rename, self.remove, self.sync, self.crash, self.damage],
                [12, 12, 3, 2, 1, 4, 2, 1],
            )[0]
            name = self.random.choice("abcdefg")
            try:
                told = act(name)
            except (GlueError, OSError, KeyError) as error:
                told = f"{type(error).__name__} {error}"
            sizes = [(one, self.files.size(one), self.disk.size(one)) for one in sorted(self.files.names())]
            self.say(f"{act.__name__} {name}: {told} {sizes} {self.disk.calls}")
        return self.text()

    def append(self, name: str) -> str:
        if name not in self.files.names():
            self.files.create(name)
        size = self.random.choice((0, 1, 50, 500, 5000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7))
        self.disk.is_full = self.random.random() < 0.05
        try:
            self.files.append(name, self.random.randbytes(size))
        finally:
            self.disk.is_full = False
        return f"{size}"

    def read(self, name: str) -> str:
        size = self.files.size(name)
        places = [(0, size), (0, 0), (size, 5), *((self.random.randrange(size + 9), self.random.randrange(99999)),) * 2]
        found = [self.files.read_at(name, *place) for place in places] + [self.files.read(name)]
        return str([None if one is None else f"{len(one)} {crc32(one):08x}" for one in found])

    def truncate(self, name: str) -> str:
        size = self.random.randrange(self.files.size(name) + 20)
        self.files.truncate(name, size)
        return f"{size}"

    def rename(self, name: str) -> str:
        new = self.random.choice((name + ".new", "abc"[self.random.randrange(3)]))
        self.files.rename(name, new)
        if new.endswith(".new"):
            self.files.rename(new, name)
        return new

    def remove(self, name: str) -> str:
        self.files.remove(name)
        return ""

    def sync(self, name: str) -> str:
        self.files.sync(name)
        self.files.sync_names()
        return ""

    def crash(self, name: str) -> str:
        """The power fails, or the process ends; another life opens the directory, at times with a newer key."""
        if self.random.random() < 0.6:
            self.disk.crash()
        if self.random.random() < 0.3:
            self.keys.append(rotated(self.keys[-1], Random(f"key {len(self.keys)}").randbytes))
        self.files = self.open()
        return f"{len(self.keys)}"

    def damage(self, name: str) -> str:
        """A bit is flipped, or the end of a file is cut, beneath."""
        size = self.disk.size(name)
        if not size:
            return "nothing"
        if self.random.random() < 0.5:
            self.disk.flip(name, self.random.randrange(8 * size))
        else:
            self.disk.truncate(name, self.random.randrange(size))
        self.files = self.open()
        return "done"


def guards() -> str:
    """Some runs of gates."""
    return "".join(Guards(seed).go() for seed in range(4))


def files() -> str:
    """Some runs of sealed files."""
    return "".join(Files(seed).go() for seed in range(4))


GUARDING: dict[str, Callable[[], str]] = {"guarded-topics": guards, "guarded-files": files}
