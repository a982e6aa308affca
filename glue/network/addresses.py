"""The addresses of this machine's interfaces, from the kernel where it tells (Linux), else from `netifaces`.

On Linux one question lists the addresses of an interface (rtnetlink(7), RTM_GETADDR). `netifaces` serves elsewhere, and
where a sandbox forbids netlink. It takes 6 ms to import, which is a tenth of what an endpoint takes to start.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

NLM_F_REQUEST, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x1, 0x10, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
RTM_NEWADDR, RTM_GETADDR = 20, 22
IFA_ADDRESS, IFA_LOCAL = 1, 2
SOL_NETLINK, NETLINK_GET_STRICT_CHK = 270, 12
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, kind, flags, sequence, port
MESSAGE = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, length of the prefix, flags, scope, index
ATTRIBUTE = struct.Struct("=HH")  # struct rtattr: length, kind
ERROR = struct.Struct("=i")  # at the end of an answer: 0, or what went wrong
SIZES = {socket.AF_INET: 4, socket.AF_INET6: 16}  # bytes of an address
TRIES = 5  # an answer is asked for again if addresses change while it is made
TIMEOUT = 1.0  # seconds for a part of an answer: the kernel answers within a call
ANSWER = 1 << 16  # bytes of one part of the answer, at most: the kernel sends 32 KiB
ADDRESSES = 256  # remembered as parsed, since they are looked at once a second: those of some dozens of interfaces

Addresses = dict[int, list[str]]
"""The addresses as text, by socket family."""


def addresses_of(name: str, number: int) -> Addresses:
    """The addresses of the interface with this name and index."""
    try:
        return told_by_kernel(number)
    except OSError:
        return told_by_netifaces(name)


def told_by_kernel(number: int) -> Addresses:
    """Ask the kernel. Raises OSError where it does not tell, or tells what cannot be understood."""
    if sys.platform != "linux":
        raise OSError("there is no netlink")
    length = HEADER.size + MESSAGE.size
    question = HEADER.pack(length, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + MESSAGE.pack(0, 0, 0, 0, number)
    for _ in range(TRIES):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asker:
            asker.settimeout(TIMEOUT)
            with suppress(OSError):  # before Linux 4.20 it tells of all interfaces
                asker.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
            asker.send(question)
            found = _answer(asker, number)
        if found is not None:
            return found
    raise OSError("the addresses change all the time")


def _answer(asker: socket.socket, number: int) -> Addresses | None:
    """Read an answer to its end; None if the addresses changed meanwhile, so that some may be missing."""
    found: Addresses = {socket.AF_INET: [], socket.AF_INET6: []}
    is_whole = True
    while True:
        for kind, flags, body in _messages(asker.recv(ANSWER)):
            is_whole = is_whole and not flags & NLM_F_DUMP_INTR
            if kind == NLMSG_ERROR or (kind == NLMSG_DONE and any(body[: ERROR.size])):
                raise OSError("netlink refuses to list addresses")
            if kind == NLMSG_DONE:
                return found if is_whole else None
            if kind == RTM_NEWADDR and len(body) >= MESSAGE.size:
                family, _, _, _, index = MESSAGE.unpack_from(body)
                packed = _address(body)
                if index == number and len(packed) == SIZES.get(family):
                    found[family].append(socket.inet_ntop(family, packed))


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The kinds, flags and bodies of the messages in a part of an answer."""
    start = 0
    while start + HEADER.size <= len(data):
        length, kind, flags, *_ = HEADER.unpack_from(data, start)
        if not HEADER.size <= length <= len(data) - start:
            raise OSError("a malformed answer of netlink")
        yield kind, flags, data[start + HEADER.size : start + length]
        start += length + -length % 4


def _address(body: bytes) -> bytes:
    """The address in a message: the own end of the link, if both are told; nothing if none is."""
    found, start = b"", MESSAGE.size
    while start + ATTRIBUTE.size <= len(body):
        length, kind = ATTRIBUTE.unpack_from(body, start)
        if length < ATTRIBUTE.size:
            break
        if kind == IFA_LOCAL or (kind == IFA_ADDRESS and not found):
            found = body[start + ATTRIBUTE.size : start + length]
        start += length + -length % 4
    return found


def told_by_netifaces(name: str) -> Addresses:
    """Ask `netifaces`. The addresses are told apart by their form, as numbers of families vary by system."""
    import netifaces  # not with `import glue`: it takes some milliseconds

    found: Addresses = {socket.AF_INET: [], socket.AF_INET6: []}
    for entries in netifaces.ifaddresses(name).values():
        for entry in entries:
            parsed = _parsed(entry.get("addr", ""))
            if parsed is not None:  # not a hardware address
                family, packed = parsed
                found[family].append(socket.inet_ntop(family, packed))
    return found


@lru_cache(ADDRESSES)
def _parsed(address: str) -> tuple[int, bytes] | None:
    """The family and the bytes of an IP address without its zone, None for anything else."""
    text = address.partition("%")[0]
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        return family, socket.inet_pton(family, text)
    except OSError:
        return None
