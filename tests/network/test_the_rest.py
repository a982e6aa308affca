"""Waiting for the rest of a stream that is being sent just now: by whom, for what, and for how long."""

from __future__ import annotations

import itertools
import math
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from glue.contract.train_buffer import STREAM
from glue.network import MulticastNetwork, list_interfaces
from glue.network.offload import enable_coalescing, segmentation_control
from glue.network.receiver import REST, Receiver
from tests.network.listening import free_port, opened

LOOPBACK = next(interface.name for interface in list_interfaces() if interface.loopback)


class Arrivals:
    """A poll object, while who asks it waits for more, of what comes meanwhile: `parts`, in their order."""

    def __init__(self, ends: tuple[socket.socket, socket.socket], parts: list[bytes], other: int | None = None) -> None:
        """`other`: a file descriptor that is readable, too."""
        self._sender, self._hearing = ends
        self._parts = parts
        self._others = [] if other is None else [(other, select.POLLIN)]
        self.asked = 0

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.asked += 1
        assert timeout <= 1.0
        if not self._parts:
            return self._others
        part = self._parts.pop(0)
        self._sender.sendmsg([part], segmentation_control(1001 if len(part) == LONG + 40 else 1000))
        return [(self._hearing.fileno(), select.POLLIN), *self._others]


LONG = 40_000  # bytes that one call sends, in datagrams of 1,000


@pytest.fixture
def receiver(ends: tuple[socket.socket, socket.socket]) -> Receiver:
    """What hears with UDP_GRO."""
    if not enable_coalescing(ends[1]):
        pytest.skip("this system has no UDP_GRO")
    receiver = Receiver(ends[1], True, Counter())
    receiver._resting = 10**6  # times that it sleeps without a look before
    return receiver


@pytest.mark.parametrize(
    ("later", "asked"),
    [([LONG, LONG, 12_345], 3), ([LONG, 20_000], 2), ([LONG], 2), ([], 1)],
    ids=[
        "which ends with a short datagram",
        "which ends with a shorter train",
        "which just ends",
        "that does not come",
    ],
)
def test_the_rest_of_what_is_being_sent_is_waited_for_and_comes_as_one(
    ends: tuple[socket.socket, socket.socket],
    receiver: Receiver,
    later: list[int],
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glue.network.receiver.REST", 60.0)
    sent = [bytes([number]) * size for number, size in enumerate([LONG, *later])]
    for patient in (True, False):
        coming = Arrivals(ends, sent[1:])
        monkeypatch.setattr(receiver, "_poll", coming)
        ends[0].sendmsg([sent[0]], segmentation_control(1000))
        trains = [bytes(train.data) for train in receiver.receive(8, patient=patient)]
        assert trains == [b"".join(sent) if patient else sent[0]]
        assert coming.asked == (asked if patient else 0)
        assert receiver.rested is patient


def test_nobody_waits_for_more_of_what_is_no_stream_nor_for_longer_than_a_moment(
    ends: tuple[socket.socket, socket.socket], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = Arrivals(ends, [b"more" * 250])
    monkeypatch.setattr(receiver, "_poll", coming)
    ends[0].sendmsg([bytes(STREAM - 1)], segmentation_control(1000))
    assert [len(train.data) for train in receiver.receive(8, patient=True)] == [STREAM - 1]
    assert not coming.asked
    clock = itertools.count(100.0, REST)  # each time that it is asked
    monkeypatch.setattr("glue.network.receiver.time.monotonic", lambda: next(clock))
    endless = Arrivals(ends, [bytes(LONG)] * 8)
    monkeypatch.setattr(receiver, "_poll", endless)
    ends[0].sendmsg([bytes(LONG)], segmentation_control(1000))
    assert [len(train.data) for train in receiver.receive(8, patient=True)] == [2 * LONG]
    assert endless.asked == 1


@pytest.mark.parametrize("comes", [True, False])
def test_nobody_waits_for_more_while_something_else_is_to_be_done(
    ends: tuple[socket.socket, socket.socket], receiver: Receiver, comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = Arrivals(ends, [bytes(LONG)] * (3 if comes else 0), other=0)
    monkeypatch.setattr(receiver, "_poll", coming)
    ends[0].sendmsg([bytes(LONG)], segmentation_control(1000))
    assert [len(train.data) for train in receiver.receive(8, patient=True)] == [2 * LONG if comes else LONG]
    assert coming.asked == 1


def test_all_waits_of_one_call_end_together(
    ends: tuple[socket.socket, socket.socket], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(100.0, REST / 4)
    monkeypatch.setattr("glue.network.receiver.time.monotonic", lambda: next(clock))
    sizes = [LONG, LONG + 40] * 10  # each train is another one than that before it
    coming = Arrivals(ends, [bytes(size) for size in sizes[1:]])
    monkeypatch.setattr(receiver, "_poll", coming)
    ends[0].sendmsg([bytes(LONG)], segmentation_control(1000))
    for asked in (4, 8):  # the next call waits anew
        assert [len(train.data) for train in receiver.receive(32, patient=True)] == sizes[:5]
        assert coming.asked == asked
        ends[0].sendmsg([bytes(LONG)], segmentation_control(1000))


class Looks:
    """A poll object whose every `every`-th look shows that more is there; it never comes while who asks it sleeps."""

    def __init__(self, receiver: Receiver, every: float) -> None:
        self._found = [(receiver._fileno, select.POLLIN)]
        self._every = every
        self.looks = 0

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.looks += not timeout
        return [] if timeout or self.looks % self._every else self._found


@pytest.mark.parametrize(("sched_batch", "expected"), [(False, 4), (True, 0)], ids=["for one", "for several"])
def test_what_comes_soon_need_not_wake_who_waits_for_it(
    ends: tuple[socket.socket, socket.socket], sched_batch: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.network.receiver.NEAR", 60.0)
    receiver = Receiver(ends[1], True, Counter(), sched_batch=sched_batch)
    looks = Looks(receiver, 2)
    monkeypatch.setattr(receiver, "_poll", looks)
    found = [receiver._wait_for_more() for _ in range(2)]
    assert found == [[] if sched_batch else [receiver._fileno]] * 2
    assert looks.looks == expected


def test_looks_in_vain_become_rare_until_one_is_not(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.network.receiver.REST", 60.0)
    monkeypatch.setattr("glue.network.receiver.NEAR", 0.0)
    receiver = Receiver(ends[1], True, Counter())

    def waits_until_looks() -> list[int]:
        """How many waits there are from one that begins with a look to the next."""
        found, since, before = [], 0, looks.looks
        for _ in range(300):
            receiver._wait_for_more()
            since += 1
            if looks.looks > before:
                found.append(since)
                since, before = 0, looks.looks
        return found

    looks = Looks(receiver, math.inf)
    monkeypatch.setattr(receiver, "_poll", looks)
    assert waits_until_looks() == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    looks = Looks(receiver, 1)
    monkeypatch.setattr(receiver, "_poll", looks)
    assert {*waits_until_looks()[1:]} == {1}


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MulticastNetwork, Callable[..., None]]]:
    """A network that would wait for the rest for ever, and what lets a train come that is a part of a stream."""
    monkeypatch.setattr("glue.network.receiver.REST", 60.0)
    monkeypatch.setattr("glue.network.receiver.SHORTEST", 60_000)
    with (
        opened(LOOPBACK, f"239.255.71.1:{free_port()}") as line,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        if not line.describe()["offload"]["UDP_GRO"]:
            pytest.skip("this system has no UDP_GRO")
        address = "127.0.0.1", line.unicast_address[1]

        def comes(size: int = LONG) -> None:
            sender.sendmsg([bytes(size)], segmentation_control(1000), 0, address)

        yield line, comes


def test_a_wake_ends_the_wait_for_the_rest(resting: tuple[MulticastNetwork, Callable[..., None]]) -> None:
    line, comes = resting
    comes()
    line.wait(10.0)
    waker = threading.Timer(0.05, line.wake)
    waker.start()
    assert [len(train.data) for train in line.receive()] == [LONG]
    waker.join()


@pytest.mark.parametrize("who", ["nobody", "another thread", "who is woken"])
def test_only_who_has_waited_and_is_not_wanted_waits_for_the_rest(
    resting: tuple[MulticastNetwork, Callable[..., None]], who: str
) -> None:
    line, comes = resting
    comes()
    if who == "another thread":
        other = threading.Thread(target=line.wait, args=(10.0,))
        other.start()
        other.join()
    elif who == "who is woken":
        line.wake()
        line.wait(10.0)
    assert [len(train.data) for train in line.receive()] == [LONG]


def test_how_to_wait_is_told_by_what_came_last(
    resting: tuple[MulticastNetwork, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, comes = resting
    monkeypatch.setattr("glue.network.receiver.SHORTEST", 0)
    ways = []

    def wait(timeout: float | None, patient: bool = False) -> list[int]:
        ways.append(patient)
        return usual(timeout, patient)

    usual = line._waiter.wait
    monkeypatch.setattr(line._waiter, "wait", wait)
    comes()
    line.wait(10.0)
    assert [len(train.data) for train in line.receive()] == [LONG]
    for _ in range(3):
        line.wait(0.0)
    assert ways == [False, True, False, False]
    comes(3000)  # a stream of short trains is slept for, and nobody need be patient for that
    line.wait(10.0)
    assert [len(train.data) for train in line.receive()] == [3000]
    line.wait(0.0)
    assert ways[4:] == [False, False]
