"""One machine at its place in the world: its address, its clock, its sockets, and what befalls it.

The host is the machine's driver. It obeys the machine's deadline to the exact virtual time, hands over what
arrived and what was asked for, and passes on what the machine sends. Like a process with a
unicast and a multicast socket it can be paused while their receive buffers fill, lose its interface, crash and be
started again. Each turn reads the unicast socket first, so what came by multicast may be overtaken there.
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
"""What is handed over in one turn at most, so that a burst comes in pieces as from a real socket."""

UNICAST_TRAINS = 48
"""How many of them come from the unicast socket at most, while the other has any; see `glue.network.multicast`."""

IDLE_TURNS = 1000
"""Turns at one instant without input, after which the machine's deadline is taken to be stuck."""

EPOCH = 1_700_000_000.0
"""Unix seconds at true time 0 (a day of November 2023)."""

_WIPED = b"\xdb"


class Socket:
    """What has arrived at one socket and is not yet read."""

    __slots__ = ("_buffered", "_receive_buffer", "trains")

    def __init__(self, receive_buffer: int) -> None:
        self.trains: deque[tuple[Address, bytes, int]] = deque()
        self._receive_buffer = receive_buffer
        self._buffered = 0

    def put(self, source: Address, data: bytes, segment: int) -> bool:
        """Keep a train; returns False if there is no room for it."""
        if self._buffered + len(data) > self._receive_buffer:
            return False
        self._buffered += len(data)
        self.trains.append((source, data, segment))
        return True

    def take(self, limit: int) -> list[tuple[Address, bytes, int]]:
        """Read so many trains at most."""
        taken = [self.trains.popleft() for _ in range(min(len(self.trains), limit))]
        self._buffered -= sum(len(data) for _, data, _ in taken)
        return taken

    def clear(self) -> None:
        """Lose all of it."""
        self.trains.clear()
        self._buffered = 0


class Host:
    """A machine in the world; made by `World.add`.

    `machine` is None while it is crashed. `wall_offset` is the error of its wall clock in seconds, to be
    changed at will: a wall clock, unlike the monotonic one, may jump. `turn_time` is how many seconds a turn takes
    that leaves anything unread, so that more arrives while a backlog is read.
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
        """What the host's monotonic clock shows."""
        return self._clock.read(self._schedule.time)

    @property
    def unix_time(self) -> float:
        """What the host's wall clock shows (Unix seconds)."""
        return EPOCH + self._schedule.time + self.wall_offset

    @property
    def is_listening(self) -> bool:
        """Whether a datagram that arrives finds a socket; a paused machine still has one."""
        return self.is_up and self.machine is not None

    # ---------------------------------------------------------------------------------- what it is asked for

    def submit(self, *requests: Request) -> None:
        """Hand requests to the machine, at the present instant (or when it is resumed).

        Raises SimulationError if it is crashed.
        """
        if self.machine is None:
            raise SimulationError(f"{self} is crashed: restart it before asking it for something")
        self._requests.extend(requests)
        self._wake()

    def receive(self, source: Address, data: bytes, segment: int, is_multicast: bool = False) -> bool:
        """A train arrives at one of the sockets; returns False if its buffer has no room for it."""
        socket = self._multicast if is_multicast else self._unicast
        if not socket.put(source, data, segment):
            return False
        self._wake()
        return True

    # --------------------------------------------------------------------------------------- what befalls it

    def pause(self) -> None:
        """Stop the process (SIGSTOP): its timers pass, what arrives waits in the socket's buffer."""
        self.is_paused = True

    def resume(self) -> None:
        """Let the process go on (SIGCONT): it finds at once what has arrived and which deadlines passed."""
        self.is_paused = False
        self._wake()

    def crash(self) -> None:
        """End the process without a word (SIGKILL, power cut): machine, buffer and requests are gone."""
        self.machine = None
        self.is_paused = False
        self._unicast.clear()
        self._multicast.clear()
        self._requests = []
        self._alarm_at = math.inf

    def restart(self, machine: Machine) -> None:
        """Start another process at the same address and with the same clock."""
        self.crash()
        self.machine = machine
        self._arm()

    def take_down(self) -> None:
        """The interface goes down: nothing leaves or arrives, the process goes on."""
        self.is_up = False

    def bring_up(self) -> None:
        """The interface is up again."""
        self.is_up = True

    def adjust_clock(self, drift: float | None = None, jump: float = 0.0) -> None:
        """From now on let the monotonic clock run at another rate, `jump` seconds further; see `Clock`."""
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
        for buffer in self._lent:  # whoever kept a view of it shall notice
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
        """See to it that the machine's deadline is obeyed."""
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
        if due == self._alarm_at:  # else an earlier one took its place
            self._alarm_at = math.inf
            self._arm()

    def _guard(self, machine: Machine, has_input: bool) -> None:
        """Refuse to turn for ever at one instant."""
        if has_input or self._schedule.time > self._idle_at:
            self._idle_at = self._schedule.time
            self._idle_turns = 0
        self._idle_turns += 1
        if self._idle_turns > IDLE_TURNS:
            raise SimulationError(
                f"the deadline of {self} stands at {machine.deadline} although its clock shows {self.now} and it "
                f"was called {IDLE_TURNS} times: a turn must move a deadline that has passed"
            )
