"""In a session lone messages pass by one pattern; what becomes of them is what it would be without."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from glue.contract import Accept, Delivery, Subscribe, Unsubscribe
from glue.endpoint.accounting import account
from glue.endpoint.core import EndpointCore
from glue.settings import Settings
from glue.stack import LAYERS, Identity
from glue.topics import Topics
from glue.transport import Transport
from glue.transport.window import INITIAL, Window
from tests.support.endpoints import OPTIONS, Endpoints, Heeding, Plain, Wrapped, damaged, wrapped
from tests.support.sessions import BRIEF, STEP, Repliers, met


def something(rng: Random) -> tuple[str, Any, dict[str, Any]]:
    """A topic, a payload and options, most often plain."""
    choice = rng.random()
    if choice < 0.85:
        return rng.choice(("ping/1", "ping/2", "ping/3")), rng.randbytes(rng.randrange(100)), {}
    if choice < 0.9:
        return "ping/1", rng.choice((b"", bytes(1085), bytes(1280), bytes(3000), {"a": 1}, 5)), {}
    return rng.choice(("ping/1", "mixed", "ping/" + "long" * 100)), b"x", rng.choice(OPTIONS)


def after_a_rest(now: float, seconds: float, pairs: tuple[Repliers, ...]) -> float:
    """Nothing is sent for a while; first everything is acknowledged, as what is due for want of that may differ."""
    for _ in range(30):
        now += BRIEF
        for pair in pairs:
            pair.pass_time(now)
            while pair.wire:
                pair.arrive(now)
    return now + seconds


@pytest.mark.parametrize("seed", range(10))
def test_whatever_passes_in_a_session_becomes_the_same_as_without(seed: int) -> None:
    rng, now = Random(seed), 100.0
    count = rng.choice((2, 2, 3))
    density = rng.choice((0.6, 0.6, 1.0)) if count == 2 else 0.6
    pairs = Repliers(True, count), Repliers(False, count)
    rashness = rng.choice((0.0, 0.01, 0.05))
    habit: tuple[str, Any] | None = ("ping/1", b"same")  # what is sent most of the time, and by one of them
    for turn in range(1500):
        now += STEP
        if rng.random() < 0.02:
            now = after_a_rest(now, rng.choice((0.001, 0.05)), pairs)
        for pair in pairs:
            pair.pass_time(now)
        if rng.random() < density:
            index, (topic, payload, options) = rng.randrange(count), something(rng)
            if rng.random() < 0.02:
                habit = rng.choice((None, (rng.choice(("ping/1", "ping/2")), rng.choice((b"same", {"a": 1})))))
            if habit is not None and rng.random() < 0.97:
                index, (topic, payload), options = 0, habit, {}
            for pair in pairs:
                pair.reply(now, index, topic, payload, options)
        if rng.random() < rashness:
            request = rng.choice((Subscribe("late", "ping/2"), Unsubscribe("late"), Subscribe("late", "mixed")))
            for pair in pairs:
                pair.order(now, 1, request)
        assert list(pairs[0].wire) == list(pairs[1].wire)
        while pairs[0].wire:
            if rng.random() < rashness:
                to, source, data, _ = pairs[0].wire[0]
                forged = rng.choice((data, damaged(rng, data)))
                for pair in pairs:
                    pair.deliver(now, source, to, forged)
            for pair in pairs:
                pair.arrive(now)
            assert list(pairs[0].wire) == list(pairs[1].wire)
        if rng.random() < 0.05 or turn == 1499:
            assert pairs[0].state() == pairs[1].state()
    assert min(pairs[0].passed) > 100
    assert pairs[1].passed == [0, 0]


class Lossy(Repliers):
    """Where datagrams are lost, doubled and overtaken, once they have met."""

    def __init__(self, seed: int) -> None:
        super().__init__(True)
        self.rng = Random(seed)

    def arrive(self, now: float) -> None:
        choice = self.rng.random() if now > 101.0 else 1.0
        if choice < 0.02:
            self.wire.popleft()
        elif choice < 0.03:
            self.wire.append(self.wire[0])
        elif choice < 0.04:
            self.wire.rotate(1)
        else:
            super().arrive(now)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_lost_in_a_session_is_sent_again_and_comes_once_and_in_order(seed: int) -> None:
    now, repliers, sent = 100.0, Lossy(seed), 0
    for core in repliers.cores:
        assert core.settings.parity is None
    while now < 110.0:
        now += STEP if now > 101.0 and sent < 2000 else 0.01
        repliers.pass_time(now)
        if now > 101.0 and sent < 2000 and repliers.rng.random() < 0.3:
            repliers.reply(now, 0, "ping/1", b"%d" % sent, {})
            sent += 1
        while repliers.wire:
            repliers.arrive(now)
    received: dict[str, list[bytes]] = {"ping/1": [], "pong/ann": []}
    for kind, values in repliers.state()[0]:
        if kind is Delivery:
            event = dict(zip(Delivery.__slots__, values, strict=True))
            received[event["topic"]] += event["payloads"]
    assert received["ping/1"] == received["pong/ann"] == [b"%d" % number for number in range(sent)]
    assert min(repliers.passed) > 300
    ann, bob = (account({**core.stack.statistics, "endpoint": core.statistics}) for core in repliers.cores)
    for book in (ann, bob):
        assert book.owed == book.sent["delivered"] + book.sent["repaired"] == sent
        assert book.arrived == sent
        assert book.sent["repaired"] > 0
    assert all(core.is_done for core in repliers.cores)


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
    "a topic never received": (b"ping/1", b"ping/x"),
    "a topic that is not UTF-8": (b"ping/1", b"ping/\xff"),
    "a message beyond the next": (b'"sequence":', b'"sequence":1'),
    "no JSON as it says": (b'"length":1}', b'"length":1,"json":1}'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_out_of_the_ordinary_does_not_pass_and_leaves_no_trace(what: str) -> None:
    repliers, now = met(), 100.91
    repliers.reply(now, 0, "ping/1", b"{", {})
    _, _, data, _ = repliers.wire.popleft()
    core = repliers.cores[1]
    state = repliers.state()
    assert repliers.open(now, 1)
    old, new = REFUSED[what]
    assert old in data
    spoiled = data.replace(old, new, 1)
    assert core.stack.session.receive(now, spoiled) is None
    assert core.stack.session.receive(now, spoiled[:-1]) is None
    assert core.stack.session.receive(now, data, ("10.9.9.9", 9)) is None
    assert repliers.state()[1:] == state[1:]
    assert repliers.open(now, 1)
    assert core.stack.session.receive(now, data) is not None


def test_nor_does_an_acknowledgement_of_what_was_never_sent_or_what_comes_on_another_channel() -> None:
    repliers, now = met(), 100.91
    for _ in range(2):  # the answer acknowledges the question
        repliers.reply(now, 0, "ping/1", b"x", {})
        while len(repliers.wire) > 1 or repliers.wire[0][0] != 0:
            repliers.arrive(now)
        _, _, data, _ = repliers.wire.popleft()
        repliers.deliver(now, 1, 0, data)
    repliers.reply(now, 0, "ping/1", b"y", {})
    repliers.arrive(now)
    _, _, data, _ = repliers.wire.popleft()
    session = repliers.cores[0].stack.session
    assert repliers.open(now, 0)
    assert number_in(data, -5) > 0, "it carries one"
    for place, number in ((-4, number_in(data, -4) + 1), (-4, 0), (-5, 7), (-2, 7), (-1, 0)):
        assert session.receive(now, altered(data, place, number)) is None
    assert session.receive(now, data) is not None


def sent(repliers: Repliers, now: float) -> int:
    """How many messages leave, if nothing comes back."""
    assert repliers.open(now, 0)
    session, count = repliers.cores[0].stack.session, 0
    way = session.topic("ping/1")
    assert way is not None
    while count < 10_000 and session.send(now, 1e9, way, b"x", False):
        count += 1
    return count


def test_messages_leave_only_as_long_as_the_window_lets_them() -> None:
    repliers, now = met(), 100.91
    count = sent(repliers, now)
    assert INITIAL <= count < 10_000
    repliers.publish(now, 0, "ping/1", b"y", {})
    assert repliers.cores[0].stack.statistics["topics"]["messages published"] == 20 + count + 1


def test_nor_beyond_what_the_receiver_lets_come() -> None:
    repliers, now = met(), 100.91
    transport: Any = repliers.cores[0].stack.layers["transport"]
    (channel,) = transport.channels.values()
    repliers.order(now, 1, Accept(False))  # from now on it promises no more
    (member,) = channel.attached
    member.limit = channel.next + 3  # as after most of what it promised
    assert sent(repliers, now) == 3


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

    assert sent(met({"transport": made}), 100.91) > INITIAL


def test_a_session_is_over_when_frames_become_smaller() -> None:
    repliers, now = met(), 100.91
    assert repliers.open(now, 0)
    repliers.cores[0].stack.fit(600)
    assert repliers.cores[0].stack.session.topic("ping/1") is None


@pytest.mark.parametrize("made", [Heeding, Wrapped, wrapped(Plain, LAYERS)["topics"]])
def test_no_message_passes_by_a_layer_that_alters_one(made: Any) -> None:
    pair = Endpoints({"topics": made})
    assert pair.cores[0].stack.session.open() == -float("inf")
    assert pair.cores[0].stack.session.topic("t") is None


def test_a_subclass_that_alters_nothing_has_sessions() -> None:
    class Same(Topics):
        def __init__(self, who: Any) -> None:
            super().__init__(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name)

    core = EndpointCore(Settings(name="ann"), Random(1), 1e9, {"topics": Same})
    core.stack.fit(1472)
    core.stack.session.open()
    assert core.stack.session.is_open
