"""Reading a socket: how far it looks for more."""

from __future__ import annotations

import random
import socket
from collections import Counter

import pytest

from glue.contract import Train
from glue.contract.pieces import Pieces
from glue.contract.train_buffer import BORROWED, JOINED, Arrived, TrainBuffer
from glue.network.loopback import MulticastLoopback
from glue.network.offload import enable_coalescing, segmentation_control
from glue.network.receiver import FEW, SHORT, UNSEEN, Receiver


@pytest.fixture
def as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datagrams as short as in these tests are trains like any others."""
    monkeypatch.setattr("glue.network.receiver.SHORT", 0)


def test_what_comes_along_with_something_fresh_is_left_for_the_next_call(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    for payload in (b"one", b"two", b"three"):
        sender.send(payload)
    assert [bytes(train.data) for train in receiver.receive(8, fresh=True)] == [b"one"]
    assert [bytes(train.data) for train in receiver.receive(8)] == [b"two", b"three"]
    assert [bytes(train.data) for train in receiver.receive(8, fresh=True)] == []


def test_what_was_glanced_at_and_kept_is_received_next_whatever_was_received_meanwhile(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, hearing = ends
    statistics: Counter[str] = Counter()
    receiver = Receiver(hearing, False, statistics)
    for payload in (b"first", b"second", b"third", b"fourth"):
        sender.send(payload)
    first = receiver.glance()
    assert first == b"first"
    assert [bytes(train.data) for train in receiver.receive(8, fresh=True)] == [b"second"]  # as another thread may
    receiver.keep(first)
    assert [bytes(train.data) for train in receiver.receive(8)] == [b"first", b"third", b"fourth"]
    receiver.commit()
    assert statistics["datagrams received"] == 4
    sender.send(b"fifth")
    fifth = receiver.glance()
    assert fifth == b"fifth"
    receiver.take(fifth)
    assert receiver.glance() is None
    assert statistics["datagrams received"] == 4
    receiver.commit()
    assert statistics["datagrams received"] == 5
    assert statistics["bytes received"] == len("firstsecondthirdfourthfifth")


def test_what_is_no_lone_datagram_is_not_glanced_at_but_received(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, hearing = ends
    statistics: Counter[str] = Counter()
    if not enable_coalescing(hearing):
        pytest.skip("this system has no UDP_GRO")
    receiver = Receiver(hearing, True, statistics)
    control = segmentation_control(10)
    sender.sendmsg([b"0123456789" * 3 + b"end"], control)
    assert receiver.glance() is None
    assert b"".join([bytes(train.data) for train in receiver.receive(8)]) == b"0123456789" * 3 + b"end"
    sender.send(b"")
    assert receiver.glance() is None
    assert [bytes(train.data) for train in receiver.receive(8)] == []
    assert statistics["not received: empty"] == 1


@pytest.mark.parametrize("short", [0, SHORT])
def test_of_ones_own_only_the_first_in_a_row_is_read(
    ends: tuple[socket.socket, socket.socket], short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glue.network.receiver.SHORT", short)
    sender, hearing = ends
    statistics: Counter[str] = Counter()
    loopback = MulticastLoopback(sender)
    loopback.set_addresses(["127.0.0.1"])
    receiver = Receiver(hearing, False, statistics, loopback)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect(hearing.getsockname())
        for source, payload in (
            (sender, b"own"), (sender, b"own"), (sender, b"mine"), (other, b"one"), (other, b"two"), (sender, b"own"),
            (sender, b"own"), (other, b"three"),
        ):  # fmt: skip
            source.send(payload)
        two = [(b"one", 3), (b"two", 3)] if short else [(b"onetwo", 3)]
        assert received(receiver) == [(b"own", 3), *two, (b"own", 3), (b"three", 5)]
    assert statistics["own trains passed by"] == 3
    assert statistics["datagrams received"] == statistics["trains received"] == 5


def test_what_is_closed_is_told_as_that(ends: tuple[socket.socket, socket.socket]) -> None:
    _, hearing = ends
    statistics: Counter[str] = Counter()
    receiver = Receiver(hearing, False, statistics)
    hearing.close()
    assert [*receiver.receive(8)] == []
    assert statistics["not received: EBADF"]


def test_what_cannot_be_seen_to_be_there_is_read_all_the_same_before_long(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, hearing = ends
    statistics: Counter[str] = Counter()
    receiver = Receiver(hearing, False, statistics)
    for payload in (b"", b"behind it"):
        sender.send(payload)
    heard = [bytes(train.data) for _ in range(UNSEEN + 2) for train in receiver.receive(8)]
    assert heard == [b"behind it"]
    assert statistics["not received: empty"] == 1
    sender.send(b"")
    assert [*receiver.receive(8, patient=True)] == []  # who was told that there is something reads at once
    assert statistics["not received: empty"] == 2


def received(receiver: Receiver, limit: int = 8) -> list[tuple[bytes, int]]:
    """The trains, as data and size of a datagram."""
    return [(bytes(train.data), train.segment) for train in receiver.receive(limit)]


@pytest.mark.parametrize(("size", "count"), [(SHORT, 2), (SHORT, FEW), (SHORT, FEW + 1), (SHORT + 1, 2), (3, FEW)])
def test_a_few_short_datagrams_are_handed_up_one_by_one(
    ends: tuple[socket.socket, socket.socket], size: int, count: int
) -> None:
    sender, hearing = ends
    statistics: Counter[str] = Counter()
    receiver = Receiver(hearing, False, statistics)
    sent = [bytes([number]) * size for number in range(count - 1)] + [b"the last"[: size - 1]]
    for payload in sent:
        sender.send(payload)
    is_stream = size > SHORT or count > FEW
    assert [data for data, _ in received(receiver)] == ([b"".join(sent)] if is_stream else sent)
    assert statistics["datagrams received"] == statistics["trains received"] == count


@pytest.mark.usefixtures("as_ever")
def test_datagrams_of_one_size_come_as_one_train_which_a_shorter_one_ends(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    for payload in (b"one", b"two", b"3", b"4", b"five", b"six", b"seven"):
        sender.send(payload)
    assert received(receiver) == [(b"onetwo3", 3), (b"4", 1), (b"five" + b"six", 4), (b"seven", 5)]


@pytest.mark.usefixtures("as_ever")
def test_what_comes_from_another_is_another_train(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect(hearing.getsockname())
        for source, payload in ((sender, b"one"), (sender, b"two"), (other, b"six"), (sender, b"ten")):
            source.send(payload)
        trains = [(train.address, bytes(train.data)) for train in receiver.receive(8)]
        assert trains == [
            (sender.getsockname(), b"onetwo"),
            (other.getsockname(), b"six"),
            (sender.getsockname(), b"ten"),
        ]


def test_a_train_is_handed_up_before_its_buffer_is_full(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, hearing = ends
    hearing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiver = Receiver(hearing, False, Counter())
    sent = [b"%d" % (number % 10) * 50_000 for number in range(30)]
    for payload in sent:
        sender.send(payload)
    trains = received(receiver, 40)
    assert len(trains) > 1
    assert b"".join(data for data, _ in trains) == b"".join(sent)


@pytest.mark.usefixtures("as_ever")
def test_a_train_is_split_as_its_datagrams_would_be(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    for size in (7, 7, 4, 9, 1, 7):
        for at in (2, 5, 7):
            payloads = [bytes([65 + number]) * size for number in range(3)] + [b"z" * (size - 1)] * (size > 1)
            for payload in payloads:
                sender.send(payload)
            (train,) = receiver.receive(8)
            if at <= size:
                heads, rests = train.split(at)
                assert heads == b"".join(one[:at] for one in payloads)
                assert [*rests] == [one[at:] for one in payloads]


@pytest.mark.parametrize("size", [BORROWED - 1, BORROWED, JOINED])
@pytest.mark.parametrize("at", [0, 200, 1000])
def test_a_large_train_is_split_like_a_small_one(size: int, at: int) -> None:
    buffer = TrainBuffer()
    data = random.Random(size).randbytes(size)
    buffer.memory[:size] = data
    heads, rests = Arrived(("host", 1), buffer, size, 1000).split(at)
    datagrams = [data[start : start + 1000] for start in range(0, size, 1000)]
    assert heads == b"".join(one[:at] for one in datagrams)
    assert [*rests] == [one[at:] for one in datagrams]
    assert (rests.size, rests.length) == (1000 - at, size - len(heads))


def test_bytes_at_the_same_places_of_all_datagrams_are_read_where_they_stand() -> None:
    buffer, data = TrainBuffer(), random.Random(1).randbytes(5600)
    buffer.memory[:5600] = data
    expected = [data[place::1000] for place in (0, 7, 599)]
    assert Arrived(("host", 1), buffer, 5600, 1000).columns([0, 7, 599]) == expected
    assert Train(("host", 1), memoryview(data), 1000).columns([0, 7, 599]) == expected


def test_only_a_train_that_goes_on_is_read_beyond_the_limit(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, hearing = ends
    receiver = Receiver(hearing, False, Counter())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect(hearing.getsockname())
        for source in (sender, other) * 10:
            source.send(b"one")
        assert received(receiver, 4) == [(b"one", 3)] * 5
        assert received(receiver, 100) == [(b"one", 3)] * 15
    for size in range(1, 11):  # each too large to go on with the one before
        sender.send(bytes(size))
    assert received(receiver, 4) == [(bytes(size), size) for size in range(1, 6)]
    received(receiver)
    for _ in range(20):
        sender.send(b"one")
    assert received(receiver, 4) == [(b"one" * 20, 3)]


def test_single_datagrams_of_many_sizes_do_not_displace_the_views_of_trains() -> None:
    asked: list[int] = []

    class Noting(TrainBuffer):
        def rests(self, size: int, segment: int, at: int) -> Pieces:
            asked.append(segment)
            return super().rests(size, segment, at)

    buffer = Noting()
    for size in (3000, *range(200, 300)):
        train = Arrived(("host", 1), buffer, size, min(size, 1000))
        first, second = train.split(100)
        assert len(first) + second.length == size
    assert asked == [1000]
