"""A machine in the world, with address, clock, sockets and faults.

The host is the machine's driver. It calls the machine exactly at the machine's deadline, passes on arrived trains and
requests, and sends the resulting trains. Like a process with a unicast and a multicast socket, a host can be paused
while the receive buffers fill, lose its interface, crash, and restart. Each turn reads the unicast socket first, so
unicast may overtake earlier multicast.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from glue.contract import Address, Event, Request, Train
from glue.simulation.clock import Clock
from glue.simulation.machine import Machine, SimulationError
from glue.simulation.schedule import Schedule
from glue.simulation.trace import TURNED

RECEIVE_BUFFER = 32 << 20
"""Bytes of payload that wait at each socket of a paused machine, as `Settings.receive_buffer` asks of the kernel."""

TRAINS_A_TURN = 64
"""Most trains in one turn, so that a burst arrives in pieces as from a real socket."""

UNICAST_TRAINS = 48
"""Most unicast trains in one turn while multicast trains wait; see `glue.network.multicast`."""

IDLE_TURNS = 1000
"""Turns at one instant without input, after which the machine's deadline counts as stuck."""

EPOCH = 1_700_000_000.0
"""Unix seconds at true time 0, a day in November 2023."""

_WIPED = b"\xdb"


class Socket:
    """Trains that have arrived at one socket and are not yet read."""

    __slots__ = ("_buffered", "_receive_buffer", "trains")

    def __init__(self, receive_buffer: int) -> None:
        self.trains: deque[tuple[Address, bytes, int]] = deque()
        self._receive_buffer = receive_buffer
        self._buffered = 0

    def put(self, source: Address, data: bytes, segment: int) -> bool:
        """Keep a train. Returns False if the receive buffer has no room for the train."""
        if self._buffered + len(data) > self._receive_buffer:
            return False
        self._buffered += len(data)
        self.trains.append((source, data, segment))
        return True

    def take(self, limit: int) -> list[tuple[Address, bytes, int]]:
        """Remove and return at most `limit` trains."""
        taken = [self.trains.popleft() for _ in range(min(len(self.trains), limit))]
        self._buffered -= sum(len(data) for _, data, _ in taken)
        return taken

    def clear(self) -> None:
        """Drop all waiting trains."""
        self.trains.clear()
        self._buffered = 0


class Host:
    """A machine in the world, made by `World.add`.

    - `machine`: the machine, None while the host is crashed.
    - `wall_offset`: error of the wall clock in seconds. Tests may change the offset at any time: a wall clock may jump.
    - `turn_time`: duration in seconds of a turn that leaves trains unread. More trains may arrive meanwhile.
    """

    def __init__(
        self,
        index: int,
        address: Address,
        machine: Machine,
        clock: Clock,
        receive_buffer: int,
        on_events: Callable[[list[Event]], object] | None,
        schedule: Schedule,
        transmit: Callable[[Host, Train], None],
    ) -> None:
        self.index = index
        self.address = address
        self.machine: Machine | None = machine
        self.wall_offset = 0.0
        self.turn_time = 0.0
        self.on_events = on_events
        self.is_up = True
        self.is_paused = False
        self._clock = clock
        self._schedule = schedule
        self._transmit = transmit
        self._unicast, self._multicast = Socket(receive_buffer), Socket(receive_buffer)
        self._lent: list[bytearray] = []
        self._requests: list[Request] = []
        self._is_ready = False
        self._busy_until = -math.inf
        self._alarm_at = math.inf
        self._idle_turns = 0
        self._idle_at = -math.inf
        self._arm()

    def __repr__(self) -> str:
        return f"<Host {self.address}: {type(self.machine).__name__}>"

    @property
    def now(self) -> float:
        """The reading of the host's monotonic clock, in seconds."""
        return self._clock.read(self._schedule.time)

    @property
    def unix_time(self) -> float:
        """The reading of the host's wall clock, in Unix seconds."""
        return EPOCH + self._schedule.time + self.wall_offset

    @property
    def is_listening(self) -> bool:
        """Whether an arriving datagram finds a socket. A paused machine still has one."""
        return self.is_up and self.machine is not None

    def use(self, transmit: Callable[[Host, Train], None]) -> None:
        """Send by this function from now on."""
        self._transmit = transmit

    # ---------------------------------------------------------------------------------- what it is asked for

    def submit(self, *requests: Request) -> None:
        """Hand requests to the machine at this instant, or when the machine resumes.

        Raises SimulationError if the host is crashed.
        """
        if self.machine is None:
            raise SimulationError(f"{self} is crashed: restart it before asking it for something")
        self._requests.extend(requests)
        self._wake()

    def receive(self, source: Address, data: bytes, segment: int, is_multicast: bool = False) -> bool:
        """Keep an arriving train. Returns False if the socket's buffer has no room for the train."""
        socket = self._multicast if is_multicast else self._unicast
        if not socket.put(source, data, segment):
            return False
        self._wake()
        return True

    # --------------------------------------------------------------------------------------- what befalls it

    def pause(self) -> None:
        """Stop the process (SIGSTOP). Its deadlines pass, and arriving trains wait in the sockets' buffers."""
        self.is_paused = True

    def resume(self) -> None:
        """Continue the process (SIGCONT). It handles waiting trains and passed deadlines at once."""
        self.is_paused = False
        self._wake()

    def crash(self) -> None:
        """End the process without notice (SIGKILL, power cut). The machine, waiting trains and requests are lost."""
        self.machine = None
        self.is_paused = False
        self._unicast.clear()
        self._multicast.clear()
        self._requests = []
        self._alarm_at = math.inf

    def restart(self, machine: Machine) -> None:
        """Start another machine with the same address and clock."""
        self.crash()
        self.machine = machine
        self._arm()

    def take_down(self) -> None:
        """Take the interface down: no datagram leaves or arrives, and the process continues."""
        self.is_up = False

    def bring_up(self) -> None:
        """Bring the interface up again."""
        self.is_up = True

    def adjust_clock(self, drift: float | None = None, jump: float = 0.0) -> None:
        """Change the rate of the monotonic clock and advance it by `jump` seconds; see `Clock.adjust`."""
        self._clock.adjust(self._schedule.time, drift, jump)
        self._alarm_at = math.inf
        self._arm()

    # ------------------------------------------------------------------------------------------ taking turns

    def _wake(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._schedule.call_last(self._turn)

    def _turn(self) -> None:
        self._is_ready = False
        machine, schedule = self.machine, self._schedule
        if machine is None or self.is_paused:
            return
        if schedule.time < self._busy_until:
            self._is_ready = True
            schedule.call_at(self._busy_until, self._turn)
            return
        trains = self._take_trains()
        requests, self._requests = self._requests, []
        self._guard(machine, bool(trains or requests))
        try:
            events, outgoing = machine.turn(self._clock.read(schedule.time), trains, requests)
        except Exception as error:
            error.add_note(f"in a turn of {self} at virtual time {schedule.time}")
            raise
        schedule.trace.record(TURNED, schedule.time, self.index, len(trains), len(events))
        for train in outgoing:
            self._transmit(self, train)
        if self._unicast.trains or self._multicast.trains:
            self._busy_until = schedule.time + self.turn_time
            self._wake()
        self._arm()
        if events and self.on_events is not None:
            self.on_events(events)

    def _take_trains(self) -> list[Train]:
        unicast, multicast = self._unicast, self._multicast
        if not unicast.trains and not multicast.trains:
            return []
        for buffer in self._lent:  # code that keeps a view too long reads garbage
            buffer[:] = _WIPED * len(buffer)
        self._lent = lent = []
        taken = unicast.take(UNICAST_TRAINS if multicast.trains else TRAINS_A_TURN)
        taken += multicast.take(TRAINS_A_TURN - len(taken))
        trains = []
        for source, data, segment in taken:
            buffer = bytearray(data)
            lent.append(buffer)
            trains.append(Train(source, memoryview(buffer), min(segment, len(data)) or 1))
        return trains

    def _arm(self) -> None:
        """Schedule a turn or an alarm for the machine's deadline."""
        if self.machine is None or self.is_paused:
            return
        deadline = self.machine.deadline
        if math.isnan(deadline):
            raise SimulationError(f"the deadline of {self} is not a number")
        due = self._clock.moment(deadline) if deadline < math.inf else math.inf
        if due <= self._schedule.time:
            self._wake()
        elif due < self._alarm_at:
            self._alarm_at = due
            self._schedule.call_at(due, self._alarm, due)

    def _alarm(self, due: float) -> None:
        if due == self._alarm_at:  # false if an earlier alarm has replaced this one
            self._alarm_at = math.inf
            self._arm()

    def _guard(self, machine: Machine, has_input: bool) -> None:
        """Raise SimulationError if the machine takes too many turns at one instant."""
        if has_input or self._schedule.time > self._idle_at:
            self._idle_at = self._schedule.time
            self._idle_turns = 0
        self._idle_turns += 1
        if self._idle_turns > IDLE_TURNS:
            raise SimulationError(
                f"the deadline of {self} stands at {machine.deadline} although its clock shows {self.now} and it "
                f"was called {IDLE_TURNS} times: a turn must move a deadline that has passed"
            )
