"""Hear who sends to the group, on every interface, also with another network id, key or version."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from glue.contract.sealed import sealed_network
from glue.doctor.seen import SenderSeen
from glue.errors import GlueError
from glue.network import parse_group
from glue.network.interfaces import list_interfaces
from glue.network.sockets import join, open_multicast_socket

IP_PKTINFO, IP_RECVTTL, IP_TTL = 8, 12, 2  # linux/in.h
IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT = 49, 50, 51, 52  # linux/in6.h
SENDERS = 512  # remembered; the datagrams of others are not looked at
LARGEST = 65536


@dataclass
class _Heard:
    """The datagrams of one address and port."""

    count: int = 0
    interface: str = ""
    ttl: int | None = None
    network_id: int | None = None
    version: int | None = None
    sealed: bool = False
    key_id: int | None = None
    id: str | None = None
    incarnation: int | None = None
    name: str = ""


class Listener:
    """A thread that hears the group on all interfaces from `start` to `stop`. It sends nothing.

    `own` is called for the id of the doctor's endpoint, whose datagrams only show that multicast comes back.
    """

    def __init__(self, multicast_address: str) -> None:
        self.group = parse_group(multicast_address)
        self.heard: dict[str, int] = {}
        self._senders: dict[tuple[str, int], _Heard] = {}
        self._lives: dict[str, int] = {}
        self._latest: dict[str, int] = {}
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._indexes: dict[int, str] = {}

    def start(self) -> bool:
        """Begin; returns whether the group can be heard at all."""
        try:
            opened = open_multicast_socket(self.group)
        except (GlueError, OSError):
            return False
        joined = 0
        for one in list_interfaces():
            self._indexes[one.number] = one.name
            if one.multicast or one.loopback:
                with contextlib.suppress(OSError):
                    join(opened, self.group, one)
                    joined += 1
        for level, option in self._options():
            with contextlib.suppress(OSError):
                opened.setsockopt(level, option, 1)
        opened.settimeout(0.1)
        self._socket = opened
        self._thread = threading.Thread(target=self._listen, name="glue doctor", daemon=True)
        self._thread.start()
        return joined > 0

    def _options(self) -> list[tuple[int, int]]:
        if self.group.family == socket.AF_INET6:
            return [(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO), (socket.IPPROTO_IPV6, IPV6_RECVHOPLIMIT)]
        return [(socket.IPPROTO_IP, IP_PKTINFO), (socket.IPPROTO_IP, IP_RECVTTL)]

    def stop(self) -> None:
        """End the thread."""
        self._is_over = True
        if self._thread is not None:
            self._thread.join(1.0)
        if self._socket is not None:
            self._socket.close()

    def _listen(self) -> None:
        assert self._socket is not None
        while not self._is_over:
            if not select.select([self._socket], [], [], 0.1)[0]:
                continue
            try:
                data, ancillary, _, address = self._socket.recvmsg(LARGEST, 256)
            except OSError:
                time.sleep(0.01)
                continue
            interface, ttl = self._where(ancillary)
            self.take(data, address, interface, ttl)

    def _where(self, ancillary: list[tuple[int, int, bytes]]) -> tuple[str, int | None]:
        index, ttl = 0, None
        for _, kind, data in ancillary:
            if kind == IP_PKTINFO and self.group.family == socket.AF_INET:
                (index,) = struct.unpack_from("@i", data)
            elif kind == IPV6_PKTINFO and self.group.family == socket.AF_INET6:
                (index,) = struct.unpack_from("@I", data, 16)
            elif kind in (IP_TTL, IPV6_HOPLIMIT) and len(data) >= 4:
                (ttl,) = struct.unpack_from("@i", data)
        return self._indexes.get(index, ""), ttl

    def take(self, data: bytes, address: Any, interface: str, ttl: int | None) -> None:
        """Look at one datagram."""
        key = address[0].partition("%")[0], address[1]
        found = self._senders.get(key)
        if found is None:
            if len(self._senders) >= SENDERS:
                return
            found = self._senders[key] = _Heard()
        found.count += 1
        found.interface, found.ttl = interface or found.interface, ttl
        if (network := sealed_network(data)) is not None:
            found.sealed, found.network_id, found.version, found.key_id = True, network, None, data[1]
            return
        entry, body = _header(data)
        if entry is None:
            return
        found.version, found.network_id = entry[0], entry[1]
        if len(entry) > 3 and isinstance(entry[2], str) and isinstance(entry[3], int):
            found.id, found.incarnation = entry[2], entry[3]
            found.name = _name(body) or found.name
            if self._latest.get(entry[2], entry[3]) != entry[3]:
                self._lives[entry[2]] = self._lives.get(entry[2], 0) + 1
            self._latest[entry[2]] = entry[3]

    def senders(self, own: str | None) -> tuple[tuple[SenderSeen, ...], Mapping[str, int], bool]:
        """The senders heard besides the endpoint `own` (its id); datagrams by interface; whether `own` was heard."""
        seen, by_interface, looped = [], dict[str, int](), False
        for (host, port), one in list(self._senders.items()):  # the thread may add some meanwhile
            if own is not None and one.id == own:
                looped = True
                continue
            by_interface[one.interface] = by_interface.get(one.interface, 0) + one.count
            seen.append(
                SenderSeen(
                    address=host, port=port, count=one.count, interface=one.interface, ttl=one.ttl,
                    network_id=one.network_id, version=one.version, sealed=one.sealed, key_id=one.key_id, id=one.id,
                    name=one.name, lives=self._lives.get(one.id or "", 0),
                )
            )  # fmt: skip
        return tuple(seen), by_interface, looped

    def heard_from(self, host: str, port: int) -> bool:
        """Whether anything came from an address and port."""
        return (host, port) in self._senders


def _header(data: bytes) -> tuple[list[Any] | None, bytes]:
    """The entry `glue` of a datagram's header, and its body; None for what is no datagram of glue."""
    head, _, body = data.partition(b"\n")
    try:
        value = orjson.loads(head)
        entry = value["glue"]
    except (ValueError, TypeError, KeyError):
        return None, b""
    if not isinstance(entry, list) or len(entry) < 2 or not all(isinstance(one, int) for one in entry[:2]):
        return None, b""
    return entry, body


def _name(body: bytes) -> str:
    """The name in an announcement."""
    try:
        name = orjson.loads(body)["name"]
    except (ValueError, TypeError, KeyError):
        return ""
    return name[:64] if isinstance(name, str) else ""
