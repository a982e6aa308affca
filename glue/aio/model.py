"""The model of an asyncio endpoint: the same calls with the same meaning as those of `glue.Model`, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from glue.aio.subscription import Subscription
from glue.endpoint.core import Core, id_of
from glue.endpoint.model import (
    GRACE,
    TIMEOUT,
    BaseModel,
    Entry,
    ModelStatus,
    check_pattern,
    checked,
    committed,
    compare_and_set,
    found,
    lease_ms,
    locked,
)
from glue.endpoint.queues import Kept
from glue.errors import RefusedError
from glue.model import Ask, CloseModel
from glue.model.mergeable import Prefixes
from glue.model.questions import Ending, Question, Read, Remove, Synchronize, Transfer, Unwatch, Write
from glue.model.questions import Watch as WatchQuestion
from glue.model.state import Change, Conflict, Delete, Operation, Set, Unlock, Update, check_key
from glue.model.state import Lock as LockOperation

if TYPE_CHECKING:
    from glue.aio.endpoint import Endpoint

ChangeHandler = Callable[[Change], Any]
"""A function, or a coroutine function, which is awaited change by change."""


class _Pending:
    """A question until it is answered; nobody may wait any more by then."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def answered(self, answer: Ending) -> None:
        """For the endpoint."""
        if not self.done.done():
            self.done.set_result(answer)


class Model(BaseModel):
    """Shared state under a name; made by `glue.aio.Endpoint.model`. See `glue.Model` for what each call means."""

    def __init__(self, name: str, endpoint: Endpoint, core: Core, mergeable: Prefixes) -> None:
        """Use `Endpoint.model`."""
        super().__init__(name, core, mergeable, time.monotonic)
        self._endpoint = endpoint

    async def get(self, key: str, default: Any = None, *, stale: bool = False, timeout: float = TIMEOUT) -> Any:
        """A key's value, or `default`."""
        entry = await self.entry(key, stale=stale, timeout=timeout)
        return default if entry is None else entry.value

    async def entry(self, key: str, *, stale: bool = False, timeout: float = TIMEOUT) -> Entry | None:
        """A key's value with its revision and age, None if it has none."""
        if stale:
            return self._local_entry(key)
        for change in found(await self._ask(Read(check_key(key)), timeout)):
            return Entry(change.key, change.value, change.index)
        return None

    async def items(self, pattern: str = "#", *, stale: bool = False, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The values of all keys that match a pattern, by key."""
        check_pattern(pattern)
        if stale:
            return {entry.key: entry.value for entry in self._local_entries(pattern)}
        return {change.key: change.value for change in found(await self._ask(Read(pattern), timeout))}

    async def set(self, key: str, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Give a key a JSON value."""
        return await self.transaction(Set(key, value), timeout=timeout)

    async def delete(self, key: str, *, timeout: float = TIMEOUT) -> int:
        """Take a key and its value away."""
        return await self.transaction(Delete(key), timeout=timeout)

    async def update(self, key: str, delta: Any, *, timeout: float = TIMEOUT) -> int:
        """Apply a JSON Merge Patch (RFC 7396)."""
        return await self.transaction(Update(key, delta), timeout=timeout)

    async def add(self, key: str, what: Any, *, timeout: float = TIMEOUT) -> int:
        """Add an integer to a mergeable counter, or a string to a mergeable set."""
        return await self.transaction(self._addition(key, what, True), timeout=timeout)

    async def discard(self, key: str, element: str, *, timeout: float = TIMEOUT) -> int:
        """Take a string out of a mergeable set."""
        return await self.transaction(self._addition(key, element, None), timeout=timeout)

    def conflicts(self, pattern: str = "#") -> dict[str, Conflict]:
        """The registers and "multi" values that match, written at the same time in different places, by key."""
        return self._local_conflicts(check_pattern(pattern))

    async def synchronize(self, timeout: float = TIMEOUT) -> None:
        """Wait until another endpoint has of the mergeable keys what this one has, and the other way round."""
        committed(await self._ask(Synchronize(), timeout))

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Set the key if it has the expected value."""
        return committed(await self._ask(Write(compare_and_set(key, expected, value)), timeout))

    async def transaction(self, *operations: Operation, timeout: float = TIMEOUT) -> int:
        """Do all of these, or none."""
        return committed(await self._ask(Write(checked(operations)), timeout))

    async def watch(self, pattern: str, handler: ChangeHandler | None = None) -> Watch:
        """Hear every committed change of the keys that match, beginning with the present state."""
        check_pattern(pattern)
        watch = Watch(pattern, handler, self)
        self._endpoint.adopt(watch.subscription)
        try:
            committed(await self._ask(WatchQuestion(watch.subscription, pattern), TIMEOUT))
        except RefusedError:
            watch.close()
            raise
        return watch

    async def lock(self, name: str, lease: float = 10.0, *, timeout: float = TIMEOUT) -> Lock:
        """Wait for a lock and take it; an asynchronous context manager that gives it back."""
        owner = self._owner()
        operation = LockOperation(name, owner, lease_ms(lease))
        ending = await self._ask(Write([operation], patient=True), timeout)
        return Lock(self, name, owner, lease, *locked(ending))

    async def lock_operation(self, operation: Operation, timeout: float = TIMEOUT) -> int:
        """For locks: renew or release."""
        return committed(await self._ask(Write([operation]), timeout))

    @property
    def leader(self) -> str | None:
        """The name of the endpoint that leads now, as far as this one knows."""
        return self.status.leader

    @property
    def status(self) -> ModelStatus:
        """What this endpoint's replica is, and how far it has come."""
        return self._read_status()

    async def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until a leader is known; whether one was in time."""
        return await self._endpoint.wait_until(lambda: self.status.leader is not None, timeout)

    async def transfer(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Hand the leadership to another voter, by name."""
        committed(await self._ask(Transfer(id_of(name)), timeout))

    async def remove(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Take an endpoint out of the voters for good, by name."""
        committed(await self._ask(Remove(id_of(name)), timeout))

    def close(self) -> None:
        """Take part no more. Calls under way end; a second time does nothing."""
        if not self._endpoint.closed and self._endpoint.models.pop(self.name, None) is not None:
            self._endpoint.order(CloseModel(self.name))

    async def _ask(self, question: Question, timeout: float) -> Ending | None:
        pending = _Pending()
        self._endpoint.order(Ask(self.name, pending, question, timeout, time.time()))
        try:
            async with asyncio.timeout(timeout + GRACE):
                return await pending.done
        except TimeoutError:
            return None

    def end_watch(self, subscription: Subscription) -> None:
        """For watches: one was closed."""
        if not self._endpoint.closed:
            self._endpoint.order(Ask(self.name, _Pending(), Unwatch(subscription), TIMEOUT, time.time()))
        self._endpoint.disown(subscription)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that this model is of."""
        return self._endpoint


class Watch:
    """Changes of the keys that match one pattern. Without a handler, iterate with `async for`."""

    def __init__(self, pattern: str, handler: ChangeHandler | None, model: Model) -> None:
        self.pattern = pattern
        owner = _Owner(model)
        waiting = Kept(owner, time.monotonic)
        self.subscription = Subscription(pattern, handler, owner, waiting, payload_only=handler is not None)

    async def get(self, timeout: float | None = None) -> Change:
        """The next change. Raises TimeoutError after `timeout` seconds, ClosedError once closed and empty."""
        change: Change = (await self.subscription.get(timeout)).payload
        return change

    def __aiter__(self) -> AsyncIterator[Change]:
        return self._changes()

    async def _changes(self) -> AsyncIterator[Change]:
        async for message in self.subscription:
            yield message.payload

    def close(self) -> None:
        """End the watch. A second time does nothing."""
        self.subscription.close()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _Owner:
    """What a subscription asks of its endpoint, for one that is a watch."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.keep = model.endpoint._owner.keep
        self.handled = model.endpoint._owner.handled
        self.failed = model.endpoint._owner.failed
        self.tell_gap = model.endpoint._owner.tell_gap

    def settled(self, fate: str, count: int) -> None:
        """Changes are no messages of a topic: the ledger does not count them."""

    def unsubscribe(self, subscription: Subscription) -> None:
        """The watch was closed."""
        self._model.end_watch(subscription)


class Lock:
    """A lock that this endpoint holds; see `glue.Lock`."""

    def __init__(self, model: Model, name: str, owner: str, lease: float, token: int, since: float) -> None:
        self.name = name
        self.token = token
        self._model = model
        self._owner = owner
        self._lease = lease
        self._ends = since + lease

    @property
    def remaining(self) -> float:
        """Seconds for which it is certainly still held; 0.0 when that is over."""
        return max(0.0, self._ends - time.monotonic())

    async def renew(self, lease: float | None = None) -> None:
        """Begin the lease again. Raises RefusedError if the lock was lost meanwhile."""
        self._lease = self._lease if lease is None else lease
        asked = time.monotonic()
        token = await self._model.lock_operation(LockOperation(self.name, self._owner, lease_ms(self._lease)))
        if token != self.token:
            await self._model.lock_operation(Unlock(self.name, self._owner))
            self._ends = 0.0
            raise RefusedError(f"lock {self.name!r} was lost: its lease had ended")
        self._ends = asked + self._lease

    async def release(self) -> None:
        """Give it back."""
        self._ends = 0.0
        await self._model.lock_operation(Unlock(self.name, self._owner))

    async def __aenter__(self) -> Lock:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()
