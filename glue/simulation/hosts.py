"""Hosts on a virtual LAN in virtual time. One seed determines everything random."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import inf
from random import Random

from glue.contract import Address, Event
from glue.errors import ConfigurationError
from glue.simulation.clock import Clock
from glue.simulation.host import RECEIVE_BUFFER, Host
from glue.simulation.machine import Machine, SimulationError
from glue.simulation.network import VirtualLan
from glue.simulation.randomness import stream
from glue.simulation.schedule import Schedule

PORT = 37320
HOSTS_PER_BYTE = 250
"""Hosts per /24: addresses run from 10.0.0.1 to 10.0.0.250, then from 10.0.1.1, so none ends in .0 or .255."""


class Hosts:
    """Machines on hosts, their network, and the time. Time starts at 0 and passes only in `run` and `run_until`."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.hosts: list[Host] = []
        self._schedule = Schedule()
        self._is_running = False
        self.network = VirtualLan(self._schedule, seed)

    @property
    def time(self) -> float:
        """True time in seconds. Each host reads it through its own clock."""
        return self._schedule.time

    @property
    def trace_hash(self) -> str:
        """Hash of all sends, arrivals, turns and notes so far, and their times."""
        return self._schedule.trace.digest

    def note(self, text: str) -> None:
        """Add a text to the trace, for events that the network does not see, such as a decision."""
        self._schedule.trace.note(self.time, text)

    def random(self, purpose: str) -> Random:
        """Return a new random generator for this purpose. The same purpose always gives the same sequence."""
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
        """Start a machine on a new host.

        - `address`: by default the next free address of 10.0.0.n.
        - `offset`: reading of the host's clock at true time 0.
        - `drift`: seconds that the clock gains each second.
        - `receive_buffer`: bytes that can wait at each socket.
        - `on_events`: called with the events of the machine's turns.

        Raises ConfigurationError if the address is taken.
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
        """Call `action` at true time `time`. Raises SimulationError if that time has passed."""
        self._schedule.call_at(time, action)

    def after(self, delay: float, action: Callable[[], object]) -> None:
        """Call `action` after `delay` seconds."""
        self._schedule.call_at(self.time + delay, action)

    def run(self, seconds: float) -> None:
        """Let `seconds` pass. An exception of a machine or an action comes out with a note that tells host and time."""
        self._pass(self.time + seconds, lambda: False)

    def run_until(self, condition: Callable[[], object], timeout: float) -> bool:
        """Let time pass until the condition holds, at most `timeout` seconds. Return whether it holds.

        The condition is evaluated after each event.
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
