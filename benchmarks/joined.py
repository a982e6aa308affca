"""Two stacks side by side in one process, joined by nothing but a function call: what the layers cost, and no kernel.

Time is virtual: it stands still during an exchange and goes to the next deadline when nothing is on its way, so
that delayed acknowledgements are part of the work. Datagrams arrive as the network hands them up: what was sent as a
train in a buffer, a lone one by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import perf_counter

from glue.contract import Address, Delivery, Publication, Request, Subscribe, Train
from glue.fastpath.stack import FastStack
from glue.network.buffer import Arrived, Buffer
from glue.settings import Settings
from glue.stack import Identity

DATAGRAM = 1472  # bytes of UDP payload in an Ethernet frame
LONG = 1.0  # virtual seconds within which everything must be acknowledged


class Side:
    """One stack, and the seconds that its turns have taken."""

    def __init__(self, number: int) -> None:
        name = f"side-{number}"
        self.address = ("10.0.0.1", number)
        identity = Identity(name, f"{number:016x}", number, Settings(name=name), Random(number))
        self.stack = FastStack.build(identity, {})
        self.stack.fit(DATAGRAM)
        self.deadline = 0.0
        self.busy = 0.0
        self.heard = 0
        self._buffers: list[Buffer] = []

    def turn(self, now: float, trains: Sequence[Train], requests: list[Request]) -> list[Train]:
        """One turn, timed; counts the messages that come out at the top. What is due next is asked afterwards."""
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
        """What another side sent, as the network here hands it up."""
        while len(self._buffers) < len(sent):
            self._buffers.append(Buffer())
        return tuple(arrived(train, source, buffer) for train, buffer in zip(sent, self._buffers, strict=False))


class Joined:
    """A publisher and a subscriber of everything, which know each other."""

    def __init__(self) -> None:
        self.publisher, self.subscriber = Side(1), Side(2)
        self._now = 1.0
        self._pass(self.subscriber, self.subscriber.turn(self._now, [], [Subscribe(0, "#")]))
        self._pass(self.publisher, self.publisher.turn(self._now, [], []))
        for _ in range(10):  # the end of discovery
            self._wait()

    def publish(self, publication: Publication) -> None:
        """Publish, and let time pass until all is acknowledged."""
        heard = self.subscriber.heard + len(publication.payloads)
        self._pass(self.publisher, self.publisher.turn(self._now, [], [publication]))
        until = self._now + LONG
        while self.publisher.stack.backlog and self._now < until:
            self._wait()
        if self.subscriber.heard != heard:
            raise RuntimeError(f"{self.subscriber.heard - heard + len(publication.payloads)} messages arrived")

    def _wait(self) -> None:
        """To the next deadline of either side."""
        sides = (self.publisher, self.subscriber)
        self._now = max(self._now, min(side.deadline for side in sides))
        for side in sides:
            if side.deadline <= self._now:
                self._pass(side, side.turn(self._now, [], []))

    def _pass(self, source: Side, outgoing: list[Train]) -> None:
        """Carry datagrams over, and what comes back, until nothing more does."""
        while outgoing:
            destination = self.subscriber if source is self.publisher else self.publisher
            outgoing = destination.turn(self._now, destination.arrivals(outgoing, source.address), [])
            source = destination


def arrived(train: Train, source: Address, buffer: Buffer) -> Train:
    """A train that was sent, as it stands in this buffer when it comes; a lone datagram needs none."""
    size = len(train.data)
    if size <= train.segment:
        return Train(source, memoryview(train.data), train.segment)
    buffer.memory[:size] = train.data
    return Arrived(source, buffer, size, train.segment)
