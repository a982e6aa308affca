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
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import count
from math import inf
from typing import Any

from glue.endpoint.model_calls import write
from glue.endpoint.receiver_payloads import copied, decoders
from glue.endpoint.receiver_results import local_answer
from glue.errors import GlueError
from glue.model.state.commands import Set
from glue.receivers.activation import Activation
from glue.receivers.address import parse
from glue.receivers.context import Await, Call, Load, Timer, Wake, factory_of
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
        messages: Sequence[type] = (),
    ) -> None:
        """`factory` and `messages` are as for `Endpoint.receivers`; `state` is what the store has."""
        self.kind = f":{kind}"
        self.factory = factory_of(factory)
        self.types = decoders(messages or getattr(factory, "messages", ()))
        self.sent: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.errors: list[BaseException] = []
        self.document: Document | None = None if state is None else {"state": dict(state)}
        self._now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = count()
        self._to_wake = False
        self._activation = Activation(self, id, 0, 0.0)

    # ------------------------------------------------------------------------------------------- for the test

    @property
    def state(self) -> State:
        """The state of the receiver, as it was written."""
        return State((self.document or {}).get("state"))

    def tell(self, message: Any) -> None:
        """Send a message. Raises what the receiver raises."""
        self._handle(copied(message))

    def ask(self, message: Any) -> Any:
        """Ask, and return the answer. Raises what the receiver raises."""
        answers: list[tuple[BaseException | None, Any]] = []
        take = local_answer(lambda error, answer: answers.append((error, answer)))
        self._handle(Call(copied(message), take))
        error, answer = answers[0]
        if error is not None:
            raise error
        return answer

    def advance(self, seconds: float) -> None:
        """Let time pass; the messages of timers that are due are handled."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end + 1e-6:  # those read again were rounded by the wall clock
            due, _, timer = heapq.heappop(self._timers)
            if timer.due != due:
                continue
            self._now = max(self._now, due)
            mail = self._activation.rung(timer)
            if mail is not None:
                self._handle(mail)
            elif timer.is_durable:
                self._handle(Wake(None))  # it was put away, and reads its timers again
        self._now = max(self._now, end)

    def restart(self) -> None:
        """Put the receiver away without a farewell, as a crash does; the next message brings it back."""
        self._activation.forget()
        if (self.document or {}).get("timers"):
            self._handle(Wake(None))

    def deactivate(self) -> None:
        """Put the receiver away, as after its idle time."""
        self._run(self._activation.deactivate())

    def _handle(self, mail: Any) -> None:
        before, activation = len(self.errors), self._activation
        try:
            self._run(activation.take(mail) or ())
            if activation.is_stopping:
                self._run(activation.deactivate())
        finally:
            activation.rest()
        if self._to_wake:
            self._to_wake = False
            self._run(activation.take(Wake(None)))
        if len(self.errors) > before and mail.__class__ is not Call:
            raise self.errors[-1]

    def _run(self, steps: Any) -> None:
        if not steps:
            return
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return
            except Exception:  # of `activate` or `deactivate`, or as a document cannot be kept
                self._activation.forget()
                raise
            value = error = None
            if isinstance(step, Load):
                value = None if self.document is None else copied(self.document)
            elif isinstance(step, Await):
                try:
                    value = asyncio.run(_awaited(step.awaitable))
                except Exception as raised:
                    error = raised
            else:
                try:
                    write(Set(self._activation.address, step.document))  # a model refuses documents over 1 MB
                    self.document = copied(step.document)
                except GlueError as refused:
                    error = refused

    # ------------------------------------------------------------------------------------- for the activation

    def now(self) -> float:
        """The time, in seconds since the beginning."""
        return self._now

    def unix_time(self) -> float:
        """The time, in Unix seconds."""
        return EPOCH + self._now

    def plain(self, payload: Any) -> Any:
        """A payload as it is kept."""
        return copied(payload)

    def check_send(self, address: str, payload: Any) -> tuple[str, Any]:
        """Return what to send later, checked and copied as an endpoint does."""
        parse(address)
        copied(payload)
        return address, deepcopy(payload)  # with its type, which the test looks at

    def send(self, address: str, payload: Any) -> None:
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

    def wake(self, id: str) -> None:
        """Note that the receiver is to read its timers again."""
        self._to_wake = True

    def failed(self, activation: Activation, payload: Any, error: BaseException, policy: str) -> None:
        """Note an error of the receiver."""
        self.errors.append(error)


async def _value(value: Any) -> Any:
    return value


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
