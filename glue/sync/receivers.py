"""Receivers at a threaded endpoint: a few threads of their own run them, and wait where a receiver has to."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from glue.endpoint.handlers import is_awaited
from glue.endpoint.model_calls import TIMEOUT
from glue.endpoint.receiver_hosts import PENDING, Resume
from glue.endpoint.receiver_methods import BaseReceivers, ReceiverParts, remote
from glue.endpoint.receiver_ops import Ask, Awaitable, Operation
from glue.endpoint.requests import check_timeout
from glue.errors import ClosedError, ConfigurationError, GlueError, WouldBlockError
from glue.model import Ask as AskModel
from glue.receivers.address import Address

Endpoint = Any
"""`glue.Endpoint` or `glue.aio.Endpoint`; that file imports this one."""

RUNNING = 2
"""Threads that run receivers at once; Python runs one at a time anyway. Those that wait are beside."""
THREADS = 64
"""Threads at most, those included that wait for a store or another receiver."""
REST = 5.0
"""Seconds after which a thread without work ends."""
ASKS = 64
"""Questions to models that leave together."""
RUNS = 256
"""Runs of receivers after which fewer questions leave, too, though there is always other work: several milliseconds."""
WOULD_BLOCK = 0.001
"""Seconds until a message for which there was no room is tried again."""

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

    def wait(self, timeout: float) -> bool:
        """Wait; whether it came in time."""
        return self._lock.acquire(timeout=timeout)


class Answer:
    """Passes the answer of a model to a receiver, outside of the turn in which it comes."""

    __slots__ = ("_call", "_executor", "_resume")

    def __init__(self, executor: ThreadExecutor, call: Any, resume: Resume) -> None:
        self._executor = executor
        self._call = call
        self._resume = resume

    def answered(self, answer: Any) -> None:
        """Take the answer."""
        self._executor.soon(lambda: self._take(answer))

    def _take(self, answer: Any) -> None:
        try:
            result = self._call.result(answer)
        except GlueError as error:
            self._resume(None, error)
        else:
            self._resume(result, None)


class ThreadExecutor:
    """Runs receivers in a few threads, which are made as they are needed.

    A wait for a model needs no thread. A thread with a blocked receiver is noticed by `look`, or at once if the wait
    is for a store or another receiver; then another thread takes its place.
    """

    counts = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._work: deque[Callable[[], None]] = deque()
        self._asks: deque[AskModel] = deque()
        self._condition = threading.Condition()
        self._idle = self._waiting = self._done = self._done_before = 0
        self._threads: set[threading.Thread] = set()
        self._is_closed = False

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in one of the threads."""
        self._work.append(function)
        if not self._idle and len(self._threads) - self._waiting >= RUNNING:
            return  # the next thread that is done takes it
        with self._condition:
            self._help(RUNNING + self._waiting)

    def _help(self, most: int) -> None:
        """Have one more thread, `most` in all; the caller holds the lock."""
        if self._idle:
            self._condition.notify()
        elif len(self._threads) < min(most, THREADS) and not self._is_closed:
            thread = threading.Thread(target=self._run, name="glue receivers", daemon=True)
            self._threads.add(thread)
            thread.start()

    def look(self) -> None:
        """Add a thread if work waits, and no thread has done anything since the last look."""
        is_stuck = bool(self._work) and self._done == self._done_before
        self._done_before = self._done
        if is_stuck:
            with self._condition:
                self._help(THREADS)

    def is_mine(self) -> bool:
        """Whether the caller is one of the threads, which must not wait for room."""
        return threading.current_thread() in self._threads

    def _run(self) -> None:
        me = threading.current_thread()
        while not self._is_closed:
            try:
                function = self._work.popleft()
            except IndexError:
                if self._asks:
                    self._send_asks()
                elif not self._wait():
                    break
                continue
            try:
                function()
            except ClosedError:
                pass
            except Exception:
                logger.exception("a receiver failed")
            self._done += 1
            if len(self._asks) >= ASKS or (self._asks and self._done % RUNS == 0):
                self._send_asks()
        with self._condition:
            self._threads.discard(me)

    def _wait(self) -> bool:
        """Wait for work; whether this thread is still needed."""
        with self._condition:
            is_enough = self._idle >= RUNNING and not self._work  # as many threads rest as can run at once
            if is_enough or self._is_closed:
                self._threads.discard(threading.current_thread())
                return False
            self._idle += 1
            is_called = bool(self._work) or self._condition.wait(REST)
            self._idle -= 1
            if is_called or self._work:
                return True
            self._threads.discard(threading.current_thread())
            return False

    def _send_asks(self) -> None:
        """Pass the questions to models on, in one turn."""
        with contextlib.suppress(IndexError, ClosedError):
            driver, asks = self._endpoint._running(), self._asks
            first = asks.popleft()
            with contextlib.suppress(IndexError):
                for _ in range(ASKS):
                    driver._core.outbox.order(asks.popleft())
            driver.order(first, wait=False)

    def perform(self, operation: Operation, resume: Resume) -> Any:
        """Ask a model, and go on with its answer; do anything else in this thread."""
        if isinstance(operation, Ask):
            answer = Answer(self, operation.call, resume)
            self._asks.append(AskModel(operation.model, answer, operation.call.question, TIMEOUT, time.time()))
            return PENDING
        try:
            if isinstance(operation, Awaitable):
                operation.awaitable.close()
                raise ConfigurationError("a coroutine function as a receiver is for glue.aio.Endpoint")
            with self.waiting():
                return operation.function(), None
        except Exception as error:  # of a store
            return None, error

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Let another thread work while this one waits."""
        with self._condition:
            self._waiting += 1
            if self._work:
                self._help(RUNNING + self._waiting)
        if self._asks:
            self._send_asks()
        try:
            yield
        finally:
            with self._condition:
                self._waiting -= 1

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver, and wait."""
        with self.waiting():
            return ask(self._endpoint, address, payload, timeout, path)

    def close(self, timeout: float) -> None:
        """End the threads."""
        with self._condition:
            self._is_closed = True
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
        if kind.kind not in runtime.kinds:
            return True
        runtime.withdraw(kind)
        is_done = leave(runtime, [kind], timeout)
        runtime.remove_kind(kind)
        kind.close()
        return is_done

    def wait_until_served(self, timeout: float | None = None) -> bool:
        """Wait until this endpoint serves all partitions meant for it; return False on timeout.

        Raises ConfigurationError if other hosts of this kind have another number of partitions.
        """
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


MAKING = threading.RLock()
"""Held while what receivers of an endpoint need is made, as several threads may be the first to send."""


def parts_of(endpoint: Endpoint) -> ReceiverParts:
    """Return the parts for receivers, made at first use."""
    if endpoint._receiving is None:
        with MAKING:
            if endpoint._receiving is None:
                driver, executor = endpoint._running(), ThreadExecutor(endpoint)
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
        raise runtime.unanswered(address)
    if pending.error is not None:
        raise remote(pending.error, address)
    return pending.result


def send(endpoint: Endpoint, address: str, payload: Any) -> None:
    """Send a message, and wait for room."""
    parts = parts_of(endpoint)
    while True:
        try:
            parts.runtime.send_text(address, payload)
            return
        except WouldBlockError:
            driver = endpoint._running()
            if cast(ThreadExecutor, parts.runtime.executor).is_mine() or driver.is_handler():
                raise
            time.sleep(WOULD_BLOCK)


def close(endpoint: Endpoint, timeout: float) -> bool:
    """Put all receivers of an endpoint away; whether all were in time."""
    parts = endpoint._receiving
    if parts is None or parts.runtime.is_closed:
        return True
    runtime, until = parts.runtime, time.monotonic() + timeout
    runtime.hurry()
    while runtime.has_unsent and time.monotonic() < until:
        time.sleep(LOOK)
    kinds = list(runtime.kinds.values())
    runtime.withdraw(*kinds)
    is_done = leave(runtime, kinds, max(0.0, until - time.monotonic())) if kinds else True
    runtime.close()
    cast(ThreadExecutor, runtime.executor).close(max(0.0, until - time.monotonic()))
    return is_done
