"""Receivers at a threaded endpoint: they run in a few threads of their own, which wait where a receiver has to."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from glue.endpoint.handlers import is_awaited
from glue.endpoint.model_calls import GRACE, TIMEOUT
from glue.endpoint.receiver_hosts import Resume
from glue.endpoint.receiver_methods import BaseReceivers, ReceiverParts, remote
from glue.endpoint.receiver_ops import Ask, Awaitable, Operation
from glue.endpoint.requests import check_timeout
from glue.errors import ClosedError, ConfigurationError, RequestTimeoutError
from glue.model import Ask as AskModel
from glue.receivers.address import Address

Endpoint = Any
"""`glue.Endpoint` or `glue.aio.Endpoint`; that file imports this one."""

RUNNING = 4
"""Threads that run receivers at once; Python runs one at a time anyway. Those that wait are beside."""
THREADS = 64
"""Threads at most, those included that wait for a store, the model or another receiver."""
REST = 5.0
"""Seconds after which a thread without work ends."""

logger = logging.getLogger("glue")


class Pending:
    """Waits for one result in a thread."""

    __slots__ = ("_lock", "error", "result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self, error: BaseException | None, result: Any) -> None:
        """Take the result."""
        self.result, self.error = result, error
        with contextlib.suppress(RuntimeError):  # a second time
            self._lock.release()

    def answered(self, answer: Any) -> None:
        """Take the answer of the model."""
        self.settle(None, answer)

    def wait(self, timeout: float) -> bool:
        """Wait; whether it came in time."""
        return self._lock.acquire(timeout=timeout)


class ThreadExecutor:
    """Runs receivers in threads, which are made as they are needed."""

    counts = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._work: deque[Callable[[], None]] = deque()
        self._condition = threading.Condition()
        self._idle = self._waiting = 0
        self._threads: set[threading.Thread] = set()
        self._is_closed = False

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in one of the threads."""
        self._work.append(function)
        if not self._idle and len(self._threads) - self._waiting >= RUNNING:
            return  # a thread takes it when it is done with what it does
        with self._condition:
            if self._idle:
                self._condition.notify()
            elif len(self._threads) < THREADS and not self._is_closed:
                thread = threading.Thread(target=self._run, name="glue receivers", daemon=True)
                self._threads.add(thread)
                thread.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while not self._is_closed:
            try:
                function = self._work.popleft()
            except IndexError:
                with self._condition:
                    self._idle += 1
                    is_called = bool(self._work) or self._condition.wait(REST)
                    self._idle -= 1
                    if not is_called and not self._work:
                        self._threads.discard(me)
                        return
                continue
            try:
                function()
            except ClosedError:
                pass
            except Exception:
                logger.exception("a receiver failed")
        self._threads.discard(me)

    def perform(self, operation: Operation, resume: Resume) -> Any:
        """Do it in this thread."""
        self._waiting += 1
        try:
            return self._result(operation), None
        except Exception as error:  # of a store, or of the model
            return None, error
        finally:
            self._waiting -= 1

    def _result(self, operation: Operation) -> Any:
        if isinstance(operation, Ask):
            pending, call = Pending(), operation.call
            driver = self._endpoint._running()
            driver.order(AskModel(operation.model, pending, call.question, TIMEOUT, time.time()), wait=False)
            pending.wait(TIMEOUT + GRACE)
            return call.result(pending.result)
        if isinstance(operation, Awaitable):
            operation.awaitable.close()
            raise ConfigurationError("a coroutine function as a receiver is for glue.aio.Endpoint")
        return operation.function()

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver, and wait."""
        self._waiting += 1
        try:
            return ask(self._endpoint, address, payload, timeout, path)
        finally:
            self._waiting -= 1

    def close(self, timeout: float) -> None:
        """End the threads."""
        self._is_closed = True
        with self._condition:
            self._condition.notify_all()
        until = time.monotonic() + timeout
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


class Receivers(BaseReceivers):
    """Receivers of one kind at a threaded endpoint; a context manager."""

    def close(self, timeout: float = 5.0) -> bool:
        """Put all receivers away, hand their partitions over, and host the kind no more.

        Waits for them `timeout` seconds at most; returns whether all were put away in time.
        """
        runtime, kind = self._runtime, self._kind
        with runtime.lock:
            if kind.kind not in runtime.kinds:
                return True
            kind.ownership.is_leaving = True
            runtime._hosts_changed()
            runtime._beat(runtime.now())
        is_done = leave(runtime, [kind], timeout)
        runtime.remove_kind(kind)
        kind.close()
        return is_done

    def wait_until_served(self, timeout: float | None = None) -> bool:
        """Wait until this endpoint serves all partitions that it should have; whether it did in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._kind.is_settled:
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(LOOK)
        return True

    def __enter__(self) -> Receivers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


LOOK = 0.02
"""Seconds between two looks whether all is put away."""


def leave(runtime: Any, kinds: list[Any], timeout: float) -> bool:
    """Wait until no receiver of these kinds is in memory and no partition is left, for a while at most."""
    until = time.monotonic() + timeout
    for kind in kinds:
        kind.drain()
    while any(kind.activations or kind.is_handing_over for kind in kinds):
        if time.monotonic() >= until or runtime.is_closed:
            return not any(kind.activations for kind in kinds)
        for kind in kinds:
            kind.tick(runtime.now())
        time.sleep(LOOK)
    return True


def parts_of(endpoint: Endpoint) -> ReceiverParts:
    """What receivers of an endpoint need, made at first use."""
    if endpoint._receiving is None:
        driver = endpoint._running()
        executor = ThreadExecutor(endpoint)
        endpoint._receiving = ReceiverParts(endpoint, executor, lambda wish: driver.order(wish, wait=False))
    parts: ReceiverParts = endpoint._receiving
    return parts


def host(endpoint: Endpoint, kind: str, factory: Any, model: str, **options: Any) -> Receivers:
    """Host a kind."""
    receive = getattr(factory, "receive", factory)
    if callable(factory) and callable(receive) and is_awaited(receive):
        raise ConfigurationError(f"factory={factory!r}: a coroutine function as a receiver is for glue.aio.Endpoint")
    parts = parts_of(endpoint)
    return Receivers(parts.add_kind(kind, factory, model=model, **options), parts.runtime)


def ask(endpoint: Endpoint, address: Address, payload: Any, timeout: float, path: tuple[str, ...] = ()) -> Any:
    """Ask a receiver and wait for its answer."""
    check_timeout(timeout)
    pending, runtime = Pending(), parts_of(endpoint).runtime
    runtime.ask(address, payload, timeout, path, pending.settle)
    if not endpoint._running().wait_for(cast(Any, pending), timeout):
        raise RequestTimeoutError(f"{address} did not answer in time; it may have acted", str(address))
    if pending.error is not None:
        raise remote(pending.error, address)
    return pending.result


def close(endpoint: Endpoint, timeout: float) -> bool:
    """Put all receivers of an endpoint away; whether all were in time."""
    parts = endpoint._receiving
    if parts is None or parts.runtime.is_closed:
        return True
    runtime = parts.runtime
    runtime.begin_to_leave()
    kinds = list(runtime.kinds.values())
    is_done = leave(runtime, kinds, timeout) if kinds else True
    runtime.close()
    cast(ThreadExecutor, runtime.executor).close(1.0)
    return is_done
