"""The receivers of one kind at one endpoint: which are in memory, and what runs them."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from math import inf
from typing import Any

from glue.endpoint.receiver_ops import Operation, Runtime
from glue.endpoint.receiver_partitions import WAKE, Partitions
from glue.errors import GlueError, MinorityError, RefusedError, UnknownOutcomeError
from glue.model.questions import Unwatch
from glue.receivers.activation import Activation
from glue.receivers.address import parse, partition_of
from glue.receivers.context import AgainError, Mail, Step, Timer
from glue.receivers.store import FencedError, Store
from glue.receivers.wire import BATCH_MESSAGES, Result, at_topic, encode_results

RUN = 64
"""Messages that one receiver handles before others have their turn."""
ACTIVE = 500_000
"""Receivers of a kind in memory at most, of some 300 bytes and what they keep themselves: 150 MB."""
IDLE_LOOK = 1.0
"""Seconds between two looks for idle receivers."""

logger = logging.getLogger("glue")


class Kind(Partitions):
    """One hosted kind; `activation.Surroundings` of its receivers."""

    def __init__(
        self,
        runtime: Runtime,
        kind: str,
        factory: Callable[[], Any],
        partitions: int,
        model: str,
        store: Store | None,
        idle: float,
        dead_letters: str | None,
        is_fenced: bool = True,
    ) -> None:
        """`is_fenced` is false only where tests show what fencing is for."""
        super().__init__(runtime, kind, partitions, model, store, is_fenced)
        self.factory = factory
        self.slowest = 0.0
        self.handled = self.failures = 0
        self._idle = idle
        self._dead_letters = dead_letters
        self._timers: list[tuple[float, int, Timer, Activation]] = []
        self._count = count()
        self._idle_at = 0.0

    def tick(self, now: float) -> None:
        """Do what is due: claims, hand-overs, timers, idle receivers."""
        super().tick(now)
        self._ring(now)
        if now >= self._idle_at:
            self._idle_at = now + IDLE_LOOK
            self._put_away(now)

    # --------------------------------------------------------------------------------------------- receivers

    def is_waiting(self, sender: str, partition: int, seq: int, id: str, settle: Any) -> bool:
        """Whether a message that came again is still waiting, or being handled; then its answer goes there."""
        with self.runtime.lock:
            mail = self._pending.get((sender, partition, seq))
            if mail is None or mail.settle is None:
                return False
            mail.settle = settle
            return True

    def put(self, id: str, mail: Mail, partition: int = -1) -> None:
        """Queue a message for a receiver, which is made if it is not in memory.

        `partition`: of a message from another endpoint, which may come again.
        """
        with self.runtime.lock:
            activation = self.activations.get(id)
            if activation is None and len(self.activations) >= ACTIVE:
                self.runtime.statistics["messages to too many receivers"] += 1
                if mail.settle is not None:
                    mail.settle(GlueError(f"{ACTIVE} receivers of {self.kind!r} are in memory"), None)
                return
            if activation is None:
                activation = self.activations[id] = Activation(self, id)
                activation.used_at = self.now()
            if not activation.put(mail):
                self.runtime.statistics["messages to full receivers"] += 1
                if mail.settle is not None:
                    mail.settle(GlueError(f"{activation.address} has too many messages waiting"), None)
                return
            if partition >= 0:
                self._pending[mail.sender, partition, mail.seq] = mail
            if activation.is_scheduled:
                return
            activation.is_scheduled = True
        self.runtime.executor.soon(lambda: self._run(activation))

    def _schedule(self, activation: Activation) -> None:
        if not activation.is_scheduled:
            activation.is_scheduled = True
            self.runtime.executor.soon(lambda: self._run(activation))

    def _run(self, activation: Activation) -> None:
        self._drive(activation, self._steps(activation), None, None)

    def _drive(self, activation: Activation, steps: Generator[Operation, Any, None], value: Any,
               error: BaseException | None) -> None:  # fmt: skip
        """Run the steps of a receiver until they end, or have to wait."""
        perform = self.runtime.executor.perform
        while True:
            try:
                operation = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                break
            except Exception:
                logger.exception("%s failed", activation.address)
                break
            outcome = perform(operation, lambda value, error: self._drive(activation, steps, value, error))
            if not isinstance(outcome, tuple):
                return
            value, error = outcome
        with self.runtime.lock:
            activation.is_scheduled = False
            if activation.mailbox or (activation.is_stopping and activation.id in self.activations):
                self._schedule(activation)

    def _steps(self, activation: Activation) -> Generator[Operation, Any, None]:
        mailbox, lock = activation.mailbox or deque(), self.runtime.lock
        partition = partition_of(activation.id, self.partitions)
        for _ in range(RUN):
            if not mailbox or activation.is_stopping:
                break
            mail = mailbox.popleft()
            began = self.now()
            if mail.payload is WAKE:
                mail = Mail(None)
                steps = self._wake(activation)
            else:
                steps = activation.handle(mail)
            try:
                yield from self._with_operations(activation, steps)
            except (AgainError, FencedError, MinorityError, UnknownOutcomeError, RefusedError) as error:
                self._not_handled(activation, mail, error)
                return
            except Exception as error:  # a store, or `activate`
                self.runtime.statistics["receivers failed"] += 1
                logger.warning("%s: %r", activation.address, error)
                activation.forget()
                if mail.settle is not None:
                    settle, mail.settle = mail.settle, None
                    settle(error, None)
            if mail.sender:
                self._pending.pop((mail.sender, partition, mail.seq), None)
            self.handled += 1
            self.slowest = max(self.slowest, self.now() - began)
        if activation.is_stopping and not activation.mailbox:
            try:
                yield from self._with_operations(activation, activation.deactivate())
            except Exception as error:
                self.runtime.statistics["receivers failed"] += 1
                logger.warning("%s: deactivate: %r", activation.address, error)
                activation.forget()
            with lock:
                activation.is_stopping = False
                if not activation.mailbox:
                    self.activations.pop(activation.id, None)
        elif activation.is_stopping:
            activation.is_stopping = False

    def _wake(self, activation: Activation) -> Generator[Step, Any, None]:
        if activation.receiver is None:
            yield from activation._activate()

    def _with_operations(
        self, activation: Activation, steps: Generator[Step, Any, None]
    ) -> Generator[Operation, Any, None]:
        """The operations of some steps."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            value = error = None
            try:
                operation = self._operation(activation, step)
            except GlueError as wrong:
                error = wrong
                continue
            try:
                value = yield operation
            except Exception as raised:
                error = raised

    def _not_handled(self, activation: Activation, mail: Mail, error: BaseException) -> None:
        """A write was refused, or nobody knows: what is in memory is void, and the messages are to come again."""
        self.runtime.statistics["receivers fenced off"] += 1
        with self.runtime.lock:
            activation.forget()
            if self.activations.get(activation.id) is activation:
                del self.activations[activation.id]
            self._again(activation, mail, AgainError(str(error)))
            self._hand_back(activation)

    # ------------------------------------------------------------------------------------------ surroundings

    def now(self) -> float:
        """The time, in monotonic seconds."""
        now: float = self.runtime.now()
        return now

    def unix_time(self) -> float:
        """The time, in Unix seconds."""
        now: float = self.runtime.unix_time()
        return now

    def send(self, address: str, payload: Any, path: tuple[str, ...]) -> None:
        """Send a message of a receiver."""
        subnet = self.kind.partition(":")[0]
        self.runtime.send(parse(address, subnet), payload)

    def request(self, address: str, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver."""
        return self.runtime.executor.ask(parse(address, self.kind.partition(":")[0]), payload, timeout, path)

    def arm(self, timer: Timer) -> None:
        """Let a timer's message come when it is due."""
        with self.runtime.lock:
            activation = timer._activation
            heapq.heappush(self._timers, (timer.due, next(self._count), timer, activation))
            self.runtime.wake_at(timer.due)

    def _ring(self, now: float) -> None:
        with self.runtime.lock:
            while self._timers and self._timers[0][0] <= now:
                due, _, timer, activation = heapq.heappop(self._timers)
                if timer.due != due or self.activations.get(activation.id) is not activation:
                    continue
                mail = activation.rung(timer)
                if mail is not None:
                    self.put(activation.id, mail)

    @property
    def due(self) -> float:
        """When a timer is due."""
        return self._timers[0][0] if self._timers else inf

    def failed(self, activation: Activation, mail: Mail, error: BaseException, policy: str) -> None:
        """A handler raised."""
        self.failures += 1
        self.runtime.core.failed()
        logger.warning("%s failed on a message: %r", activation.address, error, exc_info=self.failures <= 1 and error)
        if policy == "park" and self._dead_letters is not None:
            self.runtime.park(self._dead_letters, activation.address, mail.payload, error)

    def _put_away(self, now: float) -> None:
        with self.runtime.lock:
            for activation in list(self.activations.values()):
                if activation.is_scheduled or activation.mailbox or activation.timers:
                    continue
                idle = getattr(activation.receiver, "idle", self._idle)
                if now - activation.used_at >= idle:
                    activation.is_stopping = True
                    self._schedule(activation)

    # ------------------------------------------------------------------------------------------------- others

    def answers(self, peer: str, number: int) -> Callable[[Result], None]:
        """What takes the results of one batch; those of a moment leave together."""
        results: list[Result] = []

        def leave() -> None:
            with self.runtime.lock:
                taken, results[:] = results[:], []
            for start in range(0, len(taken), BATCH_MESSAGES):
                part = taken[start : start + BATCH_MESSAGES]
                self.runtime._publish(at_topic(peer), [encode_results(number, part)])

        def take(result: Result) -> None:
            with self.runtime.lock:
                results.append(result)
                if len(results) > 1:
                    return
            self.runtime.executor.soon(leave)

        return take

    def drain(self) -> None:
        """Put all receivers away."""
        with self.runtime.lock:
            for activation in list(self.activations.values()):
                activation.is_stopping = True
                self._schedule(activation)

    @property
    def is_handing_over(self) -> bool:
        """Whether partitions are left that another host should have."""
        return any(self.ownership.wanted(partition) for partition in self.ownership.all_owned)

    @property
    def is_settled(self) -> bool:
        """Whether this endpoint serves each partition that it should have."""
        ownership, host = self.ownership, self.runtime.host
        if not ownership.is_known:
            return False
        return all(self.serves(part) for part in range(self.partitions) if ownership.wanted(part) == host)

    def counters(self) -> dict[str, Any]:
        """What `glue receivers` shows."""
        with self.runtime.lock:
            waiting = sorted(((len(one.mailbox or ()), one.id) for one in self.activations.values()), reverse=True)[:3]
            return {
                "kind": self.kind,
                "partitions": len(self.ownership.all_owned),
                "of": self.partitions,
                "active": len(self.activations),
                "waiting": sum(len(one.mailbox or ()) for one in self.activations.values()),
                "longest": [[id, size] for size, id in waiting if size],
                "handled": self.handled,
                "failed": self.failures,
                "slowest_ms": round(self.slowest * 1000, 3),
            }

    def close(self) -> None:
        """Stop watching, and close the store."""
        if not self.runtime.is_closed:
            self._ask_model(Unwatch(self._watch), lambda answer: None)
        if self._store is not None:
            self._store.close()
