"""Two stacks in one process, connected by function calls, to measure the layers without the kernel.

Time is virtual. It stands still during an exchange and moves to the next deadline when no datagram is under way, so
delayed acknowledgements are part of the work. Datagrams arrive as from the network: a train in a buffer, a single
datagram alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import perf_counter

from glue.contract import Address, Delivery, Publication, Request, Subscribe, Train
from glue.contract.train_buffer import Arrived, TrainBuffer
from glue.fastpath.stack import FastStack
from glue.settings import Settings
from glue.stack import Identity

DATAGRAM = 1472  # bytes of UDP payload in an Ethernet frame
LONG = 1.0  # virtual seconds until everything must be acknowledged


class Side:
    """One stack, and the seconds spent in its turns."""

    def __init__(self, number: int) -> None:
        name = f"side-{number}"
        self.address = ("10.0.0.1", number)
        identity = Identity(name, f"{number:016x}", number, Settings(name=name), Random(number))
        self.stack = FastStack.build(identity, {})
        self.stack.fit(DATAGRAM)
        self.deadline = 0.0
        self.busy = 0.0
        self.heard = 0
        self._buffers: list[TrainBuffer] = []

    def turn(self, now: float, trains: Sequence[Train], requests: list[Request]) -> list[Train]:
        """Run one measured turn and count the delivered messages. The deadline is read outside the measurement."""
        began = perf_counter()
        events, outgoing = self.stack.turn(now, trains, requests)
        self.busy += perf_counter() - began
        self.stack.commit()
        self.deadline = self.stack.deadline
        for event in events:
            if event.__class__ is Delivery:
                self.heard += len(event.payloads)
        return outgoing

    def arrivals(self, sent: list[Train], source: Address) -> Sequence[Train]:
        """Return trains from another side as the network would hand them up."""
        while len(self._buffers) < len(sent):
            self._buffers.append(TrainBuffer())
        return tuple(arrived(train, source, buffer) for train, buffer in zip(sent, self._buffers, strict=False))


class Joined:
    """A publisher and a subscriber to all topics. Both have discovered each other."""

    def __init__(self) -> None:
        self.publisher, self.subscriber = Side(1), Side(2)
        self._now = 1.0
        self._pass(self.subscriber, self.subscriber.turn(self._now, [], [Subscribe(0, "#")]))
        self._pass(self.publisher, self.publisher.turn(self._now, [], []))
        for _ in range(10):  # ends discovery
            self._wait()

    def publish(self, publication: Publication) -> None:
        """Publish, and let time pass until everything is acknowledged. Raises RuntimeError if a message is missing."""
        heard = self.subscriber.heard + len(publication.payloads)
        self._pass(self.publisher, self.publisher.turn(self._now, [], [publication]))
        until = self._now + LONG
        while self.publisher.stack.backlog and self._now < until:
            self._wait()
        if self.subscriber.heard != heard:
            raise RuntimeError(f"{self.subscriber.heard - heard + len(publication.payloads)} messages arrived")

    def _wait(self) -> None:
        """Move time to the next deadline of either side."""
        sides = (self.publisher, self.subscriber)
        self._now = max(self._now, min(side.deadline for side in sides))
        for side in sides:
            if side.deadline <= self._now:
                self._pass(side, side.turn(self._now, [], []))

    def _pass(self, source: Side, outgoing: list[Train]) -> None:
        """Deliver datagrams and the answers to them, until neither side sends."""
        while outgoing:
            destination = self.subscriber if source is self.publisher else self.publisher
            outgoing = destination.turn(self._now, destination.arrivals(outgoing, source.address), [])
            source = destination


def arrived(train: Train, source: Address, buffer: TrainBuffer) -> Train:
    """Return a sent train as it arrives: a train in the buffer, a single datagram without one."""
    size = len(train.data)
    if size <= train.segment:
        return Train(source, memoryview(train.data), train.segment)
    buffer.memory[:size] = train.data
    return Arrived(source, buffer, size, train.segment)
