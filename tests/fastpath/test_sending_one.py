"""What takes the fast path down, to one peer or to a group, is what would go without it, and so is all that follows.

Several endpoints publish many payloads at once, small and large, while they come and go, lose what is on the wire, and
change topics and classes: once with the fast path, once without, every datagram being compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Downward, Leave, Outbound, Subscribe, Train, Unsubscribe
from glue.contract.train_buffer import JOINED
from glue.drivers.send_policy import BUNDLE
from glue.endpoint.core import CHUNK, CHUNK_COUNT, LARGE_MESSAGE, PRIORITIES, EndpointCore
from glue.fastpath.stack import FAST_PATHS
from glue.fragmentation import Fragmentation
from glue.fragmentation.fastpath import FragmentationFastPath
from glue.network.receiver import LONGEST
from glue.serialization import Serialization
from glue.serialization.fastpath import SerializationFastPath
from glue.settings import Settings
from glue.stack import LAYERS, Factory, Identity
from glue.topics import BUNDLE_SIZE
from glue.transport import Transport
from glue.transport.channel import Channel
from glue.transport.fastpath import TransportFastPath
from tests.support.endpoints import FRAME, Plain, turns, wrapped
from tests.topics import parties as party

NAMES = "ann", "bob", "cid", "dan", "eve"
TOPICS = ("t", "room/1", 'b/"quoted"\x7f', "room/2")
SIZES = (0, 0, 1, 16, 16, 99, 1000, 7900, 7999, 8000, 8001, 32_767, 32_768, 60_000)
LARGEST = BUNDLE_SIZE
OPTIONS: tuple[dict[str, Any], ...] = (
    {"retain": True}, {"type": "t"}, {"lifespan": 0.2}, {"reliability": "best-effort"}, {"priority": "high"},
)  # fmt: skip

Wire = deque[tuple[int, int | None, bytes, int]]
"""From whom, to whom (None: to all), datagrams, and the size of each."""


class Attentive(Transport):
    """With whatever is sent, it looks on all channels for what is to be sent again, which else has to wait."""

    def __init__(self, who: Identity) -> None:
        super().__init__(endpoint_id=who.endpoint_id, parity=who.settings.parity)


class AttentivePath(TransportFastPath):
    """The fast path of such a layer."""

    def send_one(self, now: float, item: Downward) -> Outbound | None:
        for channel in self.busy.values():
            if any(member.lost or member.detached for member in channel.members.values()):
                return None
        return super().send_one(now, item)


FAST_PATHS[Attentive] = AttentivePath


class Company:
    """The layers of some endpoints, who sends what, and what they tell, in virtual time."""

    def __init__(self, count: int, replaced: dict[str, Factory]) -> None:
        self.replaced = replaced
        self.cores: list[EndpointCore | None] = [None] * count
        self.lives = 0
        self.wire: Wire = deque()
        self.told: list[Any] = []
        self.left: list[Any] = []
        for index in range(count):
            self.begin(index)

    def begin(self, index: int) -> None:
        """An endpoint starts, maybe in another life."""
        self.lives += 1
        rng = Random(f"{index} {self.lives}")
        settings = Settings(name=NAMES[index], announce_interval=0.5)
        core = self.cores[index] = EndpointCore(settings, rng, 1e9 + self.lives, self.replaced)
        core.stack.fit(FRAME)

    def turn(self, now: float, index: int, *trains: Train) -> None:
        """A turn of one of them, and those that are due then."""
        core = self.cores[index]
        if core is None:
            return
        for events, out in turns(core, now, trains):
            self._take(index, events, out)

    def send(self, now: float, index: int, make: Callable[[EndpointCore], list[Any]]) -> None:
        """Publications go down at once."""
        core = self.cores[index]
        if core is not None:
            self._take(index, [], core.send(now, make(core)))
            self.turn(now, index)

    def order(self, now: float, index: int, *requests: Any) -> None:
        core = self.cores[index]
        if core is not None:
            for request in requests:
                core.outbox.order(request)
            self.turn(now, index)

    def _take(self, index: int, events: list[Any], trains: list[Train]) -> None:
        for event in events:
            if isinstance(event, Delivery):
                event.to_owned()
                core = self.cores[index]
                assert core is not None
                core.handled(event)
            slots = [0.0 if slot == "age" else getattr(event, slot, None) for slot in event.__slots__]
            self.told.append((index, event.__class__, slots))
        for train in trains:
            to = train.address[1] - 1 if train.address else None
            step = max(1, FRAME * 40 // train.segment) * train.segment  # as much as one train brings
            for start in range(0, len(train.data), step):
                data = bytes(train.data[start : start + step])
                self.wire.append((index, to, data, train.segment))
                self.left.append((index, train.address, data, train.segment))

    def arrive(self, now: float, losses: Callable[[int], bool]) -> None:
        """The next on the wire arrives with whomever it is for, if it is not lost on the way."""
        sender, to, data, segment = self.wire.popleft()
        for index in range(len(self.cores)) if to is None else (to,):
            if (index == sender and to is None) or losses(index):
                continue
            self.turn(now, index, Train(("10.0.0.1", sender + 1), memoryview(data), segment))

    def state(self) -> tuple[Any, ...]:
        """Everything that is to be seen from outside, and that was told and left since the last time."""
        told, self.told = self.told, []
        left, self.left = self.left, []
        cores = [core for core in self.cores if core is not None]
        for core in cores:
            core.stack.commit()
        counted = [core.stack.statistics for core in cores]
        return told, left, counted, [(core.deadline, core.stack.backlog, core.is_done) for core in cores]


class Plot:
    """What happens to a company, drawn from one seed, so that the same happens to another."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.count = rng.choice((2, 2, 3, 3, 4, 5))
        self.companies = (
            Company(self.count, {"transport": Attentive}),
            Company(self.count, wrapped(Plain, LAYERS)),
        )
        self.deaf = [0.0] * self.count  # until when nothing gets to each
        self.loss = rng.choice((0.0, 0.0, 0.003, 0.02, 0.1))
        self.rashness = rng.choice((0.0, 0.002, 0.01))  # how often anybody comes, goes, or changes its mind
        self.now = 100.0
        for index in range(self.count):
            self.all("order", index, Subscribe("first", rng.choice(("#", "#", "room/+")) if index else "room/2"))

    def all(self, method: str, *args: Any) -> None:
        for company in self.companies:
            getattr(company, method)(self.now, *args)

    def step(self) -> None:
        rng = self.rng
        self.now += rng.choice((*[1e-4] * 12, 1e-3, 0.02, 0.3))
        for company in self.companies:
            for index, core in enumerate(company.cores):
                if core is not None and core.deadline <= self.now:
                    company.turn(self.now, index)
        if rng.random() < 0.5:
            self.publish(rng.randrange(self.count) if rng.random() < 0.3 else 0)
        if rng.random() < self.rashness:
            self.change()
        for _ in range(rng.choice((0, 3, 10, 30))):
            self.arrive()

    def publish(self, index: int) -> None:
        rng = self.rng
        topic = rng.choice(TOPICS) if rng.random() < 0.3 else TOPICS[0]
        size, count = rng.choice(SIZES), rng.choice((1, 1, 2, 7, 64, 500, 1024))
        if rng.random() < 0.01:
            size, count = rng.choice((0, 1)), rng.choice((16_384, 16_385))
        elif rng.random() < 0.03:
            count = rng.choice((1, 5, 64))
            size = (LARGEST - 190 - 3) // count + rng.choice((-1, 0, 1))
        count = min(count, LARGEST // max(size, 1) + 1)
        payloads: list[Any] = [rng.randbytes(size)] * count
        if rng.random() < 0.1:
            payloads[-1] = b"another"
        if rng.random() < 0.1:
            payloads = [{"a": rng.randrange(10)}, {"a": 5}, [1, 2, 3]][: len(payloads)]
        priority = rng.choice(tuple(PRIORITIES)) if rng.random() < 0.02 else "normal"
        if rng.random() < 0.05:
            options = rng.choice(OPTIONS)
            self.all("send", index, lambda core: [core.publication(topic, payloads[0], 1e9 + self.now, **options)])
        elif rng.random() < 0.8:
            self.all("send", index, lambda core: core.publications(topic, payloads, 1e9 + self.now, priority))
        else:
            for company in self.companies:
                if (core := company.cores[index]) is not None:
                    core.outbox.add(*core.publications(topic, payloads, 1e9 + self.now, priority))
                    core.outbox.add(core.publication(topic, payloads[0], 1e9 + self.now, priority=priority))
            self.all("turn", index)

    def change(self) -> None:
        rng, index = self.rng, self.rng.randrange(self.count)
        choice = rng.random()
        if choice < 0.3:
            self.deaf[index] = self.now + rng.choice((0.02, 0.2, 1.0, 3.0))
        elif choice < 0.6:
            self.all("order", index, rng.choice((Subscribe("late", rng.choice((*TOPICS, "#"))), Unsubscribe("late"))))
        elif self.companies[0].cores[index] is None:
            for company in self.companies:
                company.begin(index)
            self.all("order", index, Subscribe("first", "#"))
        elif choice < 0.8:
            if choice < 0.7:
                self.all("order", index, Leave())
            for company in self.companies:
                company.cores[index] = None

    def arrive(self) -> None:
        rng, seed = self.rng, self.rng.random()
        for company in self.companies:
            if company.wire:
                dice = Random(seed)
                lost = [dice.random() < self.loss or self.deaf[index] > self.now for index in range(self.count)]
                company.arrive(self.now, lost.__getitem__)
        if rng.random() < 0.002:
            for company in self.companies:
                company.wire.rotate(rng.choice((1, 1)))

    def check(self) -> None:
        assert self.companies[0].state() == self.companies[1].state()


@pytest.mark.parametrize("seed", [2, 7, 8, 29, 34, 42, 43])
def test_whatever_is_published_leaves_the_same_with_the_fast_path_as_without(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[tuple[str, bool]] = []  # of what kind of channel, and whether cut
    send_now = Channel.send_now

    def noted(self: Channel, now: float, item: Outbound) -> Outbound | None:
        frames = send_now(self, now, item)
        if frames is not None:
            went.append((self.kind, len(frames.bodies) > 1))
        return frames

    monkeypatch.setattr(Channel, "send_now", noted)
    plot = Plot(seed)
    for _ in range(150):
        plot.step()
        plot.check()
    kind = "data" if plot.count == 2 else "group"
    assert {(kind, False), (kind, True)} <= {*went}


@pytest.mark.parametrize("count", [2, 1024])
def test_of_many_messages_all_may_be_empty(count: int) -> None:
    core = EndpointCore(Settings(name="ann"), Random(1), 1e9, {})
    (publication,) = core.publications("t", [b""] * count, 1e9)
    assert publication.payloads == [b""] * count
    assert publication.length == publication.size == 0


@pytest.mark.parametrize("size", [1000, 8000, 32_768, 65_536, CHUNK, BUNDLE_SIZE - 200])
def test_what_is_taken_of_a_stream_at_once_is_one_bundle_one_train_and_read_as_one(size: int) -> None:
    topics, fragmentation = party.topics(), Fragmentation()
    topics.receive(0.0, [party.added("ann"), party.wants("ann", "t")])
    serialization = Serialization(endpoint_id="a" * 16, incarnation=1 << 52, network_id=1 << 52, counter=10**13)
    fragmentation.fit(serialization.fit(FRAME))
    payloads = [bytes(size)] * min(CHUNK_COUNT, (BUNDLE_SIZE - 200) // size)
    for _ in range(2):
        (bundle,) = party.outbounds(topics.send(0.0, [party.message("t", *payloads)]))
        frames = FragmentationFastPath(fragmentation).send_one(0.0, bundle)
        assert isinstance(frames, Outbound)
        train = SerializationFastPath(serialization).send_one(0.0, frames)
        assert train is not None
        assert len(train.data) <= JOINED
        assert len(train.data) <= LONGEST * train.segment
    assert max(CHUNK, BUNDLE + LARGE_MESSAGE) <= BUNDLE_SIZE - 200, "nor is what is gathered more than a bundle"
