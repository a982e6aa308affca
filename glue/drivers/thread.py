"""Drives an endpoint from a background thread, for programs that block.

One thread, the *leader*, waits for the network, runs the turns and then, holding no lock, the handlers: a
message costs no hand-over from thread to thread. Handlers may therefore publish, subscribe, take long or
raise. If one takes too long, the standby thread takes the lead.

A publisher's thread sends by itself when the network was idle a moment ago, or a bundle is full. Where more is under
way than fits into a bundle or two, its turns receive too, and the leader stands aside (`glue.drivers.lookout`).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from glue.admission import OPEN, Admission
from glue.contract import HIGH, Delivery, Event, Leave, Network, Publication, Train
from glue.core import EARLY, Core
from glue.drivers.interruption import Uninterrupted
from glue.drivers.life import FAREWELL, Life
from glue.drivers.lookout import ASIDE, RELIEF, Lookout
from glue.drivers.memory import keep_freed_memory
from glue.drivers.pace import BUSY, OUTBOX, Pace
from glue.drivers.receiver import Receiver, addressed
from glue.drivers.room import Room
from glue.errors import ClosedError
from glue.model import Wish

PATIENCE = 0.02  # seconds a handler may take before the standby thread takes the lead
ATTENTIVE = 0.003  # seconds the leader sleeps at most for a while after publishers ran turns, as they set timers
ALERT = 0.006  # seconds after such a turn during which it does so
SLEEP = 60.0  # seconds the leader sleeps at most
FOLLOWERS = 32  # threads stuck in handlers at most; beyond, deliveries wait for one of them to return

Result = TypeVar("Result")

logger = logging.getLogger("glue")


class ThreadDriver(Life):
    """Turns for one core over one network, in background threads."""

    def __init__(self, core: Core, network: Network, news: Receiver) -> None:
        """`news` is given every event that is not a delivery."""
        self._core = core
        self._lookout = Lookout(network)
        self._room = Room(core.settings.queue_limit)
        super().__init__()
        self._network = network
        self._news = news
        self._uninterrupted = Uninterrupted(ThreadDriver._flush.__code__)
        self._events: deque[tuple[Receiver, Event]] = deque()
        self._leader: threading.Thread | None = None
        self._threads: set[threading.Thread] = set()
        self._handling_since = 0.0  # when the leader began with handlers; 0: it is not in one
        self._watching, self._watch = False, threading.Event()
        self._sleeps_until, self._woken = 0.0, False  # 0: the leader is awake
        self._waiters, self._flushed_at = 0, 0.0  # and when the last turn of a publisher's thread was: inf if now
        self._maintain_at, self._datagram_size = 0.0, 0
        self._deadline, self._backlog = 0.0, 0  # of the stack, as of the latest turn
        self._settled = True  # whether these are known
        self._admission = Admission(core.settings.queue_limit)
        self._pace = Pace(core.settings.queue_limit)

    def renew_locks(self) -> None:
        """Make all locks, those of the core, too."""
        self._core.renew_locks()
        self._lookout.renew_locks()
        self._turn_lock: Any = threading.RLock()  # held while the stack and the network are in use; it knows its owner
        self._changed = threading.Condition(self._turn_lock)
        self._hand_out = threading.RLock()  # guards mailboxes, `busy` and who leads

    # ------------------------------------------------------------------------------------ life and death

    def start(self) -> None:
        """Fit the stack to the network and begin."""
        self._closed = False
        keep_freed_memory()
        self._maintain()
        self._leader = self._thread(self._lead, "glue")
        self._leader.start()
        self._thread(self._stand_by, "glue standby").start()

    def _maintain(self) -> None:
        """Look after the interface; its frames may have become smaller, or larger."""
        self._maintain_at = self._network.maintain(time.monotonic())
        if self._network.datagram_size != self._datagram_size:
            self._datagram_size = self._network.datagram_size
            self._core.stack.fit(self._datagram_size)

    def _thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.add(thread)
        return thread

    def close(self, timeout: float) -> None:
        """Let what was published be acknowledged, for `timeout` seconds at most; say goodbye; end."""
        in_handler = threading.current_thread() is self._leader  # then what waits for handlers waits for this one
        self.wait_until(lambda: self._core.is_done and (in_handler or not self._events), timeout)
        self._core.outbox.order(Leave())
        with self._turn_lock:
            if self.closed:
                return
            self._leave(self._core.send(time.monotonic()))
            self._closed = True
            self._changed.notify_all()
        self._room.admit()
        self._network.wake()
        self._watch.set()
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(FAREWELL)
        self._lookout.close()

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
        if self._backlog < BUSY and (priority <= HIGH or self._pace.is_due(outbox.size, self._backlog)):
            self._flush(outbox.size >= OUTBOX, publications)
            return
        outbox.add(*publications)
        if priority <= HIGH or outbox.size >= self._pace.bundle:
            self._flush(outbox.size >= OUTBOX)
        elif self._sleeps_until:
            self._wake()
        else:
            self._lookout.hurry()

    def order(self, request: Wish, wait: bool = True) -> None:
        """Pass a request to the stack, behind what was published before; now, or, not to wait for a turn, after it."""
        if self.closed:
            raise ClosedError("the endpoint is closed; start it, or use it inside its with block")
        self._core.outbox.order(request)
        self._flush(wait)

    def wait_for(self, event: threading.Event, timeout: float) -> bool:
        """Wait until another thread sets an event; in a handler, the turns go on without it."""
        self._step_down()
        return event.wait(timeout)

    def _flush(self, wait: bool, publications: Sequence[Publication] = ()) -> None:
        """Run a turn from a publisher's thread, these last; if the leader is in one, and not `wait`, leave it to it."""
        lock = self._turn_lock
        if not lock._is_owned():  # else a signal came in a turn of this thread: what its handler says goes next
            with self._uninterrupted:  # before the lock, as whatever Ctrl-C calls may want that
                try:
                    if lock.acquire(blocking=False) or (wait and self._room.wait_for_turn(lock)):
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
        if self._closed and publications:  # nobody would send them, or ever tell what became of them
            raise ClosedError("the endpoint was closed while publish waited for its turn")
        if self._closed:
            return
        in_handler = threading.current_thread() is self._leader
        if not in_handler:
            self._flushed_at = math.inf
        try:
            if self._backlog < BUSY or publications or in_handler or self._core.is_counting:
                now = time.monotonic()
                if publications:
                    self._pace.spoke(now)
                self._leave(self._core.send(now, publications))
            else:
                self._turn(time.monotonic())
            self._settle()
        finally:
            self._flushed_at = self._flushed_at if in_handler else time.monotonic()
        if self._events or self._deadline < self._sleeps_until - ATTENTIVE:
            self._wake()

    def _wake(self) -> None:
        if self._lookout.is_aside:
            self._lookout.call()
        elif self._sleeps_until and not self._woken:
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
        if self._turn_lock._is_owned():  # a signal came in a turn of this thread, which is to make room
            return
        self._step_down()
        self._relieve(has_room)
        waited = self._room.wait(has_room, self._wake, lambda: self._backlog + self._core.outbox.size)
        if waited and self.closed:
            raise ClosedError("the endpoint was closed while publish waited for room")

    def _relieve(self, has_room: Callable[[], bool]) -> None:
        """Wait for acknowledgements in the leader's place, if it stands aside, and run the turns; for a while."""
        until = min(self._maintain_at, time.monotonic() + RELIEF)
        while self._backlog >= BUSY and not self._core.overfed and time.monotonic() < until:
            if not self._lookout.relieve(self._deadline, has_room, lambda: self._core.outbox.requests):
                break
            self._flush(True)

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that turns bring about; returns whether it came true in time.

        The condition is looked at between turns, so it may read the stack.
        """
        self._step_down()
        with self._changed:
            self._waiters += 1
            self._wake()
            try:
                self._changed.wait_for(lambda: self.closed or condition(), timeout)
                return condition()
            finally:
                self._waiters -= 1

    def _step_down(self) -> None:
        """If it is a handler of the leader that is about to wait: from now on another thread runs the turns."""
        with self._hand_out:
            if self._leader is not threading.current_thread() or self.closed:
                return
            self._leader = self._thread(self._lead, "glue")
            self._handling_since = 0.0
            self._leader.start()

    def inspect(self, read: Callable[[], Result]) -> Result:
        """Read something of the stack between two turns."""
        with self._turn_lock:
            return read()

    def handled(self, delivery: Delivery) -> None:
        """A subscription is done with a delivery; the senders are told if they were waiting for that."""
        if self._core.handled(delivery):
            self._room.admit()
        if self._core.outbox.requests:
            self._wake()

    # --------------------------------------------------------------------------------------------- turns

    def _turn(self, now: float) -> None:
        """One turn; the caller holds the turn lock."""
        events, out = self._core.turn(now, self._network.receive())
        self._leave(out)
        if events:
            self._pace.arrived(now)
            self._events += addressed(events, self._news)
        self._settled = False

    def _leave(self, out: Sequence[Train]) -> None:
        if out:
            self._network.send(out)
            self._pace.sent()

    def _settle(self) -> None:
        """See what is to be done next, and who need not wait any more; the caller holds the turn lock."""
        self._settled, self._room.in_vain = True, False
        self._deadline = self._core.deadline
        self._backlog = self._core.stack.backlog
        if self._admission.update(self._backlog) or (self._room.is_awaited and self._admission.closed_from == OPEN):
            self._room.admit()
            self._lookout.hurry()
        if self._waiters:
            self._changed.notify_all()

    def _streaming(self) -> bool:
        """Whether a publisher's thread is about to run the next turns, and nothing is left for the leader to do."""
        if self._backlog < BUSY or self._room.is_awaited or self._events or self._waiters or self.closed:
            return False
        is_near = self._lookout.is_relieved or time.monotonic() < self._flushed_at + ASIDE
        return is_near and time.monotonic() < self._maintain_at

    def _is_due(self) -> bool:
        """Whether something is to be done without waiting for the network."""
        return bool(self._core.outbox.requests or self._events or self.closed)

    def _advance(self, longest: float) -> None:
        """Wait for the network or a timer, `longest` seconds at most, and run a turn; handlers come later."""
        if self._streaming():
            self._lookout.stand_aside(self._streaming)
        self._woken = False
        self._sleeps_until = math.inf  # from here on publishers wake us; what they queued before is seen below
        if self._waiters or not self._settled:  # who waits may have waited for handlers
            with self._turn_lock:
                self._settle()
        now = time.monotonic()
        longest = min(longest, ATTENTIVE) if now - self._flushed_at < ALERT else longest
        self._sleeps_until = until = min(self._deadline, self._maintain_at, now + longest)
        self._lookout.wait(max(until - now, 0.0), self._is_due, not self._pace.is_exchange(now))
        self._sleeps_until, self._woken = 0.0, False
        if self._streaming():
            return
        with self._turn_lock:
            if self._closed:
                return
            now = time.monotonic()
            if now >= self._maintain_at - EARLY:
                self._maintain()
            self._turn(now)
            if not self._events or self._waiters or self._admission.closed_from < OPEN:
                self._settle()  # else handlers come first

    def _lead(self) -> None:
        """The leader's life: turns and handlers, until closed or replaced."""
        me = threading.current_thread()
        while self._leader is me and not self._closed:
            try:
                self._advance(SLEEP)
            except Exception:  # a fault of ours must not end the endpoint in silence
                logger.exception("turn failed")
                time.sleep(PATIENCE)
            if self._events:
                self._hand_out_events(me)
        self._threads.discard(me)

    # ------------------------------------------------------------------------------------------ handlers

    def _hand_out_events(self, me: threading.Thread) -> None:
        """Run the handlers of what has come up, as long as this thread leads."""
        if not self._watching:
            self._watching = True
            self._watch.set()
        while self._events and not self._closed:
            with self._hand_out:
                if self._leader is not me or not self._events:
                    return
                receiver, event = self._events.popleft()
                if receiver.busy:
                    receiver.mailbox.append(event)
                    continue
                receiver.busy = True
                self._handling_since = time.monotonic()
            self._serve(me, receiver, event)

    def _serve(self, me: threading.Thread, receiver: Receiver, event: Event | None) -> None:
        """Hand over an event, and what came for the same receiver while it was busy with it."""
        while event is not None:
            try:
                receiver.deliver(event)
            except BaseException:  # sys.exit too: it is the handler's own affair, not this thread's end
                logger.exception("a handler failed on %r", event)
            if event.__class__ is Delivery:
                self.handled(event)
            with self._hand_out:
                event = receiver.mailbox.popleft() if receiver.mailbox else None
                if event is None:
                    receiver.busy = False
                if self._leader is me:
                    self._handling_since = 0.0 if event is None else time.monotonic()

    def _stand_by(self) -> None:
        """Watch the leader while there is traffic; take the lead when a handler keeps it."""
        quiet = 0
        while not self.closed:
            if quiet > 50:  # a second without handlers: sleep until there is traffic again
                self._watching = False
                self._watch.wait()
                self._watch.clear()
                self._watching = True
                quiet = 0
            time.sleep(PATIENCE)
            with self._hand_out:
                since = self._handling_since
                quiet = 0 if since else quiet + 1
                stuck = since and time.monotonic() - since >= PATIENCE and len(self._threads) < FOLLOWERS
                if not stuck or self.closed:
                    continue
                self._leader = threading.current_thread()
                self._handling_since = 0.0
            self._thread(self._stand_by, "glue standby").start()
            self._lead()
            return
        self._threads.discard(threading.current_thread())
