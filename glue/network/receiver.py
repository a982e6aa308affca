"""Receiving trains from one socket, always into the same buffer, which therefore stays in the CPU cache.

One system call returns a train of up to 64 kB. Trains that continue each other are merged, so that the layers above
pay for a stream once, not for each call. A lone datagram is read without a generator.
"""

from __future__ import annotations

import errno
import fcntl
import select
import socket
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from glue.contract import Address, Train
from glue.contract.train_buffer import JOINED, LARGEST, STREAM, Arrived, TrainBuffer
from glue.network import batch_scheduling
from glue.network.loopback import MulticastLoopback
from glue.network.offload import CONTROL_SIZE

# Plain integers, because arithmetic on Python's flags costs as much as a system call.
DONT_WAIT = int(socket.MSG_DONTWAIT)
PEEK = DONT_WAIT | int(socket.MSG_PEEK)
TRUNCATED = int(socket.MSG_TRUNC)
NOTHING = bytes(4)  # an int of zero
ATTEMPTS = 32  # reads that may fail before the rest is left to the next turn
UNSEEN = 2  # looks without data before a read: an empty datagram or an error is invisible to a look
REST = 0.002
"""Seconds to wait, at most, for the rest of what is being sent, unless anything else is to be done. As long as trains
are as long as can be, the sender is in the middle of a message, or of many, which take less than that to send between
programs of one machine. What came in parts would be put together, which costs several times as much. For as long an
acknowledgement may be held back (`glue.transport.round_trip.ACK_DELAY`)."""
SHORTEST = 1  # millisecond, the unit of poll(2)
NEAR = 60e-6
"""Seconds to look for it again and again before one sleeps: who sends has to wake whoever sleeps, for each train.
Less and less often where it does not come so soon; and not where several receive it, as cores may be short."""
MOST_RESTS = 63  # times at most that one sleeps at once after a look in vain
LONGEST = 1024  # datagrams from which on a train is handed up, as from JOINED bytes on; so many views are kept at most
SHORT = 256  # bytes of a short datagram, most often an acknowledgement, that differs in size from the previous one
FEW = 4  # short datagrams, read together, up to which each is handed up separately


Control = list[tuple[int, int, bytes]]
"""The control messages of a system call; here there is none, or one that tells the size of the datagrams."""

Found = tuple[int, int, Address, Control]
"""What a system call gave: the bytes, those of each datagram, the source, and how that was told."""


Kept = tuple[bytes, Control, int, Address]
"""A train with its control messages, its flags and its source."""


class Receiver:
    """Reads one socket, without blocking but where `receive` may be patient; `coalescing`: whether UDP_GRO is on."""

    __slots__ = (
        "_beginning", "_buffer", "_control_size", "_drained", "_fileno", "_loopback", "_octets", "_poll", "_queued",
        "_resting", "_rests", "_sched_batch", "_socket", "_taken", "_unseen", "_until", "coalesced", "kept", "reads",
        "rested", "source", "statistics", "streams",
    )  # fmt: skip

    def __init__(
        self,
        receiving: socket.socket,
        coalescing: bool,
        statistics: Counter[str],
        loopback: MulticastLoopback | None = None,
        others: Sequence[int] = (),
        sched_batch: bool = False,
    ) -> None:
        """`loopback` recognizes this endpoint's own datagrams, and learns the sources of all other datagrams.

        others: file descriptors that end a wait for more when they become readable.
        sched_batch: wait for more as SCHED_BATCH (see `glue.network.batch_scheduling`).
        """
        self.statistics = statistics
        self._socket = receiving
        self._fileno = receiving.fileno()
        self._poll = select.poll()
        for fileno in (self._fileno, *others):
            self._poll.register(fileno, select.POLLIN)
        self._control_size = CONTROL_SIZE if coalescing else 0
        self._sched_batch = sched_batch
        self._resting = self._rests = 0  # how often one sleeps at once, now and after the latest look in vain
        self._queued = bytearray(NOTHING)
        self._buffer = TrainBuffer()
        self._beginning = (self._buffer.memory,)
        self._drained = False  # whether nothing was left in the latest look
        self._loopback = loopback
        self.source: Address = ()  # of what was glanced at last
        self.kept: Kept | None = None  # what was glanced at and is still to be received
        self._taken = self._octets = 0  # what was taken, and not counted
        self._until = 0.0  # when all waits of this call of `receive` for a rest end; 0: none has begun
        self._unseen = 0  # calls of `receive` in a row that found nothing to read
        self.reads = 0  # system calls that gave something in the latest call of `receive`
        self.coalesced = False  # whether the last of them gave several datagrams
        self.rested = False  # whether that would have waited for the rest of a stream, so no sleep need gather it
        self.streams = False  # whether trains of a stream came from others, until this is taken back

    def receive(self, limit: int, fresh: bool = False, patient: bool = False) -> Iterable[Train]:
        """Return the trains of `limit` system calls, and of at most LONGEST more while the last train continues.

        Errors are counted. Each train is valid until the next one is read. A `fresh` lone datagram, the first after a
        pause, ends the reading, because more is unlikely. If `patient`, wait for the rest of a message.
        """
        self.reads, self.rested, self._until = 0, False, 0.0
        if not patient and self.kept is None and self._unseen < UNSEEN and not self._more():
            self._unseen += 1
            return ()
        self._unseen = 0
        first = self._read()
        if first is None:
            return ()
        size, segment, address, _ = first
        if self._loopback is not None and not self._loopback.is_needed:
            self._loopback.received_from(address)
        if not self.coalesced and (fresh or not self._more()):
            self._count(self.reads, 1, size)
            return (Train(address, self._buffer.memory[:size], segment),)
        return self._trains(limit, first, patient)

    def glance(self) -> bytes | None:
        """Return the next datagram if it is a lone one; else None, and anything else received is kept.

        Only the waiting thread may call this, and not while anything is kept.
        """
        try:  # into memory of its own, as another thread may be receiving
            data, control, flags, source = self._socket.recvmsg(LARGEST, self._control_size, DONT_WAIT)
        except OSError as error:
            self._is_over(error)
            return None
        self.source = source
        if control or flags or not data:
            self.kept = data, control, flags, source
            return None
        return data

    def keep(self, data: bytes) -> None:
        """Receive the latest datagram of `glance` later, after all."""
        self.kept = data, [], 0, self.source

    def take(self, data: bytes) -> None:
        """Be done with the latest datagram of `glance`."""
        self._taken += 1
        self._octets += len(data)

    def commit(self) -> None:
        """Count what was taken."""
        self._count(self._taken, self._taken, self._octets)
        self._taken = self._octets = 0

    def _trains(self, limit: int, found: Found | None, patient: bool) -> Iterator[Train]:
        """Yield the train that begins with `found`, at the beginning of the buffer, and the following trains."""
        buffer, memory = self._buffer, self._buffer.memory
        datagrams = octets = passed = 0
        while found is not None:
            end, segment, address, control = found
            found = None
            if self._is_own(address):
                passed += self._pass_by(limit, address)
            else:
                self.streams = self.streams or end >= STREAM
                if self.reads <= limit:  # else the train that might go on beyond is over
                    end, found = self._follow(end, segment, address, control, patient)
            datagrams += -(-end // segment)
            octets += end
            if segment <= SHORT and end <= FEW * segment:
                for at in range(0, end, segment):
                    yield Train(address, memory[at : min(at + segment, end)], segment)
            else:
                yield Arrived(address, buffer, end, segment)
            if found is not None:
                size = found[0]
                memory[:size] = memory[end : end + size]
            elif self.reads < limit and not self._drained and self._more():
                found = self._read()
        self._count(self.reads, datagrams, octets)
        if passed:
            self.statistics["trains received"] -= passed
            self.statistics["own trains passed by"] += passed

    def _follow(
        self, end: int, segment: int, address: Address, control: Control, patient: bool
    ) -> tuple[int, Found | None]:
        """Read on behind the `end` of a train while that goes on; where it ends then, and what else was found."""
        memory, receive, control_size = self._buffer.memory, self._socket.recvmsg_into, self._control_size
        most = 0 if end % segment else min(JOINED, LONGEST * segment)
        usual, size = (end, control, 0, address), end
        places = self._buffer.places(size) if size >= STREAM and most == JOINED else []
        is_being_sent = patient and end >= STREAM
        self.rested = self.rested or is_being_sent
        for _ in range(LONGEST + ATTEMPTS):
            if end >= most:
                break
            before = end
            try:
                for place in (not end % size and places[end // size :]) or [(memory[end:],)]:
                    read = receive(place, control_size, DONT_WAIT)
                    if read != usual:
                        break
                    end += size  # as ever in a stream
                else:
                    continue
            except OSError as error:
                if self._is_over(error):
                    ready = self._wait_for_more() if is_being_sent else []
                    if self._fileno not in ready:
                        break
                    is_being_sent = len(ready) == 1  # else something is to be done, and nothing more waited for
                    self._drained = False
                continue
            finally:
                self.reads += (end - before) // size
            found = self._checked(*read)
            if found is not None:
                if found[2] != address or (found[1] != segment and not found[0] == found[1] < segment):
                    return end, found
                end += found[0]
                is_being_sent = False  # it was the last part
                if found[0] % segment:
                    break
        return end, None

    def _wait_for_more(self) -> list[int]:
        """The file descriptors that are readable before this call of `receive` has waited for too long."""
        now = time.monotonic()
        self._until = self._until or now + REST
        if now >= self._until:
            return []
        if self._sched_batch:
            is_batch = batch_scheduling.enter()
            try:
                found = self._poll.poll(SHORTEST)
            finally:
                if is_batch:
                    batch_scheduling.leave()
        else:
            found = self._look(now) or self._poll.poll(SHORTEST)
        return [fileno for fileno, _ in found]

    def _look(self, now: float) -> list[tuple[int, int]]:
        """Look again and again whether more is there, for NEAR; less and less often, where that is in vain."""
        if self._resting:
            self._resting -= 1
            return []
        poll, until = self._poll.poll, now + NEAR
        found: list[tuple[int, int]] = poll(0)
        while not found and time.monotonic() < until:
            found = poll(0)
        self._rests = 0 if found else min(2 * self._rests + 1, MOST_RESTS)
        self._resting = self._rests
        return found

    def _is_own(self, address: Address) -> bool:
        """Whether what came from there is this endpoint's own; else it may be of a neighbour's."""
        if self._loopback is None:
            return False
        self._loopback.received_from(address)
        return self._loopback.is_own(address)

    def _pass_by(self, limit: int, own: Address) -> int:
        """Let go, unread, of what else this endpoint itself has sent, as long as nothing from others comes first.

        Returns how many trains that were.
        """
        receive, before = self._socket.recvmsg_into, self.reads
        while self.reads < limit:
            try:
                if receive((), 0, PEEK)[3] != own:
                    break
                receive((), 0, DONT_WAIT)
            except OSError as error:
                self._is_over(error)
                break
            self.reads += 1
        return self.reads - before

    def _read(self) -> Found | None:
        """Read into the beginning of the buffer; None: nothing."""
        self._drained = False
        if self.kept is not None:
            (data, control, flags, source), self.kept = self.kept, None
            self._buffer.memory[: len(data)] = data
            if (found := self._checked(len(data), control, flags, source)) is not None:
                return found
        for _ in range(ATTEMPTS):
            try:
                read = self._socket.recvmsg_into(self._beginning, self._control_size, DONT_WAIT)
            except OSError as error:
                if self._is_over(error):
                    return None
                continue
            if (found := self._checked(*read)) is not None:
                return found
        return None

    def _checked(self, size: int, control: Control, flags: int, source: Address) -> Found | None:
        """Return the result of a system call; None for an empty or truncated datagram, which is counted."""
        if not size or flags & TRUNCATED:
            self.statistics["not received: truncated" if size else "not received: empty"] += 1
            return None
        segment = int.from_bytes(control[0][2], sys.byteorder) if control else size
        self.reads += 1
        self.coalesced = segment < size
        return size, segment, source, control

    def _is_over(self, error: OSError) -> bool:
        """Whether there is nothing more to read; all else that reading may tell is counted."""
        if isinstance(error, BlockingIOError):
            self._drained = True
        else:  # an ICMP answer to something sent earlier, or the interface went down
            self.statistics[f"not received: {errno.errorcode.get(error.errno or 0, 'unknown error')}"] += 1
        return self._drained

    def _count(self, trains: int, datagrams: int, octets: int) -> None:
        self.statistics["trains received"] += trains
        self.statistics["datagrams received"] += datagrams
        self.statistics["bytes received"] += octets

    def _more(self) -> bool:
        """Whether more is queued. A third of the cost of a read in vain, as after most lone datagrams it would be."""
        try:
            fcntl.ioctl(self._fileno, termios.FIONREAD, self._queued)
        except OSError:  # it is closed, which reading tells
            return True
        return self._queued != NOTHING
