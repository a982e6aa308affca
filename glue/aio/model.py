"""The model of an asyncio endpoint: the calls of `glue.Model` with the same meaning, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from glue.aio.subscription import Subscription
from glue.endpoint import model_calls as calls
from glue.endpoint.model import BaseLock, BaseModel, ChangeHandler, EndpointParts, ModelDriver
from glue.endpoint.model_calls import GRACE, TIMEOUT, Entry, ModelCall
from glue.errors import RefusedError
from glue.model import Ask
from glue.model.mergeable import Prefixes
from glue.model.questions import Ending
from glue.model.state import Change, Delete, Operation, Set, Update

Result = TypeVar("Result")


class AwaitedModelDriver(ModelDriver, Protocol):
    """The methods of an endpoint's driver that an asyncio model uses."""

    async def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that turns bring about; returns whether it came true in time."""


class _Pending:
    """A question until it is answered; its caller may have stopped waiting by then."""

    __slots__ = ("_late", "done")

    def __init__(self) -> None:
        self.done: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._late: Callable[[Ending], None] | None = None

    def answered(self, answer: Ending) -> None:
        """Wake the caller with the answer."""
        if not self.done.done():
            self.done.set_result(answer)
        elif self._late is not None:
            self._late(answer)

    def abandon(self, late: Callable[[Ending], None]) -> None:
        """Stop waiting; `late` is called with the answer once it comes."""
        self._late = late
        if self.done.done() and not self.done.cancelled():
            late(self.done.result())


class Model(BaseModel):
    """Shared state under a name; made by `glue.aio.Endpoint.model`. `glue.Model` tells what each call means."""

    def __init__(self, name: str, mergeable: Prefixes, parts: EndpointParts, driver: AwaitedModelDriver) -> None:
        """Use `Endpoint.model`."""
        super().__init__(name, mergeable, parts, driver)
        self._driver = driver

    # ---------------------------------------------------------------------------------------------- reading

    async def get(self, key: str, default: Any = None, *, stale: bool = False, timeout: float = TIMEOUT) -> Any:
        """Return a key's value, or `default`; as of now, or if `stale`, as far as this endpoint knows (see `entry`)."""
        entry = await self.entry(key, stale=stale, timeout=timeout)
        return default if entry is None else entry.value

    async def entry(self, key: str, *, stale: bool = False, timeout: float = TIMEOUT) -> Entry | None:
        """Return a key's value with its revision and age, None if it has none.

        Raises MinorityError, but not if `stale`.
        """
        return self._local_entry(key) if stale else await self._ask(calls.read_entry(key), timeout)

    async def items(self, pattern: str = "#", *, stale: bool = False, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Return the values by key of all keys that match a pattern: `+` is any one level, a last `#` all the rest."""
        return self._local_items(pattern) if stale else await self._ask(calls.read_items(pattern), timeout)

    # ---------------------------------------------------------------------------------------------- writing

    async def set(self, key: str, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Give a key a JSON value."""
        return await self._ask(calls.write(Set(key, value)), timeout)

    async def delete(self, key: str, *, timeout: float = TIMEOUT) -> int:
        """Remove a key and its value; nothing happens if there is no such key."""
        return await self._ask(calls.write(Delete(key)), timeout)

    async def update(self, key: str, delta: Any, *, timeout: float = TIMEOUT) -> int:
        """Apply a JSON Merge Patch (RFC 7396): members of `delta` replace those of the value, None removes one."""
        return await self._ask(calls.write(Update(key, delta)), timeout)

    async def add(self, key: str, what: Any, *, timeout: float = TIMEOUT) -> int:
        """Add an integer to a mergeable counter, or a string to a mergeable set: `update` in other words."""
        return await self._ask(calls.write(self._addition(key, what, True)), timeout)

    async def discard(self, key: str, element: str, *, timeout: float = TIMEOUT) -> int:
        """Remove a string from a mergeable set; nothing happens if it is not in the set."""
        return await self._ask(calls.write(self._addition(key, element, None)), timeout)

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Set the key if it has the expected value (`glue.ABSENT`: none). Raises RefusedError if it has another."""
        return await self._ask(calls.compare_and_set(key, expected, value), timeout)

    async def transaction(self, *operations: Operation, timeout: float = TIMEOUT) -> int:
        """Do all of these (`glue.Set`, `Delete`, `Update`), or none if an `Expect` or `ExpectRevision` fails."""
        return await self._ask(calls.write(*operations), timeout)

    async def synchronize(self, timeout: float = TIMEOUT) -> None:
        """Wait until another endpoint has of the mergeable keys what this one has, and the other way round.

        Raises MinorityError if none is in reach.
        """
        await self._ask(calls.synchronize(), timeout)

    # -------------------------------------------------------------------------------- watching, coordinating

    async def watch(self, pattern: str, handler: ChangeHandler | None = None) -> Watch:
        """Receive every committed change of the keys that match, once, in order, beginning with the present state.

        The handler is called with each `Change`; an awaitable result is awaited. Without a handler, iterate over the
        returned `Watch`. Raises ModelError for a malformed pattern.
        """
        watch = Watch(pattern, self._subscription(Subscription, pattern, handler))
        try:
            await self._ask(calls.watch(watch._subscription, pattern), TIMEOUT)
        except BaseException:
            watch.close()
            raise
        return watch

    async def lock(self, name: str, lease: float = 10.0, *, timeout: float = TIMEOUT) -> Lock:
        """Wait for a lock and take it, for `lease` seconds unless renewed; an asynchronous context manager.

        Raises RefusedError if another owner holds it all the time.
        """
        owner = self._new_owner()
        return await self._lock(name, owner, lease, timeout, calls.release_lock(name, owner))

    async def _lock(
        self, name: str, owner: str, lease: float, timeout: float, undo: ModelCall[int] | None = None
    ) -> Lock:
        """Take a lock for an owner; without `undo` it may take it again if it does not know whether it has it."""
        token, since = await self._ask(calls.take_lock(name, owner, lease), timeout, undo)
        return Lock(self._ask, name, owner, lease, token, since)

    async def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until a leader is known; returns whether one was in time."""
        return await self._driver.wait_until(lambda: self._read_status().leader is not None, timeout)

    async def transfer(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Hand the leadership to another voter, by name. Only at the leader. Raises RefusedError."""
        await self._ask(calls.transfer(name), timeout)

    async def remove(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Take an endpoint out of the voters for good, by name. Only at the leader. Raises RefusedError."""
        await self._ask(calls.remove(name), timeout)

    async def _ask(self, call: ModelCall[Result], timeout: float, undo: ModelCall[Any] | None = None) -> Result:
        """Ask a call's question and return its result; `undo` takes it back, should it be answered too late."""
        pending = _Pending()
        self._driver.order(Ask(self.name, pending, call.question, timeout, time.time()), wait=False)
        try:
            try:
                async with asyncio.timeout(timeout + GRACE):
                    ending = await pending.done
            except TimeoutError:
                ending = None
            return call.result(ending)
        except RefusedError:
            raise
        except BaseException:  # the outcome is unknown, or the caller was cancelled
            if undo is not None:
                pending.abandon(partial(self._undo, undo))
            raise

    def _inspect(self, read: Callable[[], Result]) -> Result:
        return read()  # no turn runs meanwhile: all of it is in the thread of the event loop


class Watch:
    """Changes of the keys that match one pattern. Without a handler, iterate with `async for`."""

    def __init__(self, pattern: str, subscription: Subscription) -> None:
        """Use `Model.watch`."""
        self.pattern = pattern
        self._subscription = subscription

    async def get(self, timeout: float | None = None) -> Change:
        """Return the next change.

        Raises TimeoutError after `timeout` seconds, ClosedError once closed and empty.
        """
        change: Change = (await self._subscription.get(timeout)).payload
        return change

    def __aiter__(self) -> AsyncIterator[Change]:
        return self._changes()

    async def _changes(self) -> AsyncIterator[Change]:
        async for message in self._subscription:
            yield message.payload

    def close(self) -> None:
        """End the watch. A second time does nothing."""
        self._subscription.close()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Lock(BaseLock):
    """A lock that this endpoint holds; see `glue.Lock`."""

    def __init__(
        self,
        ask: Callable[[ModelCall[int], float], Awaitable[int]],
        name: str,
        owner: str,
        lease: float,
        token: int,
        since: float,
    ) -> None:
        """Use `Model.lock`."""
        super().__init__(name, owner, lease, token, since)
        self._ask = ask

    async def renew(self, lease: float | None = None) -> None:
        """Begin the lease again. Raises RefusedError if the lock was lost meanwhile."""
        renewal, asked = self._renewal(lease), time.monotonic()
        if await self._ask(renewal, TIMEOUT) != self.token:
            await self._ask(self._release(), TIMEOUT)
            raise self._lost()
        self._renewed(asked)

    async def release(self, *, timeout: float = TIMEOUT) -> None:
        """Give the lock back. Raises MinorityError if no majority takes it back in `timeout` seconds."""
        self._ends = 0.0
        await self._ask(self._release(), timeout)

    async def __aenter__(self) -> Lock:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()
