"""The receivers of a kind at an endpoint, and their surroundings: time, timers, other receivers."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

from glue.endpoint.receiver_ops import Runtime
from glue.endpoint.receiver_payloads import copied
from glue.endpoint.receiver_running import Running
from glue.model.questions import Unwatch
from glue.receivers.activation import Activation
from glue.receivers.address import parse
from glue.receivers.context import Timer
from glue.receivers.store import Store

IDLE_LOOK = 1.0
"""Seconds between two looks for idle receivers."""
TIMERS_LEAST = 1024
"""Timers in the queue, those included that were taken back, before it is cleared of these."""

logger = logging.getLogger("glue")


class Kind(Running):
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
        types: dict[str, Callable[[Any], Any]],
        is_fenced: bool = True,
    ) -> None:
        """`is_fenced` is false only where tests show what fencing is for."""
        super().__init__(runtime, kind, partitions, model, store, is_fenced)
        self.factory = factory
        self.types = types
        self.failures = 0
        self._subnet = kind.partition(":")[0]
        self._idle = idle
        self._dead_letters = dead_letters
        self._timers: list[tuple[float, int, Timer]] = []
        self._timers_most = TIMERS_LEAST
        self._count = count()
        self._idle_at = 0.0

    def tick(self, now: float) -> None:
        """Do what is due: claims, hand-overs, timers, idle receivers."""
        super().tick(now)
        self._ring(now)
        if now >= self._idle_at:
            self._idle_at = now + IDLE_LOOK
            self._put_away(now)

    # ------------------------------------------------------------------------------------------ surroundings

    def now(self) -> float:
        """The time, in monotonic seconds."""
        return self._clock()

    def unix_time(self) -> float:
        """The time, in Unix seconds."""
        now: float = self.runtime.unix_time()
        return now

    def plain(self, payload: Any) -> Any:
        """A payload as a value that can be kept: bytes or JSON. Raises PayloadError."""
        return copied(payload)

    def check_send(self, address: str, payload: Any) -> tuple[str, Any]:
        """Return what to send later. Raises ConfigurationError, PayloadError, WouldBlockError."""
        target = parse(address, self._subnet)
        self.runtime.check_room(target)
        return str(target), copied(payload)

    def send(self, address: str, payload: Any) -> None:
        """Send a message of a receiver."""
        self.runtime.send(parse(address), payload, is_forced=True)

    def request(self, address: str, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver."""
        return self.runtime.executor.ask(parse(address, self._subnet), payload, timeout, path)

    def arm(self, timer: Timer) -> None:
        """Let a timer's message come when it is due."""
        with self.runtime.lock:
            if len(self._timers) >= self._timers_most:
                self._timers = [one for one in self._timers if one[2].due == one[0]]
                heapq.heapify(self._timers)
                self._timers_most = max(TIMERS_LEAST, 2 * len(self._timers))
            heapq.heappush(self._timers, (timer.due, next(self._count), timer))
            self.runtime.wake_at(timer.due)

    def _ring(self, now: float) -> None:
        with self.runtime.lock:
            while self._timers and self._timers[0][0] <= now:
                due, _, timer = heapq.heappop(self._timers)
                if timer.due != due:
                    continue
                activation: Activation = timer._activation
                mail = activation.rung(timer) if self.activations.get(activation.id) is activation else None
                if mail is not None:
                    self.append(activation, mail, True)
                elif timer.is_durable and self.serves(activation.partition):
                    self.wake(activation.id)  # it was put away, and reads its timers again

    @property
    def due(self) -> float:
        """When a timer is due."""
        return self._timers[0][0] if self._timers else inf

    def failed(self, activation: Activation, payload: Any, error: BaseException, policy: str) -> None:
        """A handler raised."""
        self.failures += 1
        self.runtime.core.failed()
        first = error if self.failures == 1 else None
        logger.warning("%s failed on a message: %r", activation.address, error, exc_info=first)
        if policy == "park" and self._dead_letters is not None:
            self.runtime.park(self._dead_letters, activation.address, payload, error)

    def _put_away(self, now: float) -> None:
        with self.runtime.lock:
            for activation in list(self.activations.values()):
                if activation.is_scheduled or activation.mailbox:
                    continue
                if activation.timers and any(not one.is_durable for one in activation.timers.by_number.values()):
                    continue
                idle = getattr(activation.receiver, "idle", self._idle)
                if now - activation.used_at >= idle:
                    self.stop(activation)

    # ------------------------------------------------------------------------------------------------- others

    def drain(self) -> None:
        """Put all receivers away."""
        with self.runtime.lock:
            for activation in list(self.activations.values()):
                self.stop(activation)

    @property
    def is_handing_over(self) -> bool:
        """Whether partitions are left that another host should have."""
        return any(self.ownership.wanted(partition) for partition in self.ownership.all_owned)

    @property
    def is_settled(self) -> bool:
        """Whether this endpoint serves each partition that it should have. Raises ConfigurationError if it may not."""
        if self.refusal is not None:
            raise self.refusal
        ownership, host = self.ownership, self.runtime.host
        if not ownership.is_known:
            return False
        return all(self.serves(part) for part in range(self.partitions) if ownership.wanted(part) == host)

    def counters(self) -> dict[str, Any]:
        """Figures of `glue receivers`."""
        with self.runtime.lock:
            waiting = sorted(self.waiting(), reverse=True)
            return {
                "kind": self.kind,
                "partitions": len(self.ownership.all_owned),
                "of": self.partitions,
                "active": len(self.activations),
                "waiting": sum(size for size, _ in waiting),
                "longest": [[id, size] for size, id in waiting[:3]],
                "handled": self.handled,
                "failed": self.failures,
                "slowest_ms": round(self.slowest * 1000, 3),
                "slowest": [[id, round(seconds * 1000, 3)] for id, seconds in self.slowest_ones()],
            }

    def close(self) -> None:
        """Stop watching, and close the store."""
        if not self.runtime.is_closed:
            self._ask_model(Unwatch(self._watch), lambda answer: None)
        if self._store is not None:
            self._store.close()
