"""Run a receiver without network, threads or clock, for its tests.

from glue.testing import Context

context = Context(Thermostat, "kitchen")
assert context.ask({"set": 21}) == "ok"
context.advance(600)
assert context.state.get("target") == 20
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any

import orjson

from glue.errors import GlueError
from glue.receivers.activation import Activation
from glue.receivers.context import Await, FunctionReceiver, Load, Mail, Timer
from glue.receivers.state import State
from glue.receivers.store import Document

EPOCH = 1_700_000_000.0
"""The wall clock at the beginning (Unix seconds)."""


class Context:
    """One receiver, and what happens around it.

    `sent` lists what it sent, as (address, payload). `answers` maps an address to what `context.request` of the
    receiver returns for it: a value, or a function of the payload. Coroutine functions run to their end in each call.
    """

    def __init__(
        self,
        factory: type[Any] | Callable[[Any, Any], Any],
        id: str = "test",
        *,
        kind: str = "test",
        state: dict[str, Any] | None = None,
    ) -> None:
        """`factory` is as for `Endpoint.receivers`; `state` is what the store has."""
        self.kind = f":{kind}"
        self.factory: Callable[[], Any] = factory if isinstance(factory, type) else (lambda: FunctionReceiver(factory))
        self.sent: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.errors: list[BaseException] = []
        self.document: Document | None = None if state is None else {"state": dict(state)}
        self._now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = count()
        self._activation = Activation(self, id)

    # ------------------------------------------------------------------------------------------- for the test

    @property
    def state(self) -> State:
        """The state of the receiver, as it was written."""
        return State((self.document or {}).get("state"))

    def tell(self, message: Any) -> None:
        """Send a message. Raises what the receiver raises."""
        self._handle(Mail(_copy(message)))

    def ask(self, message: Any) -> Any:
        """Ask, and return the answer. Raises what the receiver raises."""
        answers: list[tuple[BaseException | None, Any]] = []
        self._handle(Mail(_copy(message), lambda error, answer: answers.append((error, answer)), is_request=True))
        error, answer = answers[0]
        if error is not None:
            raise error
        return answer if isinstance(answer, bytes) else _copy(answer)

    def advance(self, seconds: float) -> None:
        """Let time pass; the messages of timers that are due are handled."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            if timer.due != due:
                continue
            self._now = max(self._now, due)
            mail = self._activation.rung(timer)
            if mail is not None:
                self._handle(mail)
        self._now = end

    def restart(self) -> None:
        """Put the receiver away without a farewell, as a crash does; the next message brings it back."""
        self._activation.forget()
        for due, payload in (self.document or {}).get("timers", ()):
            self._run(self._activation._activate())
            del due, payload
            break

    def deactivate(self) -> None:
        """Put the receiver away, as after its idle time."""
        self._run(self._activation.deactivate())

    def _handle(self, mail: Mail) -> None:
        before = len(self.errors)
        self._run(self._activation.handle(mail))
        if self._activation.is_stopping:
            self._activation.is_stopping = False
            self.deactivate()
        if len(self.errors) > before and mail.settle is None and not mail.is_request:
            raise self.errors[-1]

    def _run(self, steps: Any) -> None:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            value = error = None
            if isinstance(step, Load):
                value = None if self.document is None else _copy(self.document)
            elif isinstance(step, Await):
                try:
                    value = asyncio.run(_awaited(step.awaitable))
                except Exception as raised:
                    error = raised
            else:
                self.document = _copy(step.document)

    # ------------------------------------------------------------------------------------- for the activation

    def now(self) -> float:
        """The time, in seconds since the beginning."""
        return self._now

    def unix_time(self) -> float:
        """The time, in Unix seconds."""
        return EPOCH + self._now

    def send(self, address: str, payload: Any, path: tuple[str, ...]) -> None:
        """Note what was sent."""
        self.sent.append((address, payload))

    def request(self, address: str, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """The answer that the test gave for an address."""
        if address not in self.answers:
            raise GlueError(f"the test has no answer for {address!r}; set context.answers[{address!r}]")
        answer = self.answers[address]
        found = answer(payload) if callable(answer) else answer
        receive = getattr(self._activation.receiver, "receive", None)
        return _value(found) if inspect.iscoroutinefunction(receive) else found

    def arm(self, timer: Timer) -> None:
        """Note when a timer is due."""
        if timer.due < inf:
            heapq.heappush(self._timers, (timer.due, next(self._count), timer))

    def failed(self, activation: Activation, mail: Mail, error: BaseException, policy: str) -> None:
        """Note an error of the receiver."""
        self.errors.append(error)


async def _value(value: Any) -> Any:
    return value


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _copy(value: Any) -> Any:
    """A value as it arrives."""
    return value if isinstance(value, bytes) else orjson.loads(orjson.dumps(value))
