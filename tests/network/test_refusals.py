"""What the kernel refuses: sending falls back, or counts the cause and goes on. On sockets that refuse to order."""

from __future__ import annotations

import errno
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.contract import Train
from glue.network import Interface, parse_group, sockets
from glue.network.offload import enable_coalescing, has_segmentation
from glue.network.sender import Sender

PEER = ("192.0.2.7", 37320)
OTHER = ("192.0.2.8", 37320)
DATA = bytes(range(250)) * 20
LONGER = bytes(range(250)) * 24


class Wire:
    """Stands in for a socket: keeps what is sent to it, and fails where told to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.flags: list[int] = []
        self.whole_failure: int | None = None
        self.failures: Iterator[int | None] = iter(())

    def sendto(self, data: bytes | memoryview, flags: int, address: Any) -> int:
        self.flags.append(flags)
        failure = next(self.failures, None)
        if failure is not None:
            raise OSError(failure, "as told")  # OSError makes itself the right subclass
        self.sent.append(bytes(data))
        return len(data)

    def sendmsg(self, buffers: tuple[memoryview], control: Any, flags: int, address: Any) -> int:
        if self.whole_failure is not None:
            raise OSError(self.whole_failure, "as told")
        return self.sendto(buffers[0], flags, address)


def sender_on(wire: Wire, segmentation: bool = True) -> Sender:
    return Sender(cast(socket.socket, wire), 65507, segmentation, Counter())


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_a_train_leaves_in_as_few_calls_as_the_kernel_takes() -> None:
    wire = Wire()
    sender_on(wire).send([Train(PEER, bytes(150_000), 1400)])
    assert [len(chunk) for chunk in wire.sent] == [46 * 1400, 46 * 1400, 150_000 - 92 * 1400]


def test_a_train_of_small_datagrams_is_bounded_by_their_number() -> None:
    wire = Wire()
    sender_on(wire).send([Train(PEER, bytes(1000), 10)])
    assert [len(chunk) for chunk in wire.sent] == [640, 360]


@pytest.mark.parametrize("refusal", [errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP])
def test_where_segmentation_is_refused_each_datagram_is_sent_on_its_own(refusal: int) -> None:
    wire = Wire()
    wire.whole_failure = refusal
    sender = sender_on(wire)
    sender.send([Train(PEER, DATA, 1400), Train(PEER, DATA, 1400)])
    assert wire.sent == cut(DATA, 1400) * 2
    assert sender.statistics == {
        "segmentation refused": 1, "trains sent": 2, "datagrams sent": 8, "bytes sent": 10_000
    }  # fmt: skip


def test_a_refusal_counts_for_its_destination_and_for_a_while() -> None:
    wire = Wire()
    sender = sender_on(wire)
    wire.whole_failure = errno.EIO
    sender.send([Train(PEER, DATA, 1400)])
    wire.whole_failure, wire.sent = None, []
    sender.send([Train(PEER, DATA, 1400), Train(OTHER, DATA, 1400)])
    assert wire.sent == [*cut(DATA, 1400), DATA]
    wire.sent = []
    sender.forget_refusals()
    sender.send([Train(PEER, DATA, 1400)])
    assert wire.sent == [DATA]


def test_without_segmentation_it_is_not_even_tried() -> None:
    wire = Wire()
    wire.whole_failure = errno.EIO
    sender = sender_on(wire, segmentation=False)
    sender.send([Train(PEER, DATA, 1400)])
    assert wire.sent == cut(DATA, 1400)
    assert sender.statistics["segmentation refused"] == 0


@pytest.mark.parametrize(
    "cause", ["EHOSTUNREACH", "ENETUNREACH", "ENODEV", "EADDRNOTAVAIL", "ENETDOWN", "EPERM", "ECONNREFUSED", "ENOBUFS"]
)
@pytest.mark.parametrize("segmentation", [True, False], ids=["whole", "single"])
def test_a_failure_is_counted_by_its_cause_and_the_rest_is_sent(cause: str, segmentation: bool) -> None:
    wire = Wire()
    wire.failures = iter([getattr(errno, cause)])
    sender = sender_on(wire, segmentation)
    sender.send([Train(PEER, b"lost", 4), Train(PEER, DATA, 1400)])
    assert b"".join(wire.sent) == DATA
    assert sender.statistics[f"not sent: {cause}"] == 1
    assert sender.statistics["datagrams sent"] == 4


def test_a_full_queue_is_waited_for_once_a_call_and_what_does_not_fit_is_dropped() -> None:
    wire = Wire()
    wire.failures = iter([errno.EAGAIN, None, errno.EAGAIN])
    sender = sender_on(wire)
    sender.send([Train(PEER, b"a", 1), Train(PEER, b"b", 1), Train(PEER, b"c", 1)])
    assert wire.sent == [b"b"]
    assert wire.flags == [0, socket.MSG_DONTWAIT, socket.MSG_DONTWAIT]
    assert sender.statistics["not sent: queue full"] == 2
    sender.send([Train(PEER, b"d", 1)])
    assert wire.flags[-1] == 0


class InPortions(Train):
    """A train that is made in chunks of 2,800 bytes; the last is one datagram."""

    def chunks(self, extra: int = 0) -> list[bytes]:
        return cut(bytes(self.data), 2800)


@pytest.mark.parametrize(
    ("failures", "sent", "counts"),
    [
        ([], [LONGER[:2800], LONGER[2800:5600], LONGER[5600:]], {"datagrams sent": 5, "bytes sent": 6000}),
        (
            [None, errno.EIO],
            [LONGER[:2800], LONGER[2800:4200], LONGER[4200:5600], LONGER[5600:]],
            {"segmentation refused": 1, "datagrams sent": 5, "bytes sent": 6000},
        ),
        (
            [None, None, errno.EPERM],
            [LONGER[:2800], LONGER[2800:5600]],
            {"not sent: EPERM": 1, "datagrams sent": 4, "bytes sent": 5600},
        ),
    ],
    ids=["none", "in the second chunk", "in the last"],
)
def test_a_train_in_portions_is_one_train_whatever_is_refused_of_it(
    failures: list[int | None], sent: list[bytes], counts: dict[str, int]
) -> None:
    wire = Wire()
    wire.failures = iter(failures)
    sender = sender_on(wire)
    sender.send([InPortions(PEER, LONGER, 1400)])
    assert wire.sent == sent
    assert sender.statistics == {"trains sent": 1, **counts}


def test_multicast_without_an_interface_is_counted_and_unicast_goes_on() -> None:
    wire = Wire()
    sender = sender_on(wire)
    sender.send([Train(None, DATA, 1400), Train(PEER, b"to you", 6)])
    assert sender.statistics["not sent: no interface"] == 4
    assert wire.sent == [b"to you"]


@pytest.mark.skipif(sys.platform != "linux", reason="a socket option of Linux makes its kernel refuse UDP_SEGMENT")
def test_a_real_kernel_that_refuses_segmentation_is_served_with_single_datagrams() -> None:
    without_checksum = (socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target,
    ):
        source.setsockopt(*without_checksum)
        target.bind(("127.0.0.1", 0))
        target.settimeout(5.0)
        sender = Sender(source, 65507, True, Counter())
        sender.send([Train(target.getsockname(), DATA, 1400)])
        assert [target.recv(2000) for _ in range(4)] == cut(DATA, 1400)
        assert sender.statistics["segmentation refused"] == 1


def test_on_other_systems_no_option_of_linux_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        assert not has_segmentation(some)
        assert not enable_coalescing(some)
        assert sockets.kernel_drops(some) is None
        assert sockets.raise_receive_buffer(some, 1 << 16) >= 1 << 16


class Picky:
    """Stands in for a socket of a system that takes neither an interface's index nor a group to bind to."""

    def __init__(self) -> None:
        self.options: dict[int, bytes] = {}
        self.bound: tuple[str, int] | None = None

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        if len(value) == 12:  # struct ip_mreqn
            raise OSError(errno.EINVAL, "index?")
        self.options[option] = value

    def bind(self, address: tuple[str, int]) -> None:
        if address[0] != "0.0.0.0":
            raise OSError(errno.EADDRNOTAVAIL, "not mine")
        self.bound = address


def test_where_an_index_will_not_do_the_interface_is_named_by_its_address() -> None:
    picky = Picky()
    group, interface = parse_group("239.192.137.1:37320"), Interface("en0", 4, ("192.0.2.2",))
    sockets.join(cast(socket.socket, picky), group, interface)
    sockets.send_through(cast(socket.socket, picky), group, interface)
    address = socket.inet_aton("192.0.2.2")
    assert picky.options == {
        socket.IP_ADD_MEMBERSHIP: group.packed + address,
        socket.IP_MULTICAST_IF: address,
    }


def test_where_an_index_will_not_do_and_there_is_no_address_the_error_is_told() -> None:
    with pytest.raises(OSError, match="index"):
        sockets.join(cast(socket.socket, Picky()), parse_group("239.192.137.1:37320"), Interface("en0", 4))


def test_where_a_group_cannot_be_bound_to_every_address_is() -> None:
    picky = Picky()
    sockets.bind_first(cast(socket.socket, picky), [("239.192.137.1", 37320), ("0.0.0.0", 37320)])
    assert picky.bound == ("0.0.0.0", 37320)


class Stingy:
    """Stands in for a socket of a system that answers ENOBUFS to a buffer above `limit` (macOS)."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 9216

    def setsockopt(self, level: int, option: int, size: int) -> None:
        if size > self.limit:
            raise OSError(errno.ENOBUFS, "too much")
        self.size = size

    def getsockopt(self, level: int, option: int) -> int:
        return self.size


def test_a_buffer_that_is_too_large_is_asked_for_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    stingy = Stingy(limit=6 << 20)
    assert sockets.raise_receive_buffer(cast(socket.socket, stingy), 32 << 20) == 4 << 20


@pytest.mark.parametrize(("platform", "knows", "tried"), [("linux", True, 1), ("linux", False, 1), ("darwin", True, 0)])
@pytest.mark.parametrize("ask", [has_segmentation, enable_coalescing])
def test_a_kernel_knows_an_option_or_refuses_it_and_others_are_not_asked(
    ask: Any, platform: str, knows: bool, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    asked: list[Any] = []

    def option(*what: Any) -> None:
        asked.append(what)
        if not knows:
            raise OSError(errno.ENOPROTOOPT, "unknown")

    assert ask(SimpleNamespace(getsockopt=option, setsockopt=option)) is (knows and platform == "linux")
    wanted = (socket.IPPROTO_UDP, 103) if ask is has_segmentation else (socket.IPPROTO_UDP, 104, 1)
    assert asked == [wanted] * tried
