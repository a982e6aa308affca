"""Endpoints that reply to each other in virtual time, in sessions of the fast path or without."""

from __future__ import annotations

from typing import Any

from glue.contract import Delivery, Event, Subscribe, Train
from glue.endpoint.encoding import encoded
from glue.fastpath.session import PERIOD
from glue.stack import Factory
from tests.support.endpoints import Endpoints, address

PEERS = "ann", "bob", "cid"
INTERESTS = ("pong/+", "mixed"), ("ping/1", "ping/2"), ("ping/3", "pong/bob")
BRIEF = 100e-6  # seconds after which a session is taken to be over; drivers wait for longer
STEP = BRIEF / 2


class Repliers(Endpoints):
    """Endpoints that answer what they receive; in sessions, as a driver lets them, or without."""

    def __init__(self, in_sessions: bool, count: int = 2, replaced: dict[str, Factory] | None = None) -> None:
        super().__init__(replaced or {}, *PEERS[2:count])
        self.in_sessions = in_sessions
        self.until = [0.0] * count  # until when each has let messages pass
        self.latest = [0.0] * count  # when each let the latest
        self.passed = [0, 0]  # messages received in sessions, and sent
        self.deliveries: list[tuple[int, Delivery]] = []
        for index, patterns in enumerate(INTERESTS[:count]):
            for pattern in patterns:
                self.order(100.0, index, Subscribe(pattern, pattern))

    def _take(self, index: int, events: list[Event], trains: list[Train]) -> None:
        super()._take(index, events, trains)
        self.deliveries += [(index, event) for event in events if isinstance(event, Delivery)]

    def pass_time(self, now: float) -> None:
        """What is due, or has to be committed since nothing came for a while."""
        for index, core in enumerate(self.cores):
            is_open = core.stack.session.is_open and now < self.latest[index] + BRIEF
            if is_open and now >= self.until[index]:
                self.until[index] = core.stack.session_until(now)
            if is_open and now < self.until[index]:
                continue
            core.stack.commit()
            if core.deadline <= now:
                self.turn(now, index)

    def open(self, now: float, index: int) -> bool:
        core = self.cores[index]
        if not self.in_sessions or (core.stack.session.is_open and now < self.until[index]):
            return self.in_sessions
        self.until[index] = core.stack.session_until(now)
        if now < self.until[index]:
            return True
        core.stack.commit()
        deadline = core.deadline
        self.until[index] = min(now + PERIOD, deadline, core.stack.session.open())
        if self.until[index] <= now:
            core.stack.commit()
        return self.until[index] > now

    def take_in(self, now: float, index: int, train: Train) -> None:
        """A datagram comes; what is received is answered."""
        core = self.cores[index]
        session = core.stack.session
        self.deliveries.clear()  # what they have sent to themselves
        delivery = session.receive(now, bytes(train.data)) if self.open(now, index) else None
        if delivery is None:
            self.receive(now, index, train)
        else:
            self.latest[index] = now
            self.passed[0] += 1
            core.hold(delivery)
            core.statistics["messages arrived"] += len(delivery.tokens)
            self._take(index, [delivery], [])
        received, self.deliveries = self.deliveries, []
        for receiver, delivery in received:
            if delivery.topic.startswith("ping/"):
                for payload in delivery.payloads:
                    self.reply(now, receiver, "pong/" + delivery.publisher, payload, {})

    def receive(self, now: float, index: int, train: Train) -> None:
        """The same in the ordinary way."""
        self.cores[index].stack.commit()
        if self.cores[index].deadline <= now:
            self.turn(now, index)
        self.turn(now, index, (train,))

    def reply(self, now: float, index: int, topic: str, payload: Any, options: dict[str, Any]) -> None:
        """Publish as the handler of a lone message does."""
        session = self.cores[index].stack.session
        way = session.topic(topic) if not options and self.open(now, index) else None
        body, json = (payload, False) if payload.__class__ is bytes else encoded(payload)
        sent = None if way is None else session.send(now, 1e9 + now, way, body, json)
        if sent is None:
            self.publish(now, index, topic, payload, options)
        else:
            self.latest[index] = now
            self.passed[1] += 1
            self._take(index, [], [Train(sent[1], sent[0], len(sent[0]))])

    def deliver(self, now: float, source: int, to: int, data: bytes) -> None:
        """Something arrives that may, or may not, have been sent."""
        self.take_in(now, to, Train(address(source), memoryview(data), len(data)))

    def arrive(self, now: float) -> None:
        """What is on the wire."""
        to, source, data, segment = self.wire.popleft()
        train = Train(address(source), memoryview(data), segment)
        if len(data) > segment:
            self.receive(now, to, train)
        else:
            self.take_in(now, to, train)

    def state(self) -> tuple[Any, ...]:
        """Everything that is to be seen from outside; but when timers are due, as fewer round trips were measured."""
        told, wire, counted, _ = super().state()
        arrived = [core.statistics.copy() for core in self.cores]
        waiting = [(core.backlog, core.is_done, core.waiting) for core in self.cores]
        transports: list[Any] = [core.stack.layers["transport"] for core in self.cores]
        channels = [channel for transport in transports for channel in transport.channels.values()]
        windows = [member.window.frames for channel in channels for member in channel.attached]
        return told, wire, counted, arrived, waiting, windows


def met(replaced: dict[str, Factory] | None = None) -> Repliers:
    """Two that have exchanged a few messages."""
    repliers, now = Repliers(True, replaced=replaced), 100.0
    for number in range(100):
        now += STEP if number >= 80 else 0.01
        repliers.pass_time(now)
        if number >= 80:
            repliers.reply(now, 0, "ping/1", b"%d" % number, {})
        while repliers.wire:
            repliers.arrive(now)
    assert min(repliers.passed) > 3
    for _ in range(10):  # until all is acknowledged
        repliers.pass_time(100.9)
        while repliers.wire:
            repliers.arrive(100.9)
    repliers.state()
    return repliers
