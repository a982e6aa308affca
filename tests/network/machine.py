"""A machine of which interfaces, sockets, notices and the clock are given, for a network over several interfaces."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from typing import Any

from glue.contract import Train
from glue.contract.counters import Counters
from glue.errors import PortInUseError
from glue.network.interfaces import Interface

ETH0 = Interface("eth0", 2, ("10.0.0.2",), ("fd00::2",))
WLAN0 = Interface("wlan0", 3, ("10.1.0.2",), ("fd01::2",))
BARE = Interface("wlan0", 3)


class Sockets:
    """The sockets of one link: what was sent is noted, what is received is given."""

    def __init__(
        self, machine: Machine, *, interface: str, listen_port: int, source: Interface, **options: Any
    ) -> None:
        machine.tried.append((interface, listen_port))
        trouble = machine.troubles.get(interface)
        if trouble is not None and (listen_port or not isinstance(trouble, PortInUseError)):
            raise trouble
        self.machine, self.options = machine, options
        self.unicast_address: Any = (source.addresses(socket.AF_INET)[0], listen_port or 5000 + len(machine.tried))
        self.datagram_size = 1472 if interface == "eth0" else 1400
        self.is_settled, self.is_broken, self.is_closed = True, False, False
        self.statistics = Counters({"bytes sent": 10})
        self.sent: list[Train] = []
        self.arrived: Any = ()
        self.maintained: list[float] = []
        self._descriptor = os.eventfd(0)
        machine.opened.append(self)

    def filenos(self) -> Sequence[int]:
        return (self._descriptor,)

    def becomes_readable(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def receive(self) -> Any:
        os.eventfd_read(self._descriptor)
        return self.arrived

    def send(self, trains: Sequence[Train]) -> None:
        self.sent += trains

    def take_broken(self) -> bool:
        was, self.is_broken = self.is_broken, False
        return was

    def maintain(self, now: float) -> None:
        self.maintained.append(now)

    def describe(self) -> dict[str, Any]:
        return {"addresses": [self.unicast_address[0]], "listen_port": self.unicast_address[1],
                "mtu": self.datagram_size + 28, "offload": True}  # fmt: skip

    def close(self) -> None:
        self.is_closed = True
        os.close(self._descriptor)

    def _after_fork(self) -> None:
        self.machine.forked.append(self)


class Machine:
    """The interfaces of a machine, and its clock; what is asked of it is noted."""

    def __init__(self) -> None:
        self.interfaces = {"eth0": ETH0, "wlan0": WLAN0}
        self.troubles: dict[str, Exception] = {}
        self.opened: list[Sockets] = []
        self.tried: list[tuple[str, int]] = []
        self.forked: list[Sockets] = []
        self.looks = 0
        self.now = 100.0
        self.is_changed = False
        self.notices = -1  # of the latest network

    def find(self, name: str, known: Interface | None) -> Interface | None:
        self.looks += name == "eth0"
        return self.interfaces.get(name)


class Notices:
    """The kernel's notices to one network."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._descriptor = machine.notices = os.eventfd(0)
        self.filenos = (self._descriptor,)

    def take(self) -> bool:
        changed, self._machine.is_changed = self._machine.is_changed, False
        if select.select([self._descriptor], [], [], 0)[0]:
            os.eventfd_read(self._descriptor)
        return changed

    def close(self) -> None:
        os.close(self._descriptor)
