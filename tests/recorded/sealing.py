"""Recorded runs of security layers alone: members of a group that meet, stream, rotate their key, restart and forge.

A seed draws what happens. After each step the record has what each member opened, sent in return, told and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

from glue.contract import Address, Train
from glue.endpoint.core import id_of
from glue.security import AES_GCM, CHACHA, Key, MemberIdentity, Sealing, granted, new_key, rotated
from glue.security.hello import NewEpoch
from glue.security.runs import LAST
from glue.security.signing import public_of
from tests.recorded.minutes import Minutes

NOW = 1_700_000_000.0
STEPS = 200
SEEDS = 3
NAMES = ("hall", "kitchen", "attic", "guest")
SIZES = (60, 61, 200, 700)
COUNTS = (1, 1, 1, 2, 7, 8, 20, 64, 65)
NOWHERE: Address = ("10.9.9.9", 1)


class Member:
    """One member: its layer, and what it told since it was looked at."""

    def __init__(self, run: Run, number: int) -> None:
        self.name = NAMES[number]
        self.address: Address = (f"10.0.0.{number + 1}", 7000)
        self.beginning = b'{"glue":[1,1,"%s",' % id_of(self.name).encode()
        self.offered: Key | None = None
        self.told: list[str] = []
        self.kept: list[int] = []
        self.lives = 0
        self._run = run
        self._number = number
        self.begin(run.key)

    def begin(self, key: Key) -> None:
        """Begin a life with this key."""
        self.lives += 1
        identity: MemberIdentity | None = None
        if self._run.authority is not None:
            until = (None, self._run.unix_time + 700.0, self._run.unix_time + 1500, NOW + 9_000)[self._number]
            secret = Random(self.name).randbytes(32)
            identity = MemberIdentity(self.name, secret).admitted(self._run.authority, until, [])
        self.identity = identity
        self.layer = Sealing(
            key=key, network_id=1, suite=(AES_GCM, CHACHA)[self._number % 2], incarnation=self.lives,
            entropy=Random(f"{self.name} {self.lives}").randbytes, tell=self._tell, identity=identity,
            on_key=lambda key: self.kept.append(key.newest.number), new_key=lambda: self.offered,
            unix_time=lambda: self._run.unix_time,
        )  # fmt: skip
        self.counted: Counter[str] = Counter()
        self._state = ""

    def _tell(self, cause: str, address: Address | None) -> None:
        self.told.append(f"{cause} {address}")

    def news(self) -> str:
        """What has changed since this was asked before; empty if nothing has."""
        layer = self.layer
        counted = Counter(layer.statistics)
        more = [f"{count - self.counted[what]} {what}" for what, count in sorted(counted.items())]
        self.counted, told, kept = counted, self.told, self.kept
        self.told, self.kept = [], []
        lives = [(life.is_fresh, life.asked, life.newest, life.epoch_id, len(life.held)) for life in layer.lives]
        sealer = layer.sealer
        state = (
            lives, len(layer.lives.openers), sorted(layer.members), layer.deadline, sealer.numbers, sealer.epoch.number,
            sorted(sealer.partners), [epoch.number for epoch in layer.key.epochs], layer.look_at,
        )  # fmt: skip
        is_same, self._state = self._state == repr(state), repr(state)
        if is_same and not told and not kept and all(one.startswith("0 ") for one in more):
            return ""
        return f"{self.name}: {', '.join(one for one in more if not one.startswith('0 '))} {told} {kept} {state}"


class Run:
    """Members, and the datagrams that are on their way."""

    def __init__(self, seed: int, has_identities: bool, minutes: Minutes) -> None:
        self.random = Random(seed)
        self.minutes = minutes
        self.now, self.unix_time = 100.0, NOW
        self.authority = Random("authority").randbytes(32) if has_identities else None
        authority = None if self.authority is None else public_of(self.authority)
        self.key = new_key(Random("key").randbytes, authority)
        self.members = [Member(self, number) for number in range(len(NAMES))]
        self.stranger = Sealing(
            key=new_key(Random("other").randbytes), network_id=1, suite=AES_GCM, entropy=Random("stranger").randbytes,
            tell=lambda cause, address: None,
        )  # fmt: skip
        self.under_way: list[tuple[Member, Train]] = []  # where it goes to; the address is where it comes from
        self.former: list[tuple[Member, Train]] = []
        self.made = 0

    def go(self) -> Counter[str]:
        """Take all steps, and return what the members counted in all."""
        kinds: list[Callable[[], str]] = [
            *[self.send] * 10, *[self.arrive] * 14, *[self.wait] * 5, *[self.stream] * 2, *[self.wrap] * 2,
            *[self.expire] * 2, *[self.restart] * 2, self.rotate, self.forge, self.replay, self.peek, self.use_up,
            self.clone, self.claim, self.late,
        ]  # fmt: skip
        totals: Counter[str] = Counter()
        for _ in range(STEPS):
            self.minutes.say(self.random.choice(kinds)())
            for member in self.members:
                before = member.counted
                if news := member.news():
                    self.minutes.say(news)
                totals.update(member.counted - before)
        return totals

    # ------------------------------------------------------------------------------------------- datagrams

    def plain(self, member: Member, count: int, size: int) -> bytes:
        """Datagrams of a member, each another one, the last of them shorter."""
        self.made += count
        bodies = [(b"%b%d" % (member.beginning, self.made + number)).ljust(size) for number in range(count)]
        return b"".join(bodies)[: -self.random.choice((0, 0, 3)) or None]

    def depart(self, member: Member, trains: list[Train]) -> str:
        """Put on the way what a member sends; a multicast goes to all."""
        told = []
        for train in trains:
            data = bytes(train.data)
            told.append(f"{train.address} {train.segment} {len(data)} {crc32(data):08x}")
            arriving = Train(member.address, data, train.segment)
            for other in self.members:
                if (other.address == train.address) if train.address else True:
                    self.under_way.append((other, arriving))
                    self.former.append((other, arriving))
        del self.former[:-80]
        return f"{member.name} sends {told}"

    def receive(self, member: Member, train: Train) -> str:
        """Let a train arrive; what is sent in return is on its way then."""
        up, down = member.layer.receive(self.now, iter([train]))
        opened = [f"{one.address} {one.segment} {len(one.data)} {crc32(bytes(one.data)):08x}" for one in up]
        return f"{member.name} opens {opened}, {self.depart(member, down)}"

    def send(self) -> str:
        """A member sends a train to another, to all, or to nobody's address."""
        member, other = self.random.sample(self.members, 2)
        address = self.random.choice((other.address, other.address, None, (), NOWHERE))
        size, count = self.random.choice(SIZES), self.random.choice(COUNTS)
        writer = member if self.random.random() < 0.95 else other
        train = Train(address, self.plain(writer, count, size), size)
        return self.depart(member, member.layer.send(self.now, [train]))

    def arrive(self) -> str:
        """What is on its way arrives, in some other order, and some of it lost, doubled or damaged."""
        items, self.under_way = self.under_way, []
        told = []
        while items:
            member, train = items.pop(self.random.randrange(min(3, len(items))))
            luck = self.random.random()
            if luck < 0.05:
                continue
            if luck < 0.1:
                items.append((member, train))
            if luck > 0.95:
                train = self.damaged(train)
            told.append(self.receive(member, train))
        return "; ".join(told)

    def damaged(self, train: Train) -> Train:
        """A train with a flipped bit, without its end, or in two pieces of other ones."""
        data, random = bytearray(train.data), self.random
        kind = random.randrange(4)
        if kind == 0:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif kind == 1:
            del data[random.randrange(len(data)) :]
        elif kind == 2:
            del data[: train.segment]
        else:
            data += bytes(random.choice(self.former)[1].data)
        return Train(train.address, bytes(data), train.segment)

    # ------------------------------------------------------------------------------------- what else happens

    def wait(self) -> str:
        self.now += self.random.choice((0.001, 0.02, 0.5, 3.0, 12.0))
        return f"{self.now:.3f}"

    def stream(self) -> str:
        """Trains from one to another, until blocks are granted, fail and are granted again."""
        member, other = self.members[:2] if self.random.random() < 0.7 else self.random.sample(self.members, 2)
        told = []
        for number in range(60):
            train = Train(other.address, self.plain(member, 20, 80), 80)
            self.depart(member, member.layer.send(self.now, [train]))
            mine, self.under_way = self.under_way, []
            for to, arriving in mine:
                is_spoilt = self.random.random() < 0.01
                told.append(self.receive(to, self.damaged(arriving) if is_spoilt else arriving))
            self.now += 0.0001 * number
        return f"{len(told)} {crc32(repr(told).encode()):08x}"

    def restart(self) -> str:
        """A member begins another life: after a fork, or as a new process."""
        member = self.random.choice(self.members)
        if self.random.random() < 0.5:
            member.layer.renew()
            return f"{member.name} renews"
        newest = max((one.layer.key for one in self.members), key=lambda key: key.newest.number)
        member.begin(self.random.choice((member.layer.key, newest, newest)))
        return f"{member.name} restarts"

    def rotate(self) -> str:
        """A member, or several, are offered a key with another epoch; some are revoked."""
        random = self.random
        key = max((member.layer.key for member in self.members), key=lambda key: key.newest.number)
        entropy = Random(f"epoch {key.newest.number}").randbytes
        key = rotated(key, entropy, overlap=random.choice((5.0, 20.0)), shares=random.random() < 0.8)
        if self.authority is not None:
            key = granted(key, self.authority, ["guest"] if random.random() < 0.3 else [])
        some = random.sample(self.members, random.choice((1, 1, 2, 4)))
        for member in some:
            member.offered = key
        return f"{[member.name for member in some]} are offered {key.newest.number}, {key.revoked}"

    def forge(self) -> str:
        """Datagrams of who has no key, or another one."""
        member, random = self.random.choice(self.members), self.random
        sealed = bytes(self.stranger.send(self.now, [Train(None, b'{"glue":[1,1,', 13)])[0].data)
        true = bytes(random.choice(self.former)[1].data) if self.former else sealed
        wrong = [
            b'{"glue":[1,1,"0123456789abcdef",1,0]}\n', b'{"glue":[1,2,"0123456789abcdef",1,0]}\n', b"junk", b"",
            sealed, true[:2] + b"\0\2" + true[4:], true[:20], true[:40], true[:41], true[:1] + sealed[1:],
            bytes([true[0] ^ 2]) + true[1:], bytes([true[0] ^ 4]) + true[1:], true[:20] + bytes(4) + true[24:],
        ]  # fmt: skip
        return "; ".join(self.receive(member, Train(NOWHERE, data, len(data))) for data in wrong)

    def replay(self) -> str:
        """What was sent before comes again, to whom it was for and to who sent it."""
        some = self.random.sample(self.former, min(4, len(self.former)))
        told = [self.receive(member, train) for member, train in some]
        return "; ".join(told + [self.receive(other, train) for _, train in some for other in self.members[:1]])

    def peek(self) -> str:
        """A lone datagram is opened on the short way."""
        member, other = self.random.sample(self.members, 2)
        told: list[Any] = []
        for address in (other.address, None):
            sealed = bytes(member.layer.send(self.now, [Train(address, self.plain(member, 1, 60), 60)])[0].data)
            for data in (sealed, sealed[:-1], sealed[:30]):
                opened = other.layer.peek(data)
                told.append(opened)
                if opened is not None:
                    other.layer.accept(data)
                    told.append(other.layer.peek(data))
        return f"{member.name} to {other.name}: {told}"

    def use_up(self) -> str:
        """The numbers of a life come to their end."""
        member, kind = self.random.choice(self.members), self.random.randrange(2)
        member.layer.sealer.numbers[kind] = LAST - self.random.randrange(4)
        return f"{member.name} has numbers {member.layer.sealer.numbers}"

    def clone(self) -> str:
        """A copy of a member, with its random bytes, sends."""
        member = self.random.choice(self.members)
        ahead = Train(None, self.plain(member, 1, 60), 60)
        before = member.layer.sealer.numbers[:]
        member.layer.sealer.numbers = [number + 5 for number in before]
        sealed = bytes(member.layer.send(self.now, [ahead])[0].data)
        member.layer.sealer.numbers = before
        return self.receive(member, Train(NOWHERE, sealed, len(sealed)))

    def wrap(self) -> str:
        """Signatures, and keys that are wrapped for one other."""
        one, other = self.random.sample(self.members, 2)
        mine, yours = one.layer.wrapper, other.layer.wrapper
        if mine is None or yours is None:
            return f"{one.name} wraps nothing"
        signature = mine.sign(b"data")
        wrapped = mine.wrap(yours.salt, b"key id", bytes(32))
        peers, salts = (id_of(one.name), id_of("nobody")), (mine.salt, bytes(16))
        signed = [yours.is_signed(peer, signature, data) for data in (b"data", b"date") for peer in peers]
        opened = [yours.unwrap(peer, salt, b"key id", wrapped or b"") for peer in peers for salt in salts]
        numbers = [yours.first_number(id_of(one.name), incarnation) for incarnation in range(one.lives + 1)]
        lives = [(peer, salt.hex()) for peer, salt in yours.lives([id_of(name) for name in NAMES])]
        return f"{one.name} to {other.name}: {wrapped!r} {signed} {opened} {numbers} {lives} {mine.next_number()}"

    def claim(self) -> str:
        """A member sends the next epoch, which it made itself."""
        one, other = self.random.sample(self.members, 2)
        if self.authority is None:
            return f"{one.name} makes no epoch"
        number = one.layer.key.newest.number + self.random.choice((0, 1, 1, 2))
        body = NewEpoch(number, 60, bytes(32), (), self.random.choice((b"", bytes(64), one.layer.key.grant))).encode()
        kept = one.layer.send(self.now, [Train(other.address, body, len(body))])
        return self.receive(other, Train(one.address, bytes(kept[-1].data), len(kept[-1].data)))

    def late(self) -> str:
        """A datagram that thousands overtook."""
        one, other = self.random.sample(self.members, 2)
        late = [
            bytes(one.layer.send(self.now, [Train(to, one.beginning, 26)])[-1].data) for to in (other.address, None)
        ]
        one.layer.sealer.numbers = [
            number + self.random.choice((4095, 4096, 4097)) for number in one.layer.sealer.numbers
        ]
        trains = [Train(to, self.plain(one, 1, 60), 60) for to in (other.address, None)]
        last = [bytes(train.data) for train in one.layer.send(self.now, trains)]
        return "; ".join(self.receive(other, Train(one.address, data, len(data))) for data in last + late)

    def expire(self) -> str:
        """Wall clocks go on, and certificates end."""
        self.unix_time += self.random.choice((1.0, 300.0, 2000.0))
        return f"{self.unix_time}"


def train(address: Address | None, data: bytes) -> Train:
    """One datagram."""
    return Train(address, data, len(data))


def sealing(has_identities: bool) -> str:
    """Return the record of some seeds."""
    minutes, totals = Minutes(), Counter[str]()
    for seed in range(SEEDS):
        totals.update(Run(seed, has_identities, minutes).go())
    return minutes.text() + "".join(f"{what}: {count}\n" for what, count in sorted(totals.items()))


SEALING: dict[str, Callable[[], str]] = {
    "sealing-group": partial(sealing, False),
    "sealing-members": partial(sealing, True),
}
