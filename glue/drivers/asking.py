"""A thread that asks waits for its answer at the network itself, in place of the leader.

Otherwise the leader would receive the answer and wake the thread, which costs more than the round trip. A thread takes
the network seat for this if its previous answer came a moment ago: then the leader stands aside and expects another
request. Request and answer pass in a session of the fast path. The thread takes nothing but answers. Whatever else
arrives or is due, it leaves to the leader, and waits in the ordinary way.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glue.contract import NORMAL, PLAIN, Delivery, Event, Network, Publication
from glue.drivers.dispatch import EventReceiver, addressed
from glue.drivers.interruption import Uninterrupted
from glue.drivers.network_seat import ASIDE, RELIEF
from glue.drivers.turns import Turns
from glue.endpoint.admission import OPEN
from glue.endpoint.core import EndpointCore
from glue.fastpath.session import PERIOD

if TYPE_CHECKING:
    from glue.fastpath.parts import NetworkPart

SESSION_ROOM = 512 << 10  # bytes of room in the queue that a session needs: more than can be in flight
PATIENT = 300e-6  # seconds a thread looks for its answer; a later answer is worth a wake-up
REFRAINS = 63  # requests that take the ordinary way after answers that took longer, at most


class Asking(Turns):
    """Turns, and the exchange of a lone request and its answer by the thread that asks."""

    def __init__(self, core: EndpointCore, network: Network, news: EventReceiver) -> None:
        """`news` receives every event except deliveries."""
        super().__init__(core, network, news)
        self._exchanging = Uninterrupted(Asking._ask.__code__, network.wake)
        self._awaiting_answers = Uninterrupted(Asking._await_answers.__code__, network.wake)
        self._answered_at = -math.inf  # when the latest answer came
        self._session_ends = 0.0  # when a session has to be looked at again, or committed
        self._refrain, self._refrained = 0, 0  # how often not to ask so, and how often it was after the last failure

    def _renew_locks(self) -> None:
        super()._renew_locks()
        self._asker = threading.Lock()  # held by the thread that asks

    def answered(self) -> None:
        """Note that an answer came, so that another request may follow at once."""
        self._answered_at = time.monotonic()

    def ask(self, request: Publication, answers: EventReceiver, is_over: Callable[[], bool]) -> bool:
        """Send a lone request, and wait for its answer at the network for a moment; False: it has yet to be published.

        `answers` receives all answers; `is_over` tells whether the one to this request has come.
        """
        network = self._network_part
        is_plain = request.options is PLAIN and request.priority == NORMAL and len(request.payloads) == 1
        if network is None or not is_plain or not self._may_ask():
            return False
        with self._exchanging:
            try:
                return self._ask(network, request, answers, is_over)
            finally:
                self._asker.release()

    def await_answers(self, answers: EventReceiver, is_over: Callable[[], bool]) -> None:
        """Wait at the network for answers, and run the turns, for a moment at most; the end may come later."""
        if is_over() or not self._may_ask():
            return
        with self._awaiting_answers:
            try:
                self._await_answers(answers, is_over)
            finally:
                self._asker.release()

    def _may_ask(self) -> bool:
        """Whether this thread may take the network seat, for which it then holds `_asker`."""
        if time.monotonic() > self._answered_at + ASIDE or self._is_in_turn():
            return False
        if threading.current_thread() in self._threads or not self._asker.acquire(blocking=False):
            return False
        if self._refrain:
            self._refrain -= 1
            self._asker.release()
            return False
        return True

    def _await_answers(self, answers: EventReceiver, is_over: Callable[[], bool]) -> None:
        now = time.monotonic()
        self._asked_until = until = now + RELIEF
        is_answered = False
        if self._network_seat.take(PATIENT):
            try:
                while now < until and not self._is_due() and not self._awaiting_answers.is_noted:
                    self.expect_answer()
                    self._network.wait(min(until, self._deadline, self._maintain_at) - now)
                    now = self._receive_answers(answers)
                    if is_answered := is_over():
                        break
            finally:
                self._network_seat.leave()
        self._end_asking(is_answered)

    def _receive_answers(self, answers: EventReceiver) -> float:
        """Run a turn and hand out answers; the leader handles what else has come. Returns the time."""
        with self._turn_lock:
            if self._closed:
                return math.inf
            self._turn(now := time.monotonic())
            found: list[Event] = []
            while self._events and self._events[0][0] is answers:
                found.append(self._events.popleft()[1])
            self._update()
        for event in found:
            answers._deliver(event)
            if event.__class__ is Delivery:
                self.handled(event)
        return now

    def expect_answer(self) -> None:
        """Let the next wait for the network end as soon as something comes, which is a request or an answer."""
        if self._network_part is not None:
            self._network_part.expect_answer()

    def _end_asking(self, is_answered: bool) -> None:
        """Let the leader expect another request, or return to the network."""
        if is_answered:
            self._refrained = 0
            self._asked_until = time.monotonic() + ASIDE
        else:
            self._refrain = self._refrained = min(2 * self._refrained + 1, REFRAINS)
            self._asked_until = 0.0
            self._network_seat.call()

    def _ask(
        self, network: NetworkPart, request: Publication, answers: EventReceiver, is_over: Callable[[], bool]
    ) -> bool:
        self._asked_until = time.monotonic() + ASIDE
        is_sent = is_answered = False
        if self._network_seat.take(PATIENT):
            try:
                is_sent = self._post(network, request)
                while is_sent and not is_answered and self._take_answer(network, answers):
                    is_answered = is_over()
            finally:
                self._network_seat.leave()
        self._end_asking(is_answered)
        return is_sent

    def _post(self, network: NetworkPart, request: Publication) -> bool:
        """Send a request in the session; whether it could be."""
        core = self._core
        with self._turn_lock:
            now = time.monotonic()
            if self._closed or self._is_due():
                return False
            session = core.stack.session
            if (not session.is_open or now >= self._session_ends) and not self._is_session_open(now):
                return False
            way = session.topic(request.topic)
            if way is None:
                return False
            sent = session.send(now, request.published_at, way, request.payloads[0], False)
            if sent is None:
                return False
            network.post(*sent)
            self._is_uncommitted, self._is_known = True, False
            self._send_policy.answered(now)
            return True

    def _take_answer(self, network: NetworkPart, answers: EventReceiver) -> bool:
        """Wait briefly for an answer and take it; leave any other message to the leader."""
        if self._is_due():
            return False
        data = network.glance(time.monotonic() + PATIENT)
        if data is None:
            return False
        with self._turn_lock:
            now = time.monotonic()
            try:
                delivery = self._core.stack.session.receive(now, data, network.source)
            except BaseException:
                network.keep(data)
                raise
            if delivery is None:
                network.keep(data)  # and received in the ordinary way
                return False
            network.take(data)
            self._is_uncommitted, self._is_known = True, False
            self._received += len(delivery.tokens)
            self._send_policy.arrived(now)
            receiver: Any = delivery.tokens[0]
            if len(delivery.tokens) > 1 or receiver is not answers:
                self._core.hold(delivery)
                self._events += addressed([delivery], self._news)
                return False
        answers._deliver(delivery)
        return True

    # ------------------------------------------------------------------------------------------ sessions

    def _is_session_open(self, now: float) -> bool:
        """Whether a session is open, or can be; the caller holds the turn lock and the seat."""
        if now < self._session_until(now) or now < self._open_session(now):
            return True
        self._turn(now)  # what is due, such as an acknowledgement
        return not self._events and now < self._open_session(now)

    def _session_until(self, now: float) -> float:
        """Until when nothing has to be committed (monotonic seconds)."""
        with self._turn_lock:
            self._session_ends = min(self._core.stack.session_until(now), self._maintain_at)
            return self._session_ends

    def _open_session(self, now: float) -> float:
        """Commit what passed, and let more pass; until when at most (monotonic seconds)."""
        with self._turn_lock:
            self._update()
            is_full = (
                self._backlog + SESSION_ROOM > self._admission.limits[NORMAL] or self._admission.closed_from < OPEN
            )
            if is_full or self._core.overfed or self._core.outbox.requests:
                return -math.inf
            until = min(now + PERIOD, self._deadline, self._maintain_at, self._core.stack.session.open())
            if until <= now:
                self._core.stack.commit()
            self._session_ends = until
            return until
