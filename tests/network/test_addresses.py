"""Answers of the kernel about addresses: whole, cut off, malformed, or overtaken by a change."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from typing import Any

import pytest

from glue.network import addresses
from glue.network.addresses import HEADER, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, RTM_NEWADDR, told_by_kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no netlink")

NUMBER = 7


def message(kind: int, body: bytes = b"", flags: int = 2) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, 1, 1) + body + bytes(-len(body) % 4)


def told(address: bytes, family: int = socket.AF_INET, number: int = NUMBER, kind: int = 2) -> bytes:
    """An address of an interface, as the kernel tells it."""
    return described((kind, address), family=family, number=number)


def described(*attributes: tuple[int, bytes], family: int = socket.AF_INET, number: int = NUMBER) -> bytes:
    """What the kernel tells of an address: attributes by their kinds."""
    parts = [struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in attributes]
    return message(RTM_NEWADDR, struct.pack("=BBBBI", family, 24, 0, 0, number) + b"".join(parts))


DONE = message(NLMSG_DONE, bytes(4))
GOOD = told(bytes([10, 0, 0, 1]))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The parts of the kernel's answers, in order."""
    parts: list[bytes] = []

    class Asker:
        """A netlink socket that receives these parts."""

        def __init__(self, *_: int) -> None:
            self.settimeout = self.setsockopt = self.send = lambda *_: None

        def __enter__(self) -> Asker:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def recv(self, _: int) -> bytes:
            if not parts:
                raise TimeoutError
            return parts.pop(0)

    monkeypatch.setattr("glue.network.addresses.socket.socket", Asker)
    return parts


@pytest.mark.parametrize(
    "answer",
    [
        [GOOD, DONE],
        [GOOD + DONE],
        [GOOD, message(NLMSG_DONE)],
        [told(bytes([10, 0, 0, 2]), kind=1) + GOOD, told(bytes([10, 0, 0, 9]), number=8), DONE],
        [told(b"\x0a\0\0") + message(99, bytes(5)) + GOOD + DONE],
        [told(b"\x0a\0\0"), told(bytes(16)), told(b"", family=99), GOOD, DONE],
        [message(RTM_NEWADDR, b"\x02\x18"), message(RTM_NEWADDR, bytes(8)), message(99, bytes(40)), GOOD, DONE],
        [message(RTM_NEWADDR, struct.pack("=BBBBIHH", 2, 24, 0, 0, NUMBER, 0, 2) + bytes(4)), GOOD, DONE],
        [described((3, b"eth0\0"), (2, bytes([10, 0, 0, 1])), (1, bytes([10, 0, 0, 9]))), DONE],
        [described((1, bytes([10, 0, 0, 9])), (3, b"lo\0"), (2, bytes([10, 0, 0, 1])), (1, bytes(4))), DONE],
        [described((3, b"a\0"), (3, b""), (1, bytes([10, 0, 0, 1])), (1, bytes([10, 0, 0, 9]))), DONE],
        [told(bytes([10, 0, 0, 3])), message(NLMSG_DONE, bytes(4), NLM_F_DUMP_INTR), GOOD, DONE],
    ],
)
def test_what_is_no_address_of_the_interface_is_left_out(parts: list[bytes], answer: list[bytes]) -> None:
    parts += answer
    found = told_by_kernel(NUMBER)
    assert found[socket.AF_INET][-1] == "10.0.0.1"
    assert set(found[socket.AF_INET]) <= {"10.0.0.1", "10.0.0.2"}
    assert found[socket.AF_INET6] == []
    assert not parts


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [GOOD],
        [GOOD[:-3], DONE],
        [GOOD + GOOD[:-3], DONE],
        [HEADER.pack(3, RTM_NEWADDR, 2, 1, 1) + bytes(20), DONE],
        [message(NLMSG_ERROR, struct.pack("=i", -errno.EPERM))],
        [GOOD, message(NLMSG_DONE, struct.pack("=i", -errno.ENODEV))],
        [message(NLMSG_DONE, bytes(4), NLM_F_DUMP_INTR)] * 10,
    ],
)
def test_where_the_kernel_gives_no_whole_answer_netifaces_is_asked(
    parts: list[bytes], answer: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "told_by_netifaces", lambda name: {socket.AF_INET: [name]})
    parts += answer
    assert addresses.addresses_of("en0", NUMBER) == {socket.AF_INET: ["en0"]}


def test_other_systems_ask_netifaces(monkeypatch: pytest.MonkeyPatch, parts: list[bytes]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(addresses, "told_by_netifaces", lambda name: {socket.AF_INET: [name]})
    parts += [GOOD, DONE]
    assert addresses.addresses_of("en0", NUMBER) == {socket.AF_INET: ["en0"]}


def test_the_kernel_is_asked_for_the_addresses_of_one_interface_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[Any, ...]] = []

    class Asker:
        def __init__(self, *kind: int) -> None:
            done.append(kind)

        def __enter__(self) -> Asker:
            return self

        def __exit__(self, *_: Any) -> None:
            done.append(("closed",))

        def settimeout(self, seconds: float) -> None: ...

        def setsockopt(self, *option: int) -> None:
            done.append(option)
            raise OSError  # before Linux 4.20

        def send(self, question: bytes) -> None:
            done.append((*HEADER.unpack(question[:16]), *struct.unpack("=BBBBI", question[16:])))

        def recv(self, most: int) -> bytes:
            return GOOD + told(bytes(15) + b"\1", socket.AF_INET6) + DONE

    monkeypatch.setattr("glue.network.addresses.socket.socket", Asker)
    assert told_by_kernel(NUMBER) == {socket.AF_INET: ["10.0.0.1"], socket.AF_INET6: ["::1"]}
    kind = socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE
    question = 24, 22, 0x301, 1, 0, 0, 0, 0, 0, NUMBER  # RTM_GETADDR, and NLM_F_REQUEST and NLM_F_DUMP
    assert done == [kind, (270, 12, 1), question, ("closed",)]


def test_netifaces_tells_addresses_of_both_families_without_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        2: [{"addr": "10.0.0.1", "netmask": "255.0.0.0"}, {"addr": "10.0.0.2"}],
        17: [{"addr": "02:42:ac:11:00:02"}, {}], 30: [{"addr": "fe80::1%en0"}, {"addr": "FD00:0::2"}],
    }  # fmt: skip
    monkeypatch.setattr("netifaces.ifaddresses", lambda name: entries if name == "en0" else {})
    told = {socket.AF_INET: ["10.0.0.1", "10.0.0.2"], socket.AF_INET6: ["fe80::1", "fd00::2"]}
    assert addresses.told_by_netifaces("en0") == told
