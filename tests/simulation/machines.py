"""Toy machines for the simulator's tests: they show what a host was given, and send what they are told to."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from glue.contract import Address, Event, Request, Train
from glue.simulation import Host, World


class Listener:
    """Keeps all that it is given, with the time on its clock."""

    def __init__(self) -> None:
        self.deadline = inf
        self.turns: list[float] = []
        self.trains: list[tuple[float, Address | None, bytes, int]] = []
        self.requests: list[Request] = []

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        self.turns.append(now)
        self.trains += [(now, train.address, bytes(train.data), train.segment) for train in trains]
        self.requests += requests
        return [], []

    @property
    def datagrams(self) -> list[bytes]:
        return [datagram for _, _, data, segment in self.trains for datagram in cut(data, segment)]

    @property
    def numbers(self) -> list[int]:
        """The numbers of what a `Counting` sent, in order of arrival."""
        return [int.from_bytes(datagram[:4], "big") for datagram in self.datagrams]


class Counting(Listener):
    """Sends numbered datagrams of `size` bytes, `together` of them in one train each `interval` seconds."""

    def __init__(
        self, to: Address | None = None, *, count: int = 1, interval: float = 0.001, size: int = 100, together: int = 1
    ) -> None:
        super().__init__()
        self.deadline = 0.0
        self._to = to
        self._left = range(count)
        self._interval = interval
        self._size = size
        self._together = together

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        super().turn(now, trains, requests)
        if now < self.deadline:
            return [], []
        numbers, self._left = self._left[: self._together], self._left[self._together :]
        self.deadline = now + self._interval if self._left else inf
        return [], [Train(self._to, b"".join(numbered(number, self._size) for number in numbers), self._size)]


class Echo:
    """Sends everything back to where it came from."""

    deadline = inf

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        return [], [Train(train.address, bytes(train.data), train.segment) for train in trains]


class Timer(Listener):
    """Wants to be called at these times on its clock."""

    def __init__(self, *deadlines: float) -> None:
        super().__init__()
        self._deadlines = [*sorted(deadlines), inf]
        self.deadline = self._deadlines[0]

    def turn(self, now: float, trains: list[Train], requests: list[Request]) -> tuple[list[Event], list[Train]]:
        self.deadline = next(deadline for deadline in self._deadlines if deadline > now)
        return super().turn(now, trains, requests)


def numbered(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big") + bytes(size - 4)


def cut(data: bytes, segment: int) -> Sequence[bytes]:
    return [data[start : start + segment] for start in range(0, len(data) or 1, segment)]


def listeners(world: World, count: int) -> tuple[list[Listener], list[Host]]:
    machines = [Listener() for _ in range(count)]
    return machines, [world.add(machine) for machine in machines]
