"""Drives an endpoint from a background thread, for programs that block.

One thread, the *leader*, waits for the network, runs the turns and then the handlers, without a lock. Therefore a
message needs no change of threads, and handlers may publish, subscribe, take long or raise. If a handler takes too
long, the standby thread takes the lead.
"""

from __future__ import annotations

import math
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from glue.contract import Delivery, Event, Leave, Network
from glue.contract.logs import lazy_logger
from glue.drivers.asking import Asking
from glue.drivers.dispatch import EventReceiver, addressed
from glue.drivers.lifetime import FAREWELL
from glue.drivers.malloc import keep_freed_memory
from glue.drivers.turns import ATTENTIVE
from glue.endpoint.admission import OPEN
from glue.endpoint.core import EARLY, EndpointCore
from glue.fastpath.session import PERIOD

if TYPE_CHECKING:
    from glue.fastpath.parts import NetworkPart

PATIENCE = 0.02  # seconds a handler may take before the standby thread takes the lead
ALERT = 0.006  # seconds after a publisher's turn during which the leader sleeps for ATTENTIVE at most
SLEEP = 60.0  # seconds the leader sleeps at most
BRIEF, BRIEFER = (
    300e-6,
    40e-6,
)  # seconds without a message until a session ends, and until it is committed
MOST_SKIPPED = 63  # sessions skipped after a session in which nothing passed, at most
QUIET = 50  # looks without a handler, a second of them, after which the standby thread sleeps until there is traffic
FOLLOWERS = 32  # threads in long handlers at most; beyond this number, deliveries wait for a thread to return

_leading = threading.local()
"""`driver`: the driver that this thread leads, or led."""

logger = lazy_logger("glue")


class Waitable(Protocol):
    """An object that a thread can wait for, such as `threading.Event`."""

    def wait(self, timeout: float) -> bool:
        """Wait, and return whether it came in time."""


class ThreadDriver(Asking):
    """Turns for one core over one network, in background threads."""

    def __init__(self, core: EndpointCore, network: Network, news: EventReceiver) -> None:
        """`news` is given every event that is not a delivery."""
        super().__init__(core, network, news)
        self._handling_since = 0.0  # when the leader began with handlers; 0: it is not in one
        self._watching, self._watch = False, threading.Event()
        self._skips_left = 0  # how often no session is to be tried
        self._skip_count = 0  # how many were skipped after the latest session

    def _renew_locks(self) -> None:
        """Make all locks, those of the core, too."""
        super()._renew_locks()
        self._hand_out = threading.RLock()  # guards mailboxes, `_busy` and the leader

    # ------------------------------------------------------------------------------------ life and death

    def start(self) -> None:
        """Fit the stack to the network and begin."""
        self._closed = False
        keep_freed_memory(self._core.settings.malloc_threshold)
        self._maintain()
        self._leader = self._thread(self._lead, "glue")
        self._leader.start()
        self._thread(self._stand_by, "glue standby").start()

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
            self._tell_waiters()
        self._backpressure.admit()
        self._network.wake()
        self._watch.set()
        for thread in list(self._threads):
            if thread is not threading.current_thread() and thread.is_alive():  # one may be about to start, and to end
                thread.join(FAREWELL)
        self._network_seat.close()

    # --------------------------------------------------------------------------------------------- turns

    def wait_for(self, event: Waitable, timeout: float) -> bool:
        """Wait for an event from another thread; in a handler, another thread runs the turns meanwhile."""
        driver = getattr(_leading, "driver", self)
        driver._step_down()  # of the endpoint with the waiting handler; maybe another endpoint of this process
        return event.wait(timeout)

    def _step_down(self) -> None:
        """If it is a handler of the leader that is about to wait: from now on another thread runs the turns."""
        with self._hand_out:
            if self._leader is not threading.current_thread() or self.closed:
                return
            self._leader = self._thread(self._lead, "glue")
            self._handling_since = 0.0
            self._leader.start()

    def _advance(self, longest: float) -> None:
        """Wait for the network or a timer, `longest` seconds at most, and run a turn; handlers come later."""
        if self._streaming():
            self._network_seat.stand_aside(self._streaming)
        self._woken = False
        self._sleeps_until = math.inf  # from here on publishers wake us; what they queued before is seen below
        if self._waiters or not self._is_known:  # a waiter may have waited for handlers
            with self._turn_lock:
                self._update()
        now = time.monotonic()
        longest = min(longest, ATTENTIVE) if now - self._flushed_at < ALERT else longest
        self._sleeps_until = until = min(self._deadline, self._maintain_at, now + longest)
        self._network_seat.wait(max(until - now, 0.0), self._is_due, not self._send_policy.is_exchange(now))
        self._sleeps_until, self._woken = 0.0, False
        if self._streaming():
            return
        self._is_receiving = True
        with self._turn_lock:
            if self._closed:
                return
            now = time.monotonic()
            if now >= self._maintain_at - EARLY:
                self._maintain()
            self._turn(now)
            if not self._events or self._waiters or self._admission.closed_from < OPEN:
                self._update()  # else handlers come first
        self._is_receiving = False

    def _lead(self) -> None:
        """The leader's life: turns and handlers, until closed or replaced."""
        me = threading.current_thread()
        _leading.driver = self
        while self._leader is me and not self._closed:
            try:
                if not self._run_session(me):
                    self._advance(SLEEP)
            except Exception:  # a fault of ours must not end the endpoint in silence
                logger.exception("turn failed")
                self._skips_left = 1
                time.sleep(PATIENCE)
            if self._events:
                self._hand_out_events(me)
        self._threads.discard(me)

    # ------------------------------------------------------------------------------------------ sessions

    def _run_session(self, me: threading.Thread) -> bool:
        """As long as lone messages come fast, handle one after the other; whether there is more to do than to wait."""
        network, session = self._network_part, self._core.stack.session
        if network is None or not self._is_exchanging(network):
            return False
        ident, passed = get_ident(), 0
        until = early = 0.0  # when what passed has to be committed (0: it is to be), and from when on it may be
        while self._leader is me and not self._closed:
            now = time.monotonic()
            if now >= until > 0.0:
                until = self._session_until(now)
            if now >= until:
                self._be_watched()
                until, early = self._open_session(now), now + PERIOD
                if now >= until:
                    break
            self._woken, self._sleeps_until = False, math.inf
            data = self._network_seat.glance(network, now + (BRIEF if now < early else BRIEFER), self._is_due)
            self._sleeps_until = 0.0
            if data is None:
                if now < early:
                    break
                until = 0.0  # if nothing came, the peer most likely commits just now: a good time to do so, too
                continue
            with self._turn_lock:
                now = time.monotonic()
                try:
                    delivery = session.receive(now, data, network.source)
                except BaseException:
                    network.keep(data)
                    raise
                if delivery is None:
                    network.keep(data)  # and received in the ordinary way
                    break
                network.take(data)
                self._is_uncommitted, self._is_known = True, False
                self._received += len(delivery.tokens)
                self._send_policy.arrived(now)
            passed += 1
            self._handle_lone(me, ident, now, delivery)
        if session.is_open:
            with self._turn_lock:
                self._update()
        self._skip_count = 0 if passed else min(2 * self._skip_count + 1, MOST_SKIPPED)
        self._skips_left = self._skip_count
        return self._leader is not me or bool(self._events)

    def _is_exchanging(self, network: NetworkPart) -> bool:
        """Whether lone messages come and go so fast that a session is worth trying."""
        now = time.monotonic()
        if now < self._asked_until or not self._send_policy.is_exchange(now):
            return False
        if self._skips_left:
            self._skips_left -= 1
            return False
        return network.is_eager and not self._events

    def _handle_lone(self, me: threading.Thread, ident: int, now: float, delivery: Delivery) -> None:
        """Call the handler for a lone message if a single idle subscription receives it; else dispatch as usual."""
        receiver: Any = delivery.tokens[0]
        with self._hand_out:
            if len(delivery.tokens) > 1 or receiver._busy or self._leader is not me:
                self._core.hold(delivery)
                self._events += addressed([delivery], self._news)
                return
            receiver._busy = True
            self._handling_since = now
        self.replier = ident
        self._serve(me, receiver, delivery, is_held=False)
        if self.replier == ident:
            self.replier = 0

    # ------------------------------------------------------------------------------------------ handlers

    def _hand_out_events(self, me: threading.Thread) -> None:
        """Run the handlers of what has come up, as long as this thread leads."""
        self._be_watched()
        while self._events and not self._closed:
            with self._hand_out:
                if self._leader is not me or not self._events:
                    return
                receiver, event = self._events.popleft()
                if receiver._busy:
                    receiver._mailbox.append(event)
                    continue
                receiver._busy = True
                self._handling_since = time.monotonic()
            self._serve(me, receiver, event)

    def _be_watched(self) -> None:
        """Let the standby thread see to it that no handler takes too long."""
        if not self._watching:
            self._watching = True
            self._watch.set()

    def _serve(self, me: threading.Thread, receiver: EventReceiver, event: Event | None, is_held: bool = True) -> None:
        """Deliver an event, and all later events of the same receiver that arrived meanwhile.

        `is_held`: whether the event was counted as waiting for its handler.
        """
        while event is not None:
            try:
                receiver._deliver(event)
            except BaseException:  # sys.exit too: a handler must not end this thread
                logger.exception("a handler failed on %r", event)
            if is_held and event.__class__ is Delivery:
                self.handled(event)
            is_held = True
            with self._hand_out:
                event = receiver._mailbox.popleft() if receiver._mailbox else None
                if event is None:
                    receiver._busy = False
                if self._leader is me:
                    self._handling_since = 0.0 if event is None else time.monotonic()

    def _stand_by(self) -> None:
        """Watch the leader while there is traffic; take the lead when a handler keeps it."""
        quiet = 0
        while not self.closed:
            if quiet > QUIET:
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
