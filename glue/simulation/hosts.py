"""Hosts on a virtual LAN in virtual time; all their chances follow from one seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import inf
from random import Random

from glue.contract import Address, Event
from glue.errors import ConfigurationError
from glue.simulation.clock import Clock
from glue.simulation.host import RECEIVE_BUFFER, Host
from glue.simulation.luck import stream
from glue.simulation.machine import Machine, SimulationError
from glue.simulation.network import VirtualLan
from glue.simulation.schedule import Schedule

PORT = 37320
HOSTS_PER_BYTE = 250
"""Hosts are numbered 10.0.0.1 to 10.0.0.250, then 10.0.1.1 and so on: no address ends in .0 or .255."""


class Hosts:
    """Machines on hosts, the network between them, and the time, which starts at 0 and passes only in `run`."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.hosts: list[Host] = []
        self._schedule = Schedule()
        self._is_running = False
        self.network = VirtualLan(self._schedule, seed)

    @property
    def time(self) -> float:
        """The true time (seconds); each host sees it through its own clock."""
        return self._schedule.time

    @property
    def trace_hash(self) -> str:
        """A hash of all that was sent, has arrived, or was noted so far, and when."""
        return self._schedule.trace.digest

    def note(self, text: str) -> None:
        """Make something that the network does not see, such as a decision, part of the trace."""
        self._schedule.trace.note(self.time, text)

    def random(self, purpose: str) -> Random:
        """Randomness for this purpose and no other; asked for again it starts again."""
        return stream(self.seed, f"purpose {purpose}")

    def add(
        self,
        machine: Machine,
        address: Address | None = None,
        *,
        offset: float = 0.0,
        drift: float = 0.0,
        receive_buffer: int = RECEIVE_BUFFER,
        on_events: Callable[[list[Event]], object] | None = None,
    ) -> Host:
        """Start a machine on a host of its own, at `address` (default: the next free one of 10.0.0.n).

        Its clock reads `offset` at true time 0 and is fast by `drift` seconds a second; `receive_buffer` is
        the bytes that can wait for it; `on_events` is given what its turns return. Raises ConfigurationError
        for an address that is taken.
        """
        address = self._next_address() if address is None else address
        if any(host.address == address for host in self.hosts):
            raise ConfigurationError(f"address={address!r}: taken; Host.restart starts another machine there")
        clock = Clock(offset, drift)
        host = Host(
            len(self.hosts), address, machine, clock, receive_buffer, on_events, self._schedule, self.network.transmit
        )
        self.hosts.append(host)
        self.network.attach(host)
        return host

    def _next_address(self) -> Address:
        taken = {host.address for host in self.hosts}
        places = (divmod(number, HOSTS_PER_BYTE) for number in count())
        addresses = ((f"10.0.{third}.{fourth + 1}", PORT) for third, fourth in places)
        return next(address for address in addresses if address not in taken)

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Do this at that true time. Raises SimulationError if it has passed."""
        self._schedule.call_at(time, action)

    def after(self, delay: float, action: Callable[[], object]) -> None:
        """Do this so many seconds from now."""
        self._schedule.call_at(self.time + delay, action)

    def run(self, seconds: float) -> None:
        """Let that much time pass. Raises whatever a machine or an action raises, with a note where and when."""
        self._pass(self.time + seconds, lambda: False)

    def run_until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Let time pass until the condition holds, which is looked at after each happening.

        Returns whether it came to hold within `timeout` seconds of virtual time.
        """
        return bool(condition()) or self._pass(self.time + timeout, condition)

    def _pass(self, end: float, condition: Callable[[], object]) -> bool:
        if not self.time <= end < inf:
            raise SimulationError(f"time cannot pass from {self.time} to {end}")
        if self._is_running:
            raise SimulationError("run was called from within run, by an action, a handler or a machine")
        self._is_running = True
        try:
            while self._schedule.step(end):
                if condition():
                    return True
        finally:
            self._is_running = False
        self._schedule.time = end
        return bool(condition())
