"""In a rally lone messages pass by what the layers made ready; what becomes of them is what it would be without."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract import Accept, Delivery, Event, Subscribe, Train, Unsubscribe
from glue.endpoint.accounting import ledger
from glue.endpoint.core import Core
from glue.endpoint.encoding import encoded
from glue.fastpath.session import PERIOD
from glue.settings import Settings
from glue.stack import LAYERS, Factory, Identity
from glue.topics import Topics
from glue.transport import Transport
from glue.transport.window import INITIAL, Window
from tests.fastpath.test_express_way import OPTIONS, Endpoints, Heeding, Plain, Wrapped, address, damaged, wrapped

PEERS = "ann", "bob", "cid"
INTERESTS = ("pong/+", "mixed"), ("ping/1", "ping/2"), ("ping/3", "pong/bob")
BRIEF = 100e-6  # seconds after which a rally is taken to be over; drivers wait for longer
STEP = BRIEF / 2


class Players(Endpoints):
    """Endpoints that answer what they hear; in rallies, as a driver lets them, or without."""

    def __init__(self, plays: bool, count: int = 2, replaced: dict[str, Factory] | None = None) -> None:
        super().__init__(replaced or {}, *PEERS[2:count])
        self.plays = plays
        self.until = [0.0] * count  # until when each has let messages pass
        self.latest = [0.0] * count  # when each let the latest
        self.passed = [0, 0]  # messages heard in rallies, and said
        self.deliveries: list[tuple[int, Delivery]] = []
        for index, patterns in enumerate(INTERESTS[:count]):
            for pattern in patterns:
                self.order(100.0, index, Subscribe(pattern, pattern))

    def _take(self, index: int, events: list[Event], trains: list[Train]) -> None:
        super()._take(index, events, trains)
        self.deliveries += [(index, event) for event in events if isinstance(event, Delivery)]

    def pass_time(self, now: float) -> None:
        """What is due, or has to be booked since nothing came for a while."""
        for index, core in enumerate(self.cores):
            is_played = core.stack.rally.is_open and now < self.latest[index] + BRIEF
            if is_played and now >= self.until[index]:
                self.until[index] = core.stack.prolong(now)
            if not (is_played and now < self.until[index]) and core.deadline <= now:
                self.turn(now, index)

    def _open(self, now: float, index: int) -> bool:
        core = self.cores[index]
        if not self.plays or (core.stack.rally.is_open and now < self.until[index]):
            return self.plays
        self.until[index] = core.stack.prolong(now)
        if now < self.until[index]:
            return True
        deadline = core.deadline
        self.until[index] = min(now + PERIOD, deadline, core.stack.rally.open())
        if self.until[index] <= now:
            core.stack.settle()
        return self.until[index] > now

    def hear(self, now: float, index: int, train: Train) -> None:
        """A datagram comes; what is heard is answered."""
        core = self.cores[index]
        rally: Any = core.stack.rally
        self.deliveries.clear()  # what they have said to themselves
        delivery = rally.hear(now, bytes(train.data)) if self._open(now, index) else None
        if delivery is None:
            self.receive(now, index, train)
        else:
            self.latest[index] = now
            self.passed[0] += 1
            core.hold(delivery)
            core.statistics["messages arrived"] += len(delivery.tokens)
            self._take(index, [delivery], [])
        heard, self.deliveries = self.deliveries, []
        for hearer, delivery in heard:
            if delivery.topic.startswith("ping/"):
                for payload in delivery.payloads:
                    self.say(now, hearer, "pong/" + delivery.publisher, payload, {})

    def receive(self, now: float, index: int, train: Train) -> None:
        """The same in the ordinary way."""
        if self.cores[index].deadline <= now:  # as of what has been booked just now
            self.turn(now, index)
        self.turn(now, index, (train,))

    def say(self, now: float, index: int, topic: str, payload: Any, options: dict[str, Any]) -> None:
        """Publish as the handler of a lone message does."""
        rally: Any = self.cores[index].stack.rally
        line = rally.line(topic) if not options and self._open(now, index) else None
        body, json = (payload, False) if payload.__class__ is bytes else encoded(payload)
        said = None if line is None else rally.say(now, 1e9 + now, line, body, json)
        if said is None:
            self.publish(now, index, topic, payload, options)
        else:
            self.latest[index] = now
            self.passed[1] += 1
            self._take(index, [], [Train(said[1], said[0], len(said[0]))])

    def deliver(self, now: float, source: int, to: int, data: bytes) -> None:
        """Something arrives that may, or may not, have been sent."""
        self.hear(now, to, Train(address(source), memoryview(data), len(data)))

    def arrive(self, now: float) -> None:
        """What is on the wire."""
        to, source, data, segment = self.wire.popleft()
        train = Train(address(source), memoryview(data), segment)
        if len(data) > segment:
            self.receive(now, to, train)
        else:
            self.hear(now, to, train)

    def state(self) -> tuple[Any, ...]:
        """Everything that is to be seen from outside; but when timers are due, as fewer round trips were measured."""
        told, wire, counted, _ = super().state()
        arrived = [core.statistics.copy() for core in self.cores]
        waiting = [(core.backlog, core.is_done, core.waiting) for core in self.cores]
        transports: list[Any] = [core.stack.layers["transport"] for core in self.cores]
        channels = [channel for transport in transports for channel in transport._channels.values()]
        windows = [member.window.frames for channel in channels for member in channel.attached]
        return told, wire, counted, arrived, waiting, windows


def something(luck: Random) -> tuple[str, Any, dict[str, Any]]:
    """A topic, a payload and options, most often plain."""
    choice = luck.random()
    if choice < 0.85:
        return luck.choice(("ping/1", "ping/2", "ping/3")), luck.randbytes(luck.randrange(100)), {}
    if choice < 0.9:
        return "ping/1", luck.choice((b"", bytes(1085), bytes(1280), bytes(3000), {"a": 1}, 5)), {}
    return luck.choice(("ping/1", "mixed", "ping/" + "long" * 100)), b"x", luck.choice(OPTIONS)


def after_a_rest(now: float, seconds: float, pairs: tuple[Players, ...]) -> float:
    """Nothing is said for a while; first everything is acknowledged, as what is due for want of that may differ."""
    for _ in range(30):
        now += BRIEF
        for pair in pairs:
            pair.pass_time(now)
            while pair.wire:
                pair.arrive(now)
    return now + seconds


@pytest.mark.parametrize("seed", range(10))
def test_whatever_passes_in_a_rally_becomes_the_same_as_without(seed: int) -> None:
    luck, now = Random(seed), 100.0
    count = luck.choice((2, 2, 3))
    density = luck.choice((0.6, 0.6, 1.0)) if count == 2 else 0.6
    pairs = Players(True, count), Players(False, count)
    rashness = luck.choice((0.0, 0.01, 0.05))
    habit: tuple[str, Any] | None = ("ping/1", b"same")  # what is said most of the time, and by one of them
    for turn in range(1500):
        now += STEP
        if luck.random() < 0.02:
            now = after_a_rest(now, luck.choice((0.001, 0.05)), pairs)
        for pair in pairs:
            pair.pass_time(now)
        if luck.random() < density:
            index, (topic, payload, options) = luck.randrange(count), something(luck)
            if luck.random() < 0.02:
                habit = luck.choice((None, (luck.choice(("ping/1", "ping/2")), luck.choice((b"same", {"a": 1})))))
            if habit is not None and luck.random() < 0.97:
                index, (topic, payload), options = 0, habit, {}
            for pair in pairs:
                pair.say(now, index, topic, payload, options)
        if luck.random() < rashness:
            request = luck.choice((Subscribe("late", "ping/2"), Unsubscribe("late"), Subscribe("late", "mixed")))
            for pair in pairs:
                pair.order(now, 1, request)
        assert list(pairs[0].wire) == list(pairs[1].wire)
        while pairs[0].wire:
            if luck.random() < rashness:
                to, source, data, _ = pairs[0].wire[0]
                forged = luck.choice((data, damaged(luck, data)))
                for pair in pairs:
                    pair.deliver(now, source, to, forged)
            for pair in pairs:
                pair.arrive(now)
            assert list(pairs[0].wire) == list(pairs[1].wire)
        if luck.random() < 0.05 or turn == 1499:
            assert pairs[0].state() == pairs[1].state()
    assert min(pairs[0].passed) > 100
    assert pairs[1].passed == [0, 0]


class Lossy(Players):
    """Where datagrams are lost, doubled and overtaken, once they have met."""

    def __init__(self, seed: int) -> None:
        super().__init__(True)
        self.luck = Random(seed)

    def arrive(self, now: float) -> None:
        choice = self.luck.random() if now > 101.0 else 1.0
        if choice < 0.02:
            self.wire.popleft()
        elif choice < 0.03:
            self.wire.append(self.wire[0])
        elif choice < 0.04:
            self.wire.rotate(1)
        else:
            super().arrive(now)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_lost_in_a_rally_is_sent_again_and_comes_once_and_in_order(seed: int) -> None:
    now, players, said = 100.0, Lossy(seed), 0
    for core in players.cores:
        assert core.settings.parity is None
    while now < 110.0:
        now += STEP if now > 101.0 and said < 2000 else 0.01
        players.pass_time(now)
        if now > 101.0 and said < 2000 and players.luck.random() < 0.3:
            players.say(now, 0, "ping/1", b"%d" % said, {})
            said += 1
        while players.wire:
            players.arrive(now)
    heard: dict[str, list[bytes]] = {"ping/1": [], "pong/ann": []}
    for kind, values in players.state()[0]:
        if kind is Delivery:
            event = dict(zip(Delivery.__slots__, values, strict=True))
            heard[event["topic"]] += event["payloads"]
    assert heard["ping/1"] == heard["pong/ann"] == [b"%d" % number for number in range(said)]
    assert min(players.passed) > 300
    ann, bob = (ledger({**core.stack.statistics, "endpoint": core.statistics}) for core in players.cores)
    for book in (ann, bob):
        assert book.owed == book.sent["delivered"] + book.sent["repaired"] == said
        assert book.arrived == said
        assert book.sent["repaired"] > 0
    assert all(core.is_done for core in players.cores)


def met(replaced: dict[str, Factory] | None = None) -> Players:
    """Two that have exchanged a few messages."""
    players, now = Players(True, replaced=replaced), 100.0
    for number in range(100):
        now += STEP if number >= 80 else 0.01
        players.pass_time(now)
        if number >= 80:
            players.say(now, 0, "ping/1", b"%d" % number, {})
        while players.wire:
            players.arrive(now)
    assert min(players.passed) > 3
    for _ in range(10):  # until all is acknowledged
        players.pass_time(100.9)
        while players.wire:
            players.arrive(100.9)
    players.state()
    return players


def altered(data: bytes, place: int, number: int) -> bytes:
    """A datagram with another number in this place of its header, counted from the end."""
    head, _, rest = data.partition(b"]}\n")
    parts = head.split(b",")
    parts[place] = b"%d" % number
    return b",".join(parts) + b"]}\n" + rest


def number_in(data: bytes, place: int) -> int:
    """The number there."""
    return int(data.partition(b"]}\n")[0].split(b",")[place])


REFUSED = {
    "a leading zero": (b'"data",0,0,', b'"data",0,00,'),
    "a resend": (b'"data",0,', b'"data",1,'),
    "of a group": (b'"data"', b'"group"'),
    "another network": (b'"glue":[1,1,', b'"glue":[1,2,'),
    "another version": (b'"glue":[1,', b'"glue":[2,'),
    "a longer payload": (b'"length":1', b'"length":2'),
    "an option": (b'"length":1', b'"length":1,"retain":1'),
    "a topic never heard": (b"ping/1", b"ping/x"),
    "a topic that is not UTF-8": (b"ping/1", b"ping/\xff"),
    "a message beyond the next": (b'"sequence":', b'"sequence":1'),
    "no JSON as it says": (b'"length":1}', b'"length":1,"json":1}'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_out_of_the_ordinary_does_not_pass_and_leaves_no_trace(what: str) -> None:
    players, now = met(), 100.91
    players.say(now, 0, "ping/1", b"{", {})
    _, _, data, _ = players.wire.popleft()
    core = players.cores[1]
    state = players.state()
    assert players._open(now, 1)
    old, new = REFUSED[what]
    assert old in data
    spoiled = data.replace(old, new, 1)
    assert core.stack.rally.hear(now, spoiled) is None
    assert core.stack.rally.hear(now, spoiled[:-1]) is None
    assert core.stack.rally.hear(now, data, ("10.9.9.9", 9)) is None
    assert players.state()[1:] == state[1:]
    assert players._open(now, 1)
    assert core.stack.rally.hear(now, data) is not None


def test_nor_does_an_acknowledgement_of_what_was_never_sent_or_what_comes_on_another_channel() -> None:
    players, now = met(), 100.91
    for _ in range(2):  # the answer acknowledges the question
        players.say(now, 0, "ping/1", b"x", {})
        while len(players.wire) > 1 or players.wire[0][0] != 0:
            players.arrive(now)
        _, _, data, _ = players.wire.popleft()
        players.deliver(now, 1, 0, data)
    players.say(now, 0, "ping/1", b"y", {})
    players.arrive(now)
    _, _, data, _ = players.wire.popleft()
    rally = players.cores[0].stack.rally
    assert players._open(now, 0)
    assert number_in(data, -5) > 0, "it carries one"
    for place, number in ((-4, number_in(data, -4) + 1), (-4, 0), (-5, 7), (-2, 7), (-1, 0)):
        assert rally.hear(now, altered(data, place, number)) is None
    assert rally.hear(now, data) is not None


def said(players: Players, now: float) -> int:
    """How many messages leave, if nothing comes back."""
    assert players._open(now, 0)
    rally, count = players.cores[0].stack.rally, 0
    line = rally.line("ping/1")
    assert line is not None
    while count < 10_000 and rally.say(now, 1e9, line, b"x", False):
        count += 1
    return count


def test_messages_leave_only_as_long_as_the_window_lets_them() -> None:
    players, now = met(), 100.91
    count = said(players, now)
    assert INITIAL <= count < 10_000
    players.publish(now, 0, "ping/1", b"y", {})
    assert players.cores[0].stack.statistics["topics"]["messages published"] == 20 + count + 1


def test_nor_beyond_what_the_receiver_lets_come() -> None:
    players, now = met(), 100.91
    transport: Any = players.cores[0].stack.layers["transport"]
    (channel,) = transport._channels.values()
    players.order(now, 1, Accept(False))  # from now on it promises no more
    (member,) = channel.attached
    member.limit = channel.next + 3  # as after most of what it promised
    assert said(players, now) == 3


def test_a_window_may_be_as_large_as_it_likes() -> None:
    class Huge(Window):
        @property
        def frames(self) -> float:
            return 1e9

        @frames.setter
        def frames(self, frames: float) -> None:
            pass

    def made(who: Identity) -> Transport:
        return Transport(endpoint_id=who.endpoint_id, window=Huge)

    assert said(met({"transport": made}), 100.91) > INITIAL


def test_a_rally_is_over_when_frames_become_smaller() -> None:
    players, now = met(), 100.91
    assert players._open(now, 0)
    players.cores[0].stack.fit(600)
    assert players.cores[0].stack.rally.line("ping/1") is None


@pytest.mark.parametrize("made", [Heeding, Wrapped, wrapped(Plain, LAYERS)["topics"]])
def test_no_message_passes_by_a_layer_that_alters_one(made: Any) -> None:
    pair = Endpoints({"topics": made})
    assert pair.cores[0].stack.rally.open() == -float("inf")
    assert pair.cores[0].stack.rally.line("t") is None


def test_a_subclass_that_alters_nothing_plays() -> None:
    class Same(Topics):
        def __init__(self, who: Any) -> None:
            super().__init__(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name)

    core = Core(Settings(name="ann"), Random(1), 1e9, {"topics": Same})
    core.stack.fit(1472)
    core.stack.rally.open()
    assert core.stack.rally.is_open
