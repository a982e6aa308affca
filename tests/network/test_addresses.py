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
    attribute = struct.pack("=HH", 4 + len(address), kind) + address
    return message(RTM_NEWADDR, struct.pack("=BBBBI", family, 24, 0, 0, number) + attribute)


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
