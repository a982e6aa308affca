"""The model of a blocking endpoint: shared state that a majority of its voters agrees on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

from glue.endpoint import model_calls as calls
from glue.endpoint.model import BaseLock, BaseModel, ChangeHandler, EndpointParts, ModelDriver
from glue.endpoint.model_calls import GRACE, TIMEOUT, Entry, ModelCall
from glue.errors import ClosedError, RefusedError
from glue.model import Ask
from glue.model.mergeable import Prefixes
from glue.model.questions import Ending
from glue.model.state import Change, Delete, Operation, Set, Update
from glue.sync.subscription import Subscription

Result = TypeVar("Result")


class BlockingModelDriver(ModelDriver, Protocol):
    """The methods of an endpoint's driver that a blocking model uses."""

    def inspect(self, read: Callable[[], Result]) -> Result:
        """Read something of the stack between two turns."""

    def wait_for(self, event: threading.Event, timeout: float) -> bool:
        """Wait until another thread sets an event."""

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for something that turns bring about; returns whether it came true in time."""


class _Pending:
    """A question until it is answered."""

    __slots__ = ("_late", "answer", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: Ending | None = None
        self._late: Callable[[Ending], None] | None = None

    def answered(self, answer: Ending) -> None:
        """Keep the answer and wake the caller."""
        self.answer = answer
        self.done.set()
        if self._late is not None:
            self._late(answer)

    def abandon(self, late: Callable[[Ending], None]) -> None:
        """Nobody waits any more; `late` is called with the answer."""
        self._late = late
        if self.answer is not None:
            late(self.answer)


class Model(BaseModel):
    """Shared state under a name, as keys and JSON values; made by `Endpoint.model`.

    Calls wait at most `timeout` seconds (default 10) and may be made from any thread, handlers included. A write
    returns the key's *revision*, the log index of the committed write. A write raises RefusedError if nothing was
    changed (MinorityError without a majority), or UnknownOutcomeError. Reads are linearizable, unless `stale`.
    """

    def __init__(self, name: str, mergeable: Prefixes, parts: EndpointParts, driver: BlockingModelDriver) -> None:
        """Use `Endpoint.model`."""
        super().__init__(name, mergeable, parts, driver)
        self._driver = driver

    # ---------------------------------------------------------------------------------------------- reading

    def get(self, key: str, default: Any = None, *, stale: bool = False, timeout: float = TIMEOUT) -> Any:
        """Return a key's value, or `default`; as of now, or if `stale`, as far as this endpoint knows (see `entry`)."""
        entry = self.entry(key, stale=stale, timeout=timeout)
        return default if entry is None else entry.value

    def entry(self, key: str, *, stale: bool = False, timeout: float = TIMEOUT) -> Entry | None:
        """Return a key's value with its revision and age, None if it has none.

        Raises MinorityError, but not if `stale`.
        """
        return self._inspect(lambda: self._local_entry(key)) if stale else self._ask(calls.read_entry(key), timeout)

    def items(self, pattern: str = "#", *, stale: bool = False, timeout: float = TIMEOUT) -> dict[str, Any]:
        """Return the values by key of all keys that match a pattern: `+` is any one level, a last `#` all the rest."""
        if stale:
            return self._inspect(lambda: self._local_items(pattern))
        return self._ask(calls.read_items(pattern), timeout)

    # ---------------------------------------------------------------------------------------------- writing

    def set(self, key: str, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Give a key a JSON value."""
        return self._ask(calls.write(Set(key, value)), timeout)

    def delete(self, key: str, *, timeout: float = TIMEOUT) -> int:
        """Remove a key and its value; nothing happens if there is no such key."""
        return self._ask(calls.write(Delete(key)), timeout)

    def update(self, key: str, delta: Any, *, timeout: float = TIMEOUT) -> int:
        """Apply a JSON Merge Patch (RFC 7396): members of `delta` replace those of the value, None removes one."""
        return self._ask(calls.write(Update(key, delta)), timeout)

    def add(self, key: str, what: Any, *, timeout: float = TIMEOUT) -> int:
        """Add an integer to a mergeable counter, or a string to a mergeable set: `update` in other words."""
        return self._ask(calls.write(self._addition(key, what, True)), timeout)

    def discard(self, key: str, element: str, *, timeout: float = TIMEOUT) -> int:
        """Remove a string from a mergeable set; nothing happens if it is not in the set."""
        return self._ask(calls.write(self._addition(key, element, None)), timeout)

    def compare_and_set(self, key: str, expected: Any, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Set the key if it has the expected value (`glue.ABSENT`: none). Raises RefusedError if it has another."""
        return self._ask(calls.compare_and_set(key, expected, value), timeout)

    def transaction(self, *operations: Operation, timeout: float = TIMEOUT) -> int:
        """Do all of these (`glue.Set`, `Delete`, `Update`), or none if an `Expect` or `ExpectRevision` fails."""
        return self._ask(calls.write(*operations), timeout)

    def synchronize(self, timeout: float = TIMEOUT) -> None:
        """Wait until another endpoint has of the mergeable keys what this one has, and the other way round.

        Raises MinorityError if none is in reach.
        """
        self._ask(calls.synchronize(), timeout)

    # -------------------------------------------------------------------------------- watching, coordinating

    def watch(self, pattern: str, handler: ChangeHandler | None = None) -> Watch:
        """Receive every committed change of the keys that match, once, in order, beginning with the present state.

        With a handler, it is called with each `Change` from a background thread; without, iterate over what is
        returned. Raises ModelError for a malformed pattern.
        """
        watch = Watch(pattern, self._subscription(Subscription, pattern, handler))
        try:
            self._ask(calls.watch(watch._subscription, pattern), TIMEOUT)
        except BaseException:
            watch.close()
            raise
        return watch

    def lock(self, name: str, lease: float = 10.0, *, timeout: float = TIMEOUT) -> Lock:
        """Wait for a lock and hold it for `lease` seconds, unless renewed; returns a context manager.

        Leaving the context releases the lock. Raises RefusedError if another owner holds the lock all the time.
        """
        owner = self._new_owner()
        token, since = self._ask(calls.take_lock(name, owner, lease), timeout, calls.release_lock(name, owner))
        return Lock(self._ask, name, owner, lease, token, since)

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until a leader is known; returns whether one was in time."""
        return self._driver.wait_until(lambda: self._read_status().leader is not None, timeout)

    def transfer(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Hand the leadership to another voter, by name. Only at the leader. Raises RefusedError."""
        self._ask(calls.transfer(name), timeout)

    def remove(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Take an endpoint out of the voters for good, by name. Only at the leader. Raises RefusedError."""
        self._ask(calls.remove(name), timeout)

    def _ask(self, call: ModelCall[Result], timeout: float, undo: ModelCall[Any] | None = None) -> Result:
        """Ask a call's question and return its result; `undo` takes it back, should it be answered too late."""
        pending = _Pending()
        self._driver.order(Ask(self.name, pending, call.question, timeout, time.time()), wait=False)
        try:
            self._driver.wait_for(pending.done, timeout + GRACE)
            return call.result(pending.answer)
        except RefusedError:
            raise
        except BaseException:  # the outcome is unknown, or Ctrl-C
            if undo is not None:
                pending.abandon(partial(self._undo, undo))
            raise

    def _inspect(self, read: Callable[[], Result]) -> Result:
        return self._driver.inspect(read)


class Watch:
    """Changes of the keys that match one pattern; a context manager. Without a handler, iterate: `next` waits."""

    def __init__(self, pattern: str, subscription: Subscription) -> None:
        """Use `Model.watch`."""
        self.pattern = pattern
        self._subscription = subscription

    def get(self, timeout: float | None = None) -> Change:
        """Return the next change.

        Raises TimeoutError after `timeout` seconds, ClosedError once closed and empty.
        """
        change: Change = self._subscription.get(timeout).payload
        return change

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.get()
        except ClosedError:
            raise StopIteration from None

    def close(self) -> None:
        """End the watch. A second time does nothing."""
        self._subscription.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lock(BaseLock):
    """A lock that this endpoint holds. `token` grows with each holder: pass it on to the protected resource.

    The lease begins with the request that took the lock, by the local monotonic clock. Therefore the lease ends here
    no later than for the other endpoints.
    """

    def __init__(
        self, ask: Callable[[ModelCall[int], float], int], name: str, owner: str, lease: float, token: int, since: float
    ) -> None:
        """Use `Model.lock`."""
        super().__init__(name, owner, lease, token, since)
        self._ask = ask

    def renew(self, lease: float | None = None) -> None:
        """Begin the lease again. Raises RefusedError if the lock was lost meanwhile."""
        renewal, asked = self._renewal(lease), time.monotonic()
        if self._ask(renewal, TIMEOUT) != self.token:
            self._ask(self._release(), TIMEOUT)
            raise self._lost()
        self._renewed(asked)

    def release(self, *, timeout: float = TIMEOUT) -> None:
        """Give the lock back. Raises MinorityError if no majority takes it back in `timeout` seconds."""
        self._ends = 0.0
        self._ask(self._release(), timeout)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
