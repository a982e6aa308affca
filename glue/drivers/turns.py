"""Turns of any thread on the stack and the network of an endpoint: publish, ask and wait, under one lock.

A publisher's thread sends by itself when the network was idle a moment ago, or a bundle is full. With more than one or
two bundles in flight, the publisher's turns receive too, and the leader (`glue.drivers.leader`) leaves the network to
the publisher (`glue.drivers.network_seat`). A reply in the handler of a lone message leaves in a session of the fast
path (`glue.fastpath.session`).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from glue._lazy import preload
from glue.contract import HIGH, Delivery, Event, Network, Publication, Train
from glue.contract.fastpath import offered
from glue.drivers.backpressure import Backpressure
from glue.drivers.dispatch import EventReceiver, addressed
from glue.drivers.interruption import Uninterrupted
from glue.drivers.lifetime import Lifetime
from glue.drivers.network_seat import ASIDE, RELIEF, NetworkSeat
from glue.drivers.send_policy import BUSY, OUTBOX, SendPolicy
from glue.endpoint.admission import OPEN, Admission
from glue.endpoint.core import EndpointCore
from glue.endpoint.encoding import NeedsCodecError, encoded
from glue.endpoint.locks import asked_whether_held
from glue.endpoint.options import waiting_time
from glue.errors import ClosedError
from glue.model import StackRequest

if TYPE_CHECKING:
    from glue.fastpath.parts import NetworkPart

ATTENTIVE = 0.003  # seconds the leader sleeps at most for a while after publishers ran turns, as they set timers

Result = TypeVar("Result")


class Turns(Lifetime):
    """Turns for a core over a network, by any thread; one thread is the leader."""

    def __init__(self, core: EndpointCore, network: Network, news: EventReceiver) -> None:
        """`news` receives every event except deliveries."""
        self._core = core
        self._network_seat = NetworkSeat(network)
        self._backpressure = Backpressure(core.settings.queue_limit)
        super().__init__()
        self._network = network
        offer = offered(network, "session_part", "receive", "send", "wait", "wake")
        self._network_part: NetworkPart | None = offer() if offer else None
        if self._network_part is not None and core.security is not None:
            from glue.security.fastpath import SealedNetworkPart  # imported here: most programs use no key

            self._network_part = SealedNetworkPart(self._network_part, core.security)
        self._news = news
        self._uninterrupted = Uninterrupted(Turns._flush.__code__)
        self._events: deque[tuple[EventReceiver, Event]] = deque()
        self._leader: threading.Thread | None = None
        self._threads: set[threading.Thread] = set()
        self._sleeps_until, self._woken = 0.0, False  # 0: the leader is awake
        self._is_receiving = False  # whether it may be waiting all the same, for the rest of what is being sent
        self._waiters: deque[threading.Lock] = deque()  # one for each thread that waits until something comes true
        self._flushed_at = 0.0  # when the last turn of a publisher's thread was: inf if now
        self._maintain_at, self._datagram_size = 0.0, 0
        self._deadline, self._backlog = 0.0, 0  # of the stack, as of the latest turn
        self._is_known = True  # whether these are
        self._admission = Admission(core.settings.queue_limit)
        self._send_policy = SendPolicy(core.settings.queue_limit)
        self._committing = Uninterrupted(Turns._commit.__code__)
        self._awaiting = Uninterrupted(Turns._await.__code__, self._tell_waiters)
        self._asked_until = 0.0  # until when another request is expected of a thread that waits at the network
        self._is_uncommitted, self._received = False, 0  # whether anything passed in a session; deliveries of that
        self.replier = 0  # the thread that handles a lone message just now, and may answer it by `reply`; 0: none

    def _renew_locks(self) -> None:
        """Make all locks, those of the core, too."""
        self._core.renew_locks()
        self._network_seat.renew_locks()
        self._turn_lock: Any = threading.RLock()  # held while the stack and the network are in use
        self._is_in_turn = asked_whether_held(self._turn_lock)  # whether this thread holds it

    def _step_down(self) -> None:
        """If this thread leads, another one is to, as it is about to wait."""
        raise NotImplementedError

    def _maintain(self) -> None:
        """Look after the interface; its frames may have become smaller, or larger."""
        if self._maintain_at:
            preload.load_next()
        self._maintain_at = self._network.maintain(time.monotonic())
        if self._network.datagram_size != self._datagram_size:
            self._datagram_size = self._network.datagram_size
            self._core.stack.fit(self._datagram_size)

    # ---------------------------------------------------------------------------------------- publishing

    def publish(self, publications: Sequence[Publication], block: bool) -> None:
        """Send publications of one class now, if the network was idle, or as soon as enough has gathered.

        While the queue is full for their class, waits; or raises WouldBlockError if `block` is false.
        """
        if self._closed:
            raise ClosedError("the endpoint is closed; start it, or use it inside its with block")
        priority, outbox, admission = publications[0].priority, self._core.outbox, self._admission
        is_full = self._backlog + outbox.size > admission.limits[priority]
        if is_full or priority >= admission.closed_from or self._core.overfed:
            self._wait_for_room(priority, block)
        if self._backlog < BUSY and (priority <= HIGH or self._send_policy.is_due(outbox.size, self._backlog)):
            self._flush(outbox.size >= OUTBOX, publications)
            return
        outbox.add(*publications)
        if priority <= HIGH or outbox.size >= self._send_policy.bundle:
            self._flush(outbox.size >= OUTBOX)
        elif self._sleeps_until:
            self._wake()
        else:
            self._network_seat.hurry()

    def reply(self, topic: str, payload: Any) -> bool:
        """Publish the answer to a lone message in the session; False if it has to take the ordinary way."""
        core, network, lock = self._core, self._network_part, self._turn_lock
        if network is None or self._closed or get_ident() != self.replier or core.outbox.requests:
            return False
        if topic.__class__ is not str or not lock.acquire(False):
            return False
        try:
            session = core.stack.session
            way = session.topic(topic)
            if way is None:
                return False
            body, json = (payload, False) if payload.__class__ is bytes else encoded(payload, True)
            if len(body) > core.settings.message_limit:
                return False
            now = time.monotonic()
            sent = session.send(now, time.time(), way, body, json)
            if sent is None:
                return False
            self.replier = 0  # what else it publishes may be more than an answer: it goes the ordinary way, and gathers
            network.post(*sent)
            self._is_uncommitted = True
            self._send_policy.answered(now)
            return True
        except NeedsCodecError:
            return False
        finally:
            lock.release()

    def order(self, request: StackRequest, wait: bool = True) -> None:
        """Pass a request to the stack, after all earlier publications; without `wait`, never wait for a turn."""
        if self.closed:
            raise ClosedError("the endpoint is closed; start it, or use it inside its with block")
        self._core.outbox.order(request)
        self._flush(wait)

    def _flush(self, wait: bool, publications: Sequence[Publication] = ()) -> None:
        """Run a turn from a publisher's thread, `publications` last; without `wait`, leave it to a running turn."""
        lock = self._turn_lock
        if not self._is_in_turn():  # else a signal came in a turn of this thread: what its handler says goes next
            with self._uninterrupted:  # before the lock, as whatever Ctrl-C calls may want that
                try:
                    if lock.acquire(blocking=False) or (wait and self._backpressure.wait_for_turn(lock)):
                        self._run(publications)
                        return
                finally:
                    try:  # noqa: SIM105  # nothing is called before, as handlers of signals, which may raise, come after a call
                        lock.release()
                    except RuntimeError:  # it was not acquired
                        pass
        self._core.outbox.add(*publications)
        self._wake()

    def _run(self, publications: Sequence[Publication]) -> None:
        """A turn from a publisher's thread, which holds the turn lock; or only what goes down."""
        if self._closed and publications:  # no thread would send them or report the outcome
            raise ClosedError("the endpoint was closed while publish waited for its turn")
        if self._closed:
            return
        in_handler = threading.current_thread() is self._leader
        if not in_handler:
            self._flushed_at = math.inf
        try:
            if self._backlog < BUSY or publications or in_handler or self._core.is_counting():
                now = time.monotonic()
                if publications:
                    self._send_policy.spoke(now)
                self._leave(self._core.send(now, publications))
            else:
                self._turn(time.monotonic())
            self._update()
        finally:
            self._flushed_at = self._flushed_at if in_handler else time.monotonic()
        if self._events or self._deadline < self._sleeps_until - ATTENTIVE:
            self._wake()

    def wake(self) -> None:
        """Have another thread run a turn soon. Never waits, so it may be called with a lock held."""
        self._wake()

    def _wake(self) -> None:
        if self._network_seat.is_aside:
            self._network_seat.call()
        elif (self._sleeps_until or self._is_receiving) and not self._woken:
            self._woken = True
            self._network.wake()

    def _wait_for_room(self, priority: int, block: bool) -> None:
        """Wait for acknowledgements; and, but in a handler, until what was published to oneself is handled."""
        in_handler = threading.current_thread() in self._threads

        def has_room() -> bool:
            overfed = self._core.overfed and not in_handler
            is_full = self._backlog + self._core.outbox.size > self._admission.limits[priority]
            return self.closed or not (overfed or is_full or priority >= self._admission.closed_from)

        if not has_room() and not block:
            raise self._core.would_block(self._backlog)
        if self._is_in_turn():  # a signal came in a turn of this thread, which is to make room
            return
        self._step_down()
        self._relieve(has_room)
        waited = self._backpressure.wait(has_room, self._wake, lambda: self._backlog + self._core.outbox.size)
        if waited and self.closed:
            raise ClosedError("the endpoint was closed while publish waited for room")

    def is_handler(self) -> bool:
        """Whether the caller is a thread of this driver, as handlers are; it must not wait for what they do."""
        return threading.current_thread() in self._threads

    def _relieve(self, has_room: Callable[[], bool]) -> None:
        """Wait for acknowledgements in the leader's place, if it stands aside, and run the turns; for a while."""
        until = min(self._maintain_at, time.monotonic() + RELIEF)
        while self._backlog >= BUSY and not self._core.overfed and time.monotonic() < until:
            if not self._network_seat.relieve(self._deadline, has_room, lambda: self._core.outbox.requests):
                break
            self._flush(True)

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that turns bring about; returns whether it came true in time.

        The condition is looked at between turns, so it may read the stack. Raises ConfigurationError.
        """
        seconds = waiting_time(timeout)
        self._step_down()
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            is_true = self._await(condition, until)
            if is_true or self.closed or time.monotonic() >= until:
                return is_true

    def _await(self, condition: Callable[[], bool], until: float) -> bool:
        """Wait for a condition until a time (monotonic seconds) or Ctrl-C; the signal handler is called at the end."""
        gate = threading.Lock()
        gate.acquire()
        with self._awaiting:
            self._waiters.append(gate)
            try:
                self._wake()
                while True:
                    with self._turn_lock:
                        is_true = self._look(condition)
                    left = until - time.monotonic()
                    if is_true or left <= 0.0 or self.closed or self._awaiting.is_noted:
                        return is_true
                    gate.acquire(timeout=min(left, threading.TIMEOUT_MAX))
            finally:
                self._waiters.remove(gate)

    def _tell_waiters(self) -> None:
        """Make all waiting threads check their conditions again."""
        for gate in list(self._waiters):
            with contextlib.suppress(RuntimeError):  # it has been told, and is on its way
                gate.release()

    def inspect(self, read: Callable[[], Result]) -> Result:
        """Read something of the stack between two turns."""
        with self._turn_lock:
            return self._look(read)

    def _look(self, read: Callable[[], Result]) -> Result:
        """Read something of the stack; the caller holds the turn lock."""
        self._commit()
        return read()

    def _commit(self) -> None:
        """Run the deferred work of the layers and of a session, without an interruption halfway."""
        if self._network_part is None or not self._is_uncommitted:
            self._core.stack.commit()
            return
        with self._committing:
            self._core.stack.commit()
            self._network_part.commit()
            self._core.statistics["messages arrived"] += self._received
            self._is_uncommitted, self._received = False, 0

    def handled(self, delivery: Delivery) -> None:
        """A subscription is done with a delivery; the senders are told if they were waiting for that."""
        if self._core.handled(delivery):
            self._backpressure.admit()
        if self._core.outbox.requests:
            self._wake()

    # --------------------------------------------------------------------------------------------- turns

    def _turn(self, now: float) -> None:
        """One turn; the caller holds the turn lock."""
        events, out = self._core.turn(now, self._network.receive())
        self._leave(out)
        if events:
            self._send_policy.arrived(now)
            self._events += addressed(events, self._news)
        self._is_known = False

    def _leave(self, out: Sequence[Train]) -> None:
        if out:
            self._network.send(out)
            self._send_policy.sent()

    def _update(self) -> None:
        """Update the deadline and the backlog after a turn, and wake waiters; the caller holds the turn lock."""
        self._is_known, backpressure = True, self._backpressure
        backpressure.turns, backpressure.in_vain = backpressure.turns + 1, False
        self._commit()
        self._deadline = self._core.deadline
        self._backlog = self._core.stack.backlog
        is_eased = self._admission.update(self._backlog)
        if is_eased or (backpressure.is_awaited and self._admission.closed_from == OPEN):
            backpressure.admit()
            self._network_seat.hurry()
        if self._waiters:
            self._tell_waiters()

    def _streaming(self) -> bool:
        """Whether a publisher's thread is about to run the next turns, and nothing is left for the leader to do."""
        if self._backpressure.is_awaited or self._events or self._waiters or self.closed:
            return False
        if self._asked_until and time.monotonic() < min(self._asked_until, self._maintain_at):
            return not self._core.outbox.requests
        if self._backlog < BUSY:
            return False
        is_near = self._network_seat.is_relieved or time.monotonic() < self._flushed_at + ASIDE
        return is_near and time.monotonic() < self._maintain_at

    def _is_due(self) -> bool:
        """Whether something is to be done without waiting for the network."""
        return bool(self._core.outbox.requests or self._events or self.closed)
