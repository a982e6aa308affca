"""Receivers in virtual time. Their handlers are plain functions, and take no time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from glue.endpoint.core import EndpointCore
from glue.endpoint.model_calls import TIMEOUT
from glue.endpoint.receiver_hosts import PENDING, Resume
from glue.endpoint.receiver_methods import BaseReceivers, ReceiverParts, remote
from glue.endpoint.receiver_ops import Ask, Awaitable, Operation
from glue.endpoint.requests import check_timeout
from glue.errors import ClosedError, ConfigurationError, GlueError
from glue.model import Ask as AskModel
from glue.model import StackRequest
from glue.receivers.address import Address, parse
from glue.simulation.host import Host
from glue.simulation.hosts import Hosts
from glue.simulation.model import SimulatedModel

PAUSED = 0.01
"""Seconds until a paused machine looks again whether it goes on."""


class _Pending:
    """Takes the answer of the model."""

    def __init__(self, answered: Callable[[Any], None]) -> None:
        self.answered = answered


class SimulatedExecutor:
    """Runs the receivers of one life, and none while its machine is paused."""

    counts = True

    def __init__(self, endpoint: Any, core: EndpointCore) -> None:
        self._endpoint = endpoint
        self._core = core
        self._world: Hosts = endpoint.world
        self._host: Host = endpoint.host

    def look(self) -> None:
        """Nothing is to be looked after."""

    def soon(self, function: Callable[[], None], delay: float = 0.0) -> None:
        """Call a function at this instant, after what happens now."""

        def call() -> None:
            if self._endpoint._core is not self._core or not self._endpoint.is_running:
                return
            if self._host.is_paused:
                self.soon(function, PAUSED)
                return
            function()

        self._world.after(delay, call)

    def perform(self, operation: Operation, resume: Resume) -> Any:
        """Begin it; the receiver goes on when it is done."""
        if isinstance(operation, Awaitable):
            return None, ConfigurationError("a simulated receiver has no coroutine functions")
        if not isinstance(operation, Ask):
            try:
                return operation.function(), None
            except Exception as error:
                return None, error
        call = operation.call

        def take(answer: Any) -> None:
            try:
                result = call.result(answer)
            except GlueError as error:
                wrong = error
                self.soon(lambda: resume(None, wrong))
            else:
                self.soon(lambda: resume(result, None))

        self.order(
            AskModel(operation.model, _Pending(take), call.question, self._endpoint.model_timeout, self._host.unix_time)
        )
        return PENDING

    def order(self, wish: StackRequest) -> None:
        """Pass a request to the stack, unless this life is over."""
        if self._endpoint._core is not self._core:
            raise ClosedError("this life is over")
        self._endpoint._order(wish)

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Refuse, since a handler cannot wait here."""
        raise ConfigurationError("a simulated receiver does not ask; let it send, and be sent the answer")


class SimulatedAnswer:
    """An answer to come."""

    def __init__(self, then: Callable[[BaseException | None, Any], object] | None) -> None:
        self.is_over = False
        self.error: BaseException | None = None
        self.payload: Any = None
        self._then = then

    def settle(self, error: BaseException | None, payload: Any) -> None:
        """For the endpoint: the answer has come."""
        if not self.is_over:
            self.is_over, self.error, self.payload = True, error, payload
            if self._then is not None:
                self._then(error, payload)


class SimulatedReceiving:
    """The methods of a simulated endpoint for receivers."""

    _core: EndpointCore
    _receiving: ReceiverParts | None = None
    model_timeout = TIMEOUT
    """Seconds that a receiver waits for the model; then the outcome of its write is unknown."""

    def _parts(self) -> ReceiverParts:
        endpoint: Any = self
        endpoint._running()
        if self._receiving is None or self._receiving._core is not self._core:
            executor = SimulatedExecutor(self, self._core)
            self._receiving = ReceiverParts(self, executor, executor.order)
        return self._receiving

    def receivers(
        self, kind: str, factory: Any, model: SimulatedModel, *, partitions: int = 64, subnet: str = "",
        store: Any = None, idle: float = 300.0, dead_letters: str | None = None, messages: Sequence[type] = (),
    ) -> BaseReceivers:  # fmt: skip
        """Host receivers of a kind in this life, as `glue.Endpoint.receivers` does."""
        parts = self._parts()
        kind_ = parts.add_kind(
            kind, factory, model=model.name, partitions=partitions, subnet=subnet, store=store, idle=idle,
            dead_letters=dead_letters, messages=messages,
        )  # fmt: skip
        return BaseReceivers(kind_, parts.runtime)

    def send(self, address: str, payload: Any) -> None:
        """Send a message to a receiver at this instant."""
        self._parts().runtime.send(parse(address), payload)

    def ask(
        self, address: str, payload: Any, timeout: float = 5.0,
        then: Callable[[BaseException | None, Any], object] | None = None,
    ) -> SimulatedAnswer:  # fmt: skip
        """Ask a receiver at this instant; `then` is called with (error, answer), unless this life ends before."""
        answer, target, core = SimulatedAnswer(then), parse(address), self._core
        check_timeout(timeout)

        def settle(error: BaseException | None, payload: Any) -> None:
            answer.settle(None if error is None else remote(error, target), payload)

        def late() -> None:
            if self._core is core and cast(Any, self).is_running and not answer.is_over:
                answer.settle(self._parts().runtime.unanswered(target), None)

        with contextlib.suppress(ClosedError):
            self._parts().runtime.ask(target, payload, timeout, (), settle)
            world: Hosts = cast(Any, self).world
            world.after(timeout, late)
        return answer
