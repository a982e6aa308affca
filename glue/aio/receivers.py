"""Receivers at an asyncio endpoint: plain functions run in the loop, coroutine functions as tasks of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable as Awaited
from collections.abc import Callable, Generator
from threading import get_ident
from typing import Any

from glue.endpoint.model_calls import TIMEOUT
from glue.endpoint.receiver_hosts import PENDING, Resume
from glue.endpoint.receiver_methods import BaseReceivers, ReceiverParts, remote
from glue.endpoint.receiver_ops import Ask, Awaitable, Operation
from glue.endpoint.requests import check_timeout
from glue.errors import ClosedError, GlueError, WouldBlockError
from glue.model import Ask as AskModel
from glue.receivers.address import Address

Endpoint = Any
"""`glue.Endpoint` or `glue.aio.Endpoint`; that file imports this one."""

PASS = 0.005
"""Seconds of receivers' work after which the loop goes round."""
WOULD_BLOCK = 0.001
"""Seconds until a message for which there was no room is tried again."""
GATHERED = 0x3FF
"""After each 1,024 messages to other endpoints the loop goes round, so that they leave."""
LOOK = 0.02
"""Seconds between two looks whether all is put away."""


logger = logging.getLogger("glue")


class Pending:
    """Passes the answer of the model on, outside of the turn."""

    __slots__ = ("_call", "_loop", "_resume")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Any, resume: Resume) -> None:
        self._loop = loop
        self._call = call
        self._resume = resume

    def answered(self, answer: Any) -> None:
        """Take the answer."""
        self._loop.call_soon(self._take, answer)

    def _take(self, answer: Any) -> None:
        try:
            result = self._call.result(answer)
        except GlueError as error:
            self._resume(None, error)
        else:
            self._resume(result, None)


class LoopExecutor:
    """Runs receivers in an event loop."""

    counts = True

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._work: deque[Callable[[], None]] = deque()
        self._is_called = False
        self.tasks: set[asyncio.Future[Any]] = set()

    def look(self) -> None:
        """Nothing is to be looked after."""

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the loop."""
        self._work.append(function)
        if get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._run)
        elif not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_called = False
        until = time.monotonic() + PASS
        while self._work and time.monotonic() < until:
            try:
                self._work.popleft()()
            except ClosedError:
                pass
            except Exception:
                logger.exception("a receiver failed")
        if self._work and not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._run)

    def perform(self, operation: Operation, resume: Resume) -> Any:
        """Begin it; the receiver goes on when it is done."""
        if isinstance(operation, Ask):
            pending = Pending(self._loop, operation.call, resume)
            question = operation.call.question
            try:
                self._endpoint._running().order(AskModel(operation.model, pending, question, TIMEOUT, time.time()))
            except GlueError as error:
                return None, error
            return PENDING
        waited = operation.awaitable if isinstance(operation, Awaitable) else asyncio.to_thread(operation.function)
        task = asyncio.ensure_future(waited, loop=self._loop)
        self.tasks.add(task)

        def done(task: asyncio.Future[Any]) -> None:
            self.tasks.discard(task)
            if task.cancelled():
                resume(None, GlueError("cancelled"))
            elif task.exception() is not None:
                resume(None, task.exception())
            else:
                resume(task.result(), None)

        task.add_done_callback(done)
        return PENDING

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver; to be awaited."""
        return ask(self._endpoint, address, payload, timeout, path)


class Receivers(BaseReceivers):
    """Receivers of one kind at an asyncio endpoint; an asynchronous context manager."""

    async def close(self, timeout: float = 5.0) -> bool:
        """As `glue.Receivers.close`."""
        runtime, kind = self._runtime, self._kind
        if kind.kind not in runtime.kinds:
            return True
        runtime.withdraw(kind)
        is_done = await leave(runtime, [kind], timeout)
        runtime.remove_kind(kind)
        kind.close()
        return is_done

    async def wait_until_served(self, timeout: float | None = None) -> bool:
        """As `glue.Receivers.wait_until_served`."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._kind.is_settled:
            if until is not None and time.monotonic() >= until:
                return False
            await asyncio.sleep(LOOK)
        return True

    async def __aenter__(self) -> Receivers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def leave(runtime: Any, kinds: list[Any], timeout: float) -> bool:
    """As in `glue.sync.receivers`."""
    until = time.monotonic() + timeout
    for kind in kinds:
        kind.drain()
    while any(kind.activations or kind.is_handing_over for kind in kinds):
        if time.monotonic() >= until or runtime.is_closed:
            return not any(kind.activations for kind in kinds)
        for kind in kinds:
            kind.tick(runtime.now())
        await asyncio.sleep(LOOK)
    return True


def parts_of(endpoint: Endpoint) -> ReceiverParts:
    """Return the parts for receivers, made at first use."""
    if endpoint._receiving is None:
        driver = endpoint._running()
        endpoint._receiving = ReceiverParts(endpoint, LoopExecutor(endpoint), driver.order)
    parts: ReceiverParts = endpoint._receiving
    return parts


def host(endpoint: Endpoint, kind: str, factory: Any, model: str, **options: Any) -> Receivers:
    """Host a kind."""
    parts = parts_of(endpoint)
    return Receivers(parts.add_kind(kind, factory, model=model, **options), parts.runtime)


async def ask(endpoint: Endpoint, address: Address, payload: Any, timeout: float, path: tuple[str, ...] = ()) -> Any:
    """Ask a receiver and wait for its answer."""
    check_timeout(timeout)
    loop, runtime = asyncio.get_running_loop(), parts_of(endpoint).runtime
    future: asyncio.Future[Any] = loop.create_future()

    def settle(error: BaseException | None, result: Any) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(remote(error, address))
        else:
            future.set_result(result)

    runtime.ask(address, payload, timeout, path, settle)
    try:
        async with asyncio.timeout(timeout):
            return await future
    except TimeoutError:
        raise runtime.unanswered(address) from None


class Sent:
    """The awaitable of a message that was already sent."""

    def __await__(self) -> Generator[Any, Any, None]:
        """Nothing is waited for."""
        nothing: Any = iter(())  # cheaper than a generator
        return nothing  # type: ignore[no-any-return]


SENT = Sent()


def send(endpoint: Endpoint, address: str, payload: Any) -> Awaited[None]:
    """Send a message at once if there is room, else wait for it when awaited."""
    runtime = parts_of(endpoint).runtime
    try:
        runtime.send_text(address, payload)
    except WouldBlockError:
        return _send_later(endpoint, address, payload)
    if runtime.outbox.count & GATHERED == GATHERED:
        return asyncio.sleep(0)
    return SENT


async def _send_later(endpoint: Endpoint, address: str, payload: Any) -> None:
    while True:
        await asyncio.sleep(WOULD_BLOCK)
        endpoint._running()
        with contextlib.suppress(WouldBlockError):
            parts_of(endpoint).runtime.send_text(address, payload)
            return


async def close(endpoint: Endpoint, timeout: float) -> bool:
    """Put all receivers of an endpoint away; whether all were in time."""
    parts = endpoint._receiving
    if parts is None or parts.runtime.is_closed:
        return True
    runtime, until = parts.runtime, time.monotonic() + timeout
    runtime.hurry()
    while runtime.has_unsent and time.monotonic() < until:
        await asyncio.sleep(LOOK)
    kinds = list(runtime.kinds.values())
    runtime.withdraw(*kinds)
    is_done = await leave(runtime, kinds, max(0.0, until - time.monotonic())) if kinds else True
    runtime.close()
    return is_done
