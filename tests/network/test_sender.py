"""What leaves by which call, and how it is counted, with a socket that only notes what it is given."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from typing import Any

import pytest

from glue.contract import Train
from glue.network import sender as module
from glue.network.offload import MAXIMUM_SEGMENTS, segmentation_control
from glue.network.sender import BROKEN, Sender

THERE, GROUP = ("10.0.0.2", 7), ("239.0.0.1", 9)
REFUSED = OSError(errno.EIO, "no UDP_SEGMENT")


class Socket:
    """Notes each call; `errors` are raised by the next calls, one by one."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.errors: list[OSError | None] = []

    def _raise(self) -> None:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error

    def sendto(self, data: Any, *rest: Any) -> int:
        flags, address = rest if len(rest) == 2 else (0, *rest)
        self.calls.append(("one", len(data), flags, address))
        self._raise()
        return len(data)

    def sendmsg(self, parts: Any, control: Any, flags: int, address: Any) -> int:
        (data,) = parts
        self.calls.append(("many", len(data), control, flags, address))
        self._raise()
        return len(data)

    def took(self) -> list[tuple[Any, ...]]:
        taken, self.calls = self.calls, []
        return taken


class Line:
    """A sender whose calls take at most 1,000 bytes, and its socket."""

    def __init__(self, segmentation: bool = True, loopback: Any = None) -> None:
        self.socket = Socket()
        self.statistics: Counter[str] = Counter()
        given: Any = self.socket
        self.sender = Sender(given, 1000, segmentation, self.statistics, loopback)

    def send(self, *trains: Train) -> dict[str, int]:
        """Send these; returns what was counted."""
        self.statistics.clear()
        self.sender.send(trains)
        return {name: count for name, count in self.statistics.items() if count}


def train(size: int, segment: int = 100, address: Any = THERE) -> Train:
    return Train(address, bytes(size), segment)


def sent(trains: int, datagrams: int, octets: int) -> dict[str, int]:
    return {"trains sent": trains, "datagrams sent": datagrams, "bytes sent": octets}


def test_a_train_leaves_in_as_few_calls_as_the_payload_and_the_kernel_allow() -> None:
    assert MAXIMUM_SEGMENTS >= 64
    line = Line()
    assert line.send(train(2150)) == sent(1, 22, 2150)
    control = segmentation_control(100)
    assert line.socket.took() == [("many", size, control, 0, THERE) for size in (1000, 1000, 150)]
    assert line.send(train(120, 60), train(3, 60), train(300, 120)) == sent(3, 6, 423)
    assert [call[:3] for call in line.socket.took()] == [
        ("many", 120, segmentation_control(60)), ("one", 3, 0), ("many", 300, segmentation_control(120)),
    ]  # fmt: skip
    line.send(train(MAXIMUM_SEGMENTS * 2 + 1, 1))
    assert [call[1] for call in line.socket.took()] == [MAXIMUM_SEGMENTS, MAXIMUM_SEGMENTS, 1][:3]


def test_a_lone_datagram_and_those_without_segmentation_take_a_call_each() -> None:
    line = Line()
    assert line.send(train(100)) == sent(1, 1, 100)
    assert line.socket.took() == [("one", 100, 0, THERE)]
    line = Line(segmentation=False)
    assert line.send(train(250)) == sent(1, 3, 250)
    assert line.socket.took() == [("one", size, 0, THERE) for size in (100, 100, 50)]
    assert line.send() == {}


def test_multicasts_go_to_the_group_and_are_counted_while_there_is_none() -> None:
    prepared: list[bool] = []

    class Loopback:
        def prepare(self, is_data: bool) -> None:
            prepared.append(is_data)

    line = Line(loopback=Loopback())
    assert line.sender.destination is None
    assert line.send(train(250, address=None)) == {"not sent: no interface": 3}
    line.sender.destination = GROUP
    assert line.send(train(100, address=None), train(100, address=()), train(100)) == sent(3, 3, 300)
    assert [call[3] for call in line.socket.took()] == [GROUP, GROUP, THERE]
    assert prepared == [True, True, False], "unicast needs no loopback"


def test_a_host_that_refuses_segmentation_is_remembered_until_devices_change() -> None:
    line = Line()
    line.socket.errors = [None, REFUSED]
    assert line.send(train(2150)) == {"segmentation refused": 1, **sent(1, 22, 2150)}
    assert [call[0] for call in line.socket.took()] == ["many", "many", *["one"] * 12]
    assert line.send(train(200)) == sent(1, 2, 200)
    assert [call[0] for call in line.socket.took()] == ["one", "one"]
    line.send(train(200, address=("10.0.0.3", 7)))
    assert [call[0] for call in line.socket.took()] == ["many"]
    line.sender.forget_refusals()
    line.send(train(200))
    assert [call[0] for call in line.socket.took()] == ["many"]


def test_so_many_hosts_are_remembered_and_then_all_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    line = Line()
    for number in range(3):
        line.socket.errors = [REFUSED]
        line.send(train(200, address=(f"10.0.0.{number}", 7)))
    line.socket.took()
    for number in (2, 0, 1):
        line.send(train(200, address=(f"10.0.0.{number}", 7)))
    assert [call[0] for call in line.socket.took()] == ["one", "one", "many", "many"]


def test_a_full_queue_is_waited_for_once_a_call_and_what_does_not_fit_is_counted() -> None:
    line = Line()
    line.socket.errors = [BlockingIOError(), None, BlockingIOError()]
    counted = line.send(train(2150), train(40))
    assert counted == {"not sent: queue full": 12, **sent(2, 11, 1040)}
    assert [call[-2] for call in line.socket.took()] == [0, *[socket.MSG_DONTWAIT] * 3]
    assert not line.sender.is_broken
    line.send(train(40))
    assert line.socket.took() == [("one", 40, 0, THERE)], "the next call may wait again"
    line.socket.errors = [BlockingIOError()]
    assert line.send(train(40)) == {"not sent: queue full": 1}


@pytest.mark.parametrize("segmentation", [True, False])
def test_other_errors_are_counted_by_their_names_and_tell_whether_the_interface_is_broken(segmentation: bool) -> None:
    assert set(BROKEN) == {errno.ENETDOWN, errno.ENETUNREACH, errno.ENODEV, errno.EADDRNOTAVAIL}
    line = Line(segmentation)
    line.socket.errors = [OSError(errno.EPERM, "forbidden")] * 3
    assert line.send(train(250)) == {"not sent: EPERM": 3}
    assert not line.sender.is_broken
    line.socket.errors = [OSError(errno.ENETDOWN, "down"), OSError()]
    assert line.send(train(50), train(50)) == {"not sent: ENETDOWN": 1, "not sent: unknown error": 1}
    assert line.sender.is_broken, "another error does not mend it"


def test_what_is_posted_is_counted_by_the_next_commit() -> None:
    line = Line()
    line.socket.errors = [None, OSError(errno.EPERM, "forbidden")]
    for size in (10, 20, 30):
        line.sender.post(bytes(size), THERE)
    assert line.statistics == {"not sent: EPERM": 1}
    line.sender.commit()
    assert line.statistics == {"not sent: EPERM": 1, **sent(2, 2, 40)}
    line.sender.commit()
    assert line.statistics == {"not sent: EPERM": 1, **sent(2, 2, 40)}
