"""What a receiver makes of the results of its system calls, one by one, on a socket that a test has filled."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections import Counter, deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract.train_buffer import JOINED, STREAM
from glue.network import receiver as module
from glue.network.receiver import ATTEMPTS, LONGEST, Receiver

A, B, OWN = ("a", 1), ("b", 2), ("own", 3)
EMPTY, CUT = "not received: empty", "not received: truncated"
REFUSED = "not received: ECONNREFUSED"


@dataclass
class Read:
    """The result of a system call: so many bytes from there, in datagrams of `segment` bytes if that is told."""

    size: int
    source: tuple[str, int] = A
    segment: int = 0
    flags: int = 0
    value: int = 0

    @property
    def data(self) -> bytes:
        return bytes([self.value]) * self.size

    @property
    def result(self) -> tuple[int, list[Any], int, tuple[str, int]]:
        told = [(17, 104, self.segment.to_bytes(4, sys.byteorder))] if self.segment else []
        return self.size, told, self.flags, self.source


class Filled:
    """A socket in which these results wait; the reads of it, and the looks at it, are counted."""

    def __init__(self, *results: Read | OSError) -> None:
        self.left = deque(results)
        self.reads = self.looks = 0

    def fileno(self) -> int:
        return 7

    def _next(self, flags: int) -> Read:
        assert flags & socket.MSG_DONTWAIT
        self.reads += 1
        if not self.left:
            raise BlockingIOError
        found = self.left[0]
        if isinstance(found, OSError) or not flags & socket.MSG_PEEK:
            self.left.popleft()
        if isinstance(found, OSError):
            raise found
        return found

    def recvmsg_into(self, buffers: tuple[memoryview, ...], control_size: int, flags: int) -> tuple[Any, ...]:
        found = self._next(flags)
        if buffers:
            buffers[0][: found.size] = found.data
        assert control_size or not found.segment or not buffers
        return found.result

    def recvmsg(self, size: int, control_size: int, flags: int) -> tuple[Any, ...]:
        assert size == 64 << 10
        found = self._next(flags)
        return (found.data, *found.result[1:])

    def look(self, fileno: int, request: int, queued: bytearray) -> None:
        """FIONREAD: something is told to wait if there is anything."""
        assert fileno == 7
        self.looks += 1
        queued[:] = int(bool(self.left)).to_bytes(4, sys.byteorder)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """No file descriptor is asked for anything; for which events each is registered."""
    found: list[Any] = []
    poll = SimpleNamespace(register=lambda *what: found.append(what))
    monkeypatch.setattr(module, "select", SimpleNamespace(poll=lambda: poll, POLLIN=select.POLLIN))
    return found


def receiver_of(filled: Filled, monkeypatch: pytest.MonkeyPatch, loopback: Any = None) -> Receiver:
    monkeypatch.setattr(module, "fcntl", SimpleNamespace(ioctl=filled.look))
    opened: Any = filled
    return Receiver(opened, True, Counter(), loopback)


@dataclass
class Case:
    """What waits, the trains that come of it (source, bytes, bytes of a datagram), and what is counted."""

    waits: list[Read | OSError]
    trains: list[tuple[tuple[str, int], int, int]]
    datagrams: int
    reads: int
    left: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    limit: int = 8
    fresh: bool = False
    coalesced: bool = False
    streams: bool = False


def refused(number: int = errno.ECONNREFUSED) -> OSError:
    return OSError(number, "no")


CASES: dict[str, Case] = {
    "a lone one": Case([Read(300)], [(A, 300, 300)], 1, 1),
    "a fresh one, and more": Case([Read(300), Read(300)], [(A, 300, 300)], 1, 1, 1, fresh=True),
    "several at once are not lone, though fresh": Case(
        [Read(600, A, 300), Read(300)], [(A, 900, 300)], 3, 2, fresh=True),
    "two alike": Case([Read(300), Read(300)], [(A, 600, 300)], 2, 2),
    "a shorter one ends a train": Case([Read(300), Read(299), Read(300)], [(A, 599, 300), (A, 300, 300)], 3, 3),
    "a longer one begins another": Case([Read(300), Read(301)], [(A, 300, 300), (A, 301, 301)], 2, 2),
    "another source": Case([Read(300), Read(300, B)], [(A, 300, 300), (B, 300, 300)], 2, 2),
    "trains of the same go on": Case(
        [Read(600, A, 300), Read(900, A, 300)], [(A, 1500, 300)], 5, 2, coalesced=True),
    "a train with a short end is over": Case(
        [Read(700, A, 300), Read(300)], [(A, 700, 300), (A, 300, 300)], 4, 2),
    "a short end of what went on is its last": Case(
        [Read(600, A, 300), Read(700, A, 300), Read(300)], [(A, 1300, 300), (A, 300, 300)], 6, 3),
    "shorter ones, read together, begin another": Case(
        [Read(600, A, 300), Read(598, A, 299)], [(A, 600, 300), (A, 598, 299)], 4, 2, coalesced=True),
    "errors in between are counted": Case(
        [Read(300), refused(), Read(0), Read(300), refused(), refused(0)], [(A, 600, 300)], 2, 2,
        causes={REFUSED: 2, EMPTY: 1, "not received: unknown error": 1}),
    "errors before are counted": Case(
        [refused(), Read(0), Read(300, flags=socket.MSG_TRUNC), Read(301)], [(A, 301, 301)], 1, 1,
        causes={REFUSED: 1, EMPTY: 1, CUT: 1}),
    "what was cut off is not put behind": Case(
        [Read(300), Read(300, flags=socket.MSG_TRUNC), Read(300)], [(A, 600, 300)], 2, 2, causes={CUT: 1}),
    "one more than the limit": Case(
        [Read(300), Read(300, B), Read(300)], [(A, 300, 300), (B, 300, 300)], 2, 2, 1, limit=1),
    "two and one more": Case(
        [Read(300), Read(300, B), Read(300), Read(300)], [(A, 300, 300), (B, 300, 300), (A, 300, 300)], 3, 3, 1,
        limit=2),
    "a train that ends at the limit": Case([Read(300), Read(1), Read(300)], [(A, 301, 300)], 2, 2, 1, limit=2),
    "a train is read on beyond the limit": Case([Read(300)] * 9, [(A, 2700, 300)], 9, 9, limit=2),
    "just no stream": Case([Read(STREAM - 8, A, 8), Read(1, B)], [(A, STREAM - 8, 8), (B, 1, 1)], STREAM // 8, 2),
    "a stream": Case([Read(STREAM, A, 1024), Read(1, B)], [(A, STREAM, 1024), (B, 1, 1)], 33, 2, streams=True),
    "few short ones, one by one": Case(
        [Read(1024, A, 256), Read(900, B, 256)], [(A, 256, 256)] * 4 + [(B, 256, 256)] * 3 + [(B, 132, 256)], 8, 2,
        coalesced=True),
    "more of them": Case([Read(1280, A, 256)], [(A, 1280, 256)], 5, 1, coalesced=True),
    "few, not so short": Case([Read(514, A, 257)], [(A, 514, 257)], 2, 1, coalesced=True),
    "so many datagrams at most": Case(
        [Read(300)] * (LONGEST + 1), [(A, 300 * LONGEST, 300), (A, 300, 300)], LONGEST + 1, LONGEST + 1, limit=2000),
    "so many bytes at most": Case(
        [Read(40_000, A, 2000)] * 32, [(A, -(-JOINED // 40_000) * 40_000, 2000), (A, 40_000, 2000)], 640, 32, limit=40,
        coalesced=True, streams=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_was_read_is_handed_up_as_trains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    for value, one in enumerate(case.waits):
        if isinstance(one, Read):
            case.waits[value] = Read(one.size, one.source, one.segment, one.flags, value % 251)
    sent = b"".join(one.data for one in case.waits if isinstance(one, Read) and not one.flags)
    filled = Filled(*case.waits)
    receiver = receiver_of(filled, monkeypatch)
    data, trains = [], []
    for train in receiver.receive(case.limit, case.fresh, patient=isinstance(case.waits[0], OSError)):
        data.append(bytes(train.data))
        trains.append((train.address, len(train.data), train.segment))
    assert trains == case.trains
    assert sent.startswith(joined := b"".join(data))
    assert receiver.statistics == {
        **case.causes, "trains received": case.reads, "datagrams received": case.datagrams,
        "bytes received": len(joined),
    }  # fmt: skip
    told = receiver.reads, len(filled.left), receiver.coalesced, receiver.streams, receiver.rested
    assert told == (case.reads, case.left, case.coalesced, case.streams, False)


def test_a_socket_is_read_in_vain_only_if_something_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled()
    receiver = receiver_of(filled, monkeypatch)
    reads = []
    for patient in (False,) * 7 + (True,) * 2 + (False,) * 3:
        before = filled.reads
        assert [*receiver.receive(8, patient=patient)] == []
        reads.append(filled.reads - before)
    assert reads == [0, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1]
    filled.left.append(Read(300))
    assert len([*receiver.receive(8)]) == 1
    assert (filled.looks, filled.reads) == (9, 6), "one look before, one behind it, and no read in vain"
    filled.look = lambda *_: (_ for _ in ()).throw(OSError(errno.EBADF, "closed"))  # type: ignore[method-assign]
    monkeypatch.setattr(module, "fcntl", SimpleNamespace(ioctl=filled.look))
    filled.left.append(refused(errno.EBADF))
    assert [*receiver.receive(8)] == []
    assert receiver.statistics["not received: EBADF"] == 1


def test_a_socket_that_only_fails_is_left_after_so_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(*[refused() for _ in range(ATTEMPTS)], Read(300))
    receiver = receiver_of(filled, monkeypatch)
    assert [*receiver.receive(8)] == []
    assert (receiver.statistics, receiver.reads, len(filled.left)) == ({REFUSED: ATTEMPTS}, 0, 1)
    assert [len(train.data) for train in receiver.receive(8)] == [300]
    filled.left += [Read(300), *[refused() for _ in range(LONGEST + ATTEMPTS)], Read(300)]
    assert [len(train.data) for train in receiver.receive(8)] == [300, 300]
    assert receiver.statistics[REFUSED] == LONGEST + 2 * ATTEMPTS


@pytest.mark.parametrize(("coalescing", "room"), [(True, socket.CMSG_SPACE(4)), (False, 0)])
def test_a_receiver_waits_for_all_that_may_come_and_asks_for_sizes_if_they_are_told(
    coalescing: bool, room: int, registered: list[Any]
) -> None:
    asked: list[int] = []

    def nothing(buffers: Any, control_size: int, flags: int) -> Any:
        asked.append(control_size)
        raise BlockingIOError

    opened: Any = SimpleNamespace(fileno=lambda: 7, recvmsg_into=nothing, recvmsg=nothing)
    receiver = Receiver(opened, coalescing, Counter(), None, [5, 6])
    assert registered == [(fileno, select.POLLIN) for fileno in (7, 5, 6)]
    first = receiver.reads, receiver.coalesced, receiver.rested, receiver.streams, receiver.kept, receiver.source
    assert first == (0, False, False, False, None, ())
    assert ([*receiver.receive(8, patient=True)], receiver.glance()) == ([], None)
    assert (asked, receiver.reads, receiver.statistics) == ([room] * 2, 0, {})


@pytest.mark.parametrize(("limit", "passed", "left"), [(8, 2, 0), (3, 2, 1), (2, 1, 2), (1, 0, 3)])
def test_what_an_endpoint_sent_itself_is_passed_by_within_the_limit(
    limit: int, passed: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[Any] = []
    loopback = SimpleNamespace(is_needed=True, received_from=learned.append, is_own=lambda source: source == OWN)
    filled = Filled(*[Read(STREAM, OWN, 1024)] * 3, Read(300))
    receiver = receiver_of(filled, monkeypatch, loopback)
    trains = [(train.address, len(train.data)) for train in receiver.receive(limit)]
    assert trains == [(OWN, STREAM), *([(A, 300)] if limit == 8 else [])]
    counted = receiver.statistics
    assert (counted["own trains passed by"], counted["trains received"]) == (passed, len(trains))
    assert (len(filled.left), receiver.streams) == (left, False)
    assert learned == [source for source, _ in trains]


@pytest.mark.parametrize("error", [refused(), BlockingIOError()])
def test_an_error_ends_the_passing_by(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback = SimpleNamespace(is_needed=True, received_from=lambda source: None, is_own=lambda source: source == OWN)
    filled = Filled(Read(300, OWN), Read(300, OWN), error)
    receiver = receiver_of(filled, monkeypatch, loopback)
    assert len([*receiver.receive(8)]) == 1
    assert receiver.statistics["own trains passed by"] == 1
    assert receiver.statistics[REFUSED] == (1 if error.errno else 0)


@pytest.mark.parametrize(("is_needed", "learned"), [(True, []), (False, [A])])
def test_the_source_of_a_lone_datagram_is_learned_while_loopback_is_off(
    is_needed: bool, learned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    loopback = SimpleNamespace(is_needed=is_needed, received_from=found.append, is_own=lambda source: False)
    receiver = receiver_of(Filled(Read(300)), monkeypatch, loopback)
    assert len([*receiver.receive(8)]) == 1
    assert found == learned


@pytest.mark.parametrize(("waits", "is_kept", "causes"), [
    (Read(300, B, value=7), False, {}), (Read(0, B), True, {}), (Read(600, B, 300, value=7), True, {}),
    (Read(300, B, flags=socket.MSG_TRUNC), True, {}), (refused(), False, {REFUSED: 1}), (None, False, {}),
])  # fmt: skip
def test_only_a_lone_datagram_is_glanced_at(
    waits: Any, is_kept: bool, causes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receiver_of(Filled(*([waits] if waits else [])), monkeypatch)
    data = receiver.glance()
    is_lone = isinstance(waits, Read) and not is_kept
    assert (data, receiver.kept is not None) == (waits.data if is_lone else None, is_kept)
    assert (receiver.statistics, receiver.source) == (causes, B if isinstance(waits, Read) else ())
    if is_kept:
        found = [(train.address, bytes(train.data), train.segment) for train in receiver.receive(8)]
        assert (found, receiver.kept) == ([(B, waits.data, 300)] if waits.segment else [], None)


def test_what_was_taken_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = receiver_of(Filled(Read(300), Read(20)), monkeypatch)
    for _ in range(2):
        data = receiver.glance()
        assert data is not None
        receiver.take(data)
    assert receiver.statistics == {}
    for _ in range(2):
        receiver.commit()
        assert receiver.statistics == {"trains received": 2, "datagrams received": 2, "bytes received": 320}


def test_nothing_is_read_in_vain_behind_a_train_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Filled(Read(700, A, 300))
    receiver = receiver_of(filled, monkeypatch)
    assert [len(train.data) for train in receiver.receive(8)] == [700]
    assert (filled.reads, filled.looks) == (1, 2)
