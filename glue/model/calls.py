"""The commands of this endpoint to one model, from the call until its outcome is known.

Each command has a serial number in this endpoint's session, so a repeated command takes effect once. A try that
consensus refused certainly had no effect. A try with an unknown outcome makes the call uncertain. A call that times out
ends as `Unknown` if it is uncertain, else as `Refused`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from math import inf

from glue.model.questions import Committed, Ending, Refused, Unknown
from glue.model.requests import Pending
from glue.model.state import (
    EXPIRED,
    OK,
    AcquireLock,
    Applied,
    Command,
    OpenSession,
    Operation,
    Result,
    encode_command,
)

OUTSTANDING = 512
"""Commands of a session under way at once: half of the results that the state machine keeps for a session."""

WAITING_LIMIT = 65_536
"""Calls that wait for a serial number, at about 300 bytes each: 20 MB. Further calls are refused."""

RETRY_INTERVAL = 0.05
"""Seconds until a refused try is repeated: a few times within an election timeout."""

BATCH = 256 << 10
"""Bytes of commands in one log entry, unless a single command is larger: worth a sync, small beside a send window."""

NO_MAJORITY = "no majority of the voters is in reach"
DISAGREEMENT = "others have opened it with another mergeable=, which must be the same at all endpoints"

Settled = list[tuple[Pending, Ending]]
"""Tokens of calls and how they ended."""


class CommandCall:
    """One command under way.

    This serial was proposed `tries` times, first at `since`. An `uncertain` call may have taken effect. A `patient`
    call waits for a lock that another session holds.
    """

    __slots__ = ("deadline", "encoded", "operations", "patient", "serial", "since", "token", "tries", "uncertain")

    def __init__(self, token: Pending, operations: Sequence[Operation], deadline: float, patient: bool) -> None:
        self.token = token
        self.operations = list(operations)
        self.deadline = deadline
        self.patient = patient
        self.serial = 0
        self.encoded = b""
        self.uncertain = False
        self.tries = 0
        self.since = 0.0


class Calls:
    """All commands of this endpoint to one model, in one session at a time."""

    def __init__(self, nonce: str) -> None:
        """`nonce` identifies this life of this endpoint."""
        self.session = 0
        self._nonce = nonce
        self._openings = 0
        self._opening: bytes | None = None
        self._open_at = -inf  # next time to try to open the session
        self._last_serial = 0
        self._waiting: deque[CommandCall] = deque()  # without a serial number yet
        self._numbered: OrderedDict[int, CommandCall] = OrderedDict()
        self._due: deque[CommandCall] = deque()  # numbered, to be proposed
        self._retries: deque[tuple[float, CommandCall]] = deque()
        self._blocked: dict[str, list[CommandCall]] = {}  # patient calls, by the lock they wait for
        self._tickets: dict[int, list[CommandCall]] = {}
        self._earliest = inf  # a lower bound of all calls' deadlines

    def __len__(self) -> int:
        return len(self._numbered) + len(self._waiting) + sum(map(len, self._blocked.values()))

    @property
    def deadline(self) -> float:
        """The time at which `expired` or `batches` has something to do."""
        at = min(self._earliest, self._retries[0][0] if self._retries else inf)
        if self._waiting and not self.session:
            return min(at, self._open_at)
        if self._due or (self._waiting and len(self._numbered) < OUTSTANDING):
            return -inf
        return at

    def _all(self) -> Iterable[CommandCall]:
        yield from self._waiting
        yield from self._numbered.values()
        for blocked in self._blocked.values():
            yield from blocked

    # --------------------------------------------------------------------------------- adding and proposing

    def add(self, call: CommandCall) -> Settled:
        """Take a call; returns an ending if it is refused at once.

        Raises ModelError for operations that cannot be logged.
        """
        encode_command(Command(0, 0, 0, call.operations))
        if len(self._waiting) >= WAITING_LIMIT:
            return [(call.token, Refused(f"more than {WAITING_LIMIT} calls wait"))]
        self._waiting.append(call)
        self._earliest = min(self._earliest, call.deadline)
        return []

    def batches(self, now: float) -> list[tuple[list[bytes], list[CommandCall]]]:
        """Return what to propose now: pairs of the encoded commands of one entry and their calls."""
        while self._retries and self._retries[0][0] <= now:
            self._due.append(self._retries.popleft()[1])
        if self._waiting and not self.session:
            return self._open(now)
        while self._waiting and len(self._numbered) < OUTSTANDING:
            self._number(self._waiting.popleft())
        batches: list[tuple[list[bytes], list[CommandCall]]] = []
        size = BATCH
        while self._due:
            call = self._due.popleft()
            if call.serial not in self._numbered:
                continue  # ended meanwhile
            if size + len(call.encoded) > BATCH:
                batches.append(([], []))
                size = 0
            call.since = call.since if call.tries else now
            call.tries += 1
            size += len(call.encoded)
            batches[-1][0].append(call.encoded)
            batches[-1][1].append(call)
        return batches

    def _open(self, now: float) -> list[tuple[list[bytes], list[CommandCall]]]:
        if now < self._open_at:
            return []
        if self._opening is None:
            self._openings += 1
            self._opening = f"{self._nonce}-{self._openings}".encode()
        self._open_at = inf  # until its ticket is settled
        return [([encode_command(Command(0, 0, 0, [OpenSession(self._opening.decode())]))], [])]

    def _number(self, call: CommandCall) -> None:
        self._last_serial += 1
        call.serial = self._last_serial
        self._numbered[call.serial] = call
        answered = next(iter(self._numbered)) - 1
        call.encoded = encode_command(Command(self.session, call.serial, answered, call.operations))
        call.tries = 0
        self._due.append(call)

    def proposed(self, ticket: int, calls: list[CommandCall]) -> None:
        """Record that a batch was proposed under this ticket."""
        self._tickets[ticket] = calls

    # -------------------------------------------------------------------------------------------- outcomes

    def settle(self, now: float, ticket: int, refused: bool) -> bool:
        """Record that a batch was refused, or has an unknown outcome. False for a ticket of another part."""
        calls = self._tickets.pop(ticket, None)
        if calls is None:
            return False
        if not calls:
            self._open_at = now + RETRY_INTERVAL
        for call in calls:
            call.uncertain = call.uncertain or not refused
            if call.serial in self._numbered:
                self._retries.append((now + RETRY_INTERVAL, call))
        return True

    def repeat(self) -> None:
        """Propose all commands under way again: what the former leader did with them is unknown."""
        if any(not calls for calls in self._tickets.values()):
            self._open_at = -inf
        for calls in self._tickets.values():
            for call in calls:
                call.uncertain = True
                if call.serial in self._numbered:
                    self._due.append(call)
        self._tickets.clear()

    def committed(self, ticket: int) -> bool:
        """Record that a batch was committed; `take` has its results. False for a ticket of another part.

        The opening of a session may be in a snapshot, which does not tell its number: it is asked for again.
        """
        calls = self._tickets.pop(ticket, None)
        if calls is not None and not calls and self._opening is not None:
            self._open_at = -inf
        return calls is not None

    def take(self, applied: Applied) -> Settled:
        """Settle the calls with results in an applied entry, and repeat those that waited for a released lock."""
        settled: Settled = []
        for command, result in zip(applied.commands, applied.results, strict=True):
            if command.session and command.session == self.session:
                self._answer(command.serial, result, settled)
            elif self._opening is not None and isinstance(command.operations[0], OpenSession):
                self._opened(command.operations[0], result)
        for name in applied.released:
            self._waiting.extend(self._blocked.pop(name, ()))
        return settled

    def _opened(self, opening: OpenSession, result: Result) -> None:
        if self._opening is not None and opening.nonce.encode() == self._opening:
            self.session, self._opening, self._last_serial = result.index, None, 0

    def results(self) -> list[tuple[int, int]]:
        """The session and serial number of each command under way, to be looked up in a snapshot."""
        return [(self.session, serial) for serial in self._numbered]

    def found(self, serial: int, result: Result) -> Settled:
        """Settle the call of this serial number with a result from a snapshot."""
        settled: Settled = []
        self._answer(serial, result, settled)
        return settled

    def unblock(self) -> None:
        """Ask again for all locks, because a snapshot does not tell which were released."""
        for calls in self._blocked.values():
            self._waiting.extend(calls)
        self._blocked.clear()

    def _answer(self, serial: int, result: Result, settled: Settled) -> None:
        call = self._numbered.pop(serial, None)
        if call is None:
            return
        first = call.operations[0]
        if result.code == OK:
            settled.append((call.token, Committed(result.index, call.since)))
        elif result.code == EXPIRED:
            self._session_ended(call, settled)
        elif call.patient and isinstance(first, AcquireLock):
            call.uncertain, call.tries = False, 0  # this try had no effect
            self._blocked.setdefault(first.name, []).append(call)
        else:
            settled.append((call.token, Refused(result.detail)))

    def _session_ended(self, call: CommandCall, settled: Settled) -> None:
        """End this endpoint's expired session, and start again in a new one.

        A command that was tried once has had no effect and goes to the new session. An earlier try of the others may
        have had one, so they end as `Unknown`.
        """
        self.session, self._open_at = 0, -inf
        others = [call, *self._numbered.values()]
        self._numbered.clear()
        self._due.clear()
        self._retries.clear()
        for other in others:
            if other.tries > 1 or other.uncertain:
                settled.append((other.token, Unknown("the session ended before an answer came")))
            else:
                self._waiting.append(other)

    def expired(self, now: float, reason: str) -> Settled:
        """Remove the calls past their deadline; returns their endings. Calls without any effect get `reason`."""
        settled: Settled = []
        if now < self._earliest:
            return settled
        self._earliest = min((call.deadline for call in self._all() if call.deadline > now), default=inf)
        late = [call for call in self._all() if call.deadline <= now]
        for call in late:
            if self._numbered.get(call.serial) is call:  # else its serial is of a session that has ended
                del self._numbered[call.serial]
            if call.patient and not call.uncertain and any(call in calls for calls in self._blocked.values()):
                settled.append((call.token, Refused("somebody else holds the lock")))
            elif call.uncertain or (call.tries and any(call in calls for calls in self._tickets.values())):
                settled.append((call.token, Unknown("no answer came in time")))
            else:
                settled.append((call.token, Refused(reason, unreachable=True)))
        self._waiting = deque(call for call in self._waiting if call.deadline > now)
        self._blocked = {
            name: kept
            for name, calls in self._blocked.items()
            if (kept := [call for call in calls if call.deadline > now])
        }
        return settled

    def end(self, reason: str) -> Settled:
        """Return an ending for every call, because no answer can come any more."""
        return [
            (call.token, Unknown(reason) if call.uncertain or call.tries else Refused(reason, unreachable=True))
            for call in self._all()
        ]
