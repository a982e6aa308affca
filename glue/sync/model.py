"""The model of a blocking endpoint: shared state that a majority of its voters agrees on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from glue.drivers.leader import ThreadDriver
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
from glue.errors import ClosedError, RefusedError
from glue.model import Ask, CloseModel
from glue.model.mergeable import Prefixes
from glue.model.questions import Ending, Question, Read, Remove, Synchronize, Transfer, Unwatch, Write
from glue.model.questions import Watch as WatchQuestion
from glue.model.state import Change, Conflict, Delete, Operation, Set, Unlock, Update, check_key
from glue.model.state import Lock as LockOperation
from glue.sync.subscription import Subscription

if TYPE_CHECKING:
    from glue.sync.endpoint import Endpoint

ChangeHandler = Callable[[Change], Any]


class _Pending:
    """A question until it is answered."""

    __slots__ = ("answer", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: Ending | None = None

    def answered(self, answer: Ending) -> None:
        """For the driver."""
        self.answer = answer
        self.done.set()


class Model(BaseModel):
    """Shared state under a name, as keys and JSON values; made by `Endpoint.model`.

    Calls wait `timeout` seconds at most (default 10) and may be made from any thread, handlers included. A write
    returns the log index at which it was committed, the key's *revision*; or it raises RefusedError (nothing was
    changed; MinorityError if for want of a majority) or UnknownOutcomeError. Reads are linearizable, unless `stale`.
    """

    def __init__(self, name: str, endpoint: Endpoint, core: Core, mergeable: Prefixes, driver: ThreadDriver) -> None:
        """Use `Endpoint.model`."""
        super().__init__(name, core, mergeable, time.monotonic)
        self._endpoint = endpoint
        self._driver = driver

    # ---------------------------------------------------------------------------------------------- reading

    def get(self, key: str, default: Any = None, *, stale: bool = False, timeout: float = TIMEOUT) -> Any:
        """A key's value, or `default`; as of now, or if `stale`, as far as this endpoint knows (see `entry`)."""
        entry = self.entry(key, stale=stale, timeout=timeout)
        return default if entry is None else entry.value

    def entry(self, key: str, *, stale: bool = False, timeout: float = TIMEOUT) -> Entry | None:
        """A key's value with its revision and age, None if it has none. Raises MinorityError, but not if `stale`."""
        if stale:
            return self._driver.inspect(lambda: self._local_entry(key))
        for change in found(self._ask(Read(check_key(key)), timeout)):
            return Entry(change.key, change.value, change.index)
        return None

    def items(self, pattern: str = "#", *, stale: bool = False, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The values of all keys that match a pattern (`+` is any one level, a last `#` all the rest), by key."""
        check_pattern(pattern)
        if stale:
            return {entry.key: entry.value for entry in self._driver.inspect(lambda: self._local_entries(pattern))}
        return {change.key: change.value for change in found(self._ask(Read(pattern), timeout))}

    # ---------------------------------------------------------------------------------------------- writing

    def set(self, key: str, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Give a key a JSON value."""
        return self.transaction(Set(key, value), timeout=timeout)

    def delete(self, key: str, *, timeout: float = TIMEOUT) -> int:
        """Take a key and its value away; one that is not there is let be."""
        return self.transaction(Delete(key), timeout=timeout)

    def update(self, key: str, delta: Any, *, timeout: float = TIMEOUT) -> int:
        """Apply a JSON Merge Patch (RFC 7396): members of `delta` replace those of the value, None removes one."""
        return self.transaction(Update(key, delta), timeout=timeout)

    def add(self, key: str, what: Any, *, timeout: float = TIMEOUT) -> int:
        """Add an integer to a mergeable counter, or a string to a mergeable set: `update` in other words."""
        return self.transaction(self._addition(key, what, True), timeout=timeout)

    def discard(self, key: str, element: str, *, timeout: float = TIMEOUT) -> int:
        """Take a string out of a mergeable set; one that is not there is let be."""
        return self.transaction(self._addition(key, element, None), timeout=timeout)

    def compare_and_set(self, key: str, expected: Any, value: Any, *, timeout: float = TIMEOUT) -> int:
        """Set the key if it has the expected value (`glue.ABSENT`: none). Raises RefusedError if it has another."""
        return committed(self._ask(Write(compare_and_set(key, expected, value)), timeout))

    def transaction(self, *operations: Operation, timeout: float = TIMEOUT) -> int:
        """Do all of these (`glue.Set`, `Delete`, `Update`), or none if an `Expect` or `ExpectRevision` fails."""
        return committed(self._ask(Write(checked(operations)), timeout))

    # ------------------------------------------------------------------------------------------ mergeable keys

    def conflicts(self, pattern: str = "#") -> dict[str, Conflict]:
        """The registers and "multi" values that match, written at the same time in different places, by key.

        Each with all its values; of a register the first is the one that `get` returns. Raises ModelError.
        """
        return self._driver.inspect(lambda: self._local_conflicts(check_pattern(pattern)))

    def synchronize(self, timeout: float = TIMEOUT) -> None:
        """Wait until another endpoint has of the mergeable keys what this one has, and the other way round.

        Raises MinorityError if none is in reach.
        """
        committed(self._ask(Synchronize(), timeout))

    # -------------------------------------------------------------------------------- watching, coordinating

    def watch(self, pattern: str, handler: ChangeHandler | None = None) -> Watch:
        """Hear every committed change of the keys that match, once, in order, beginning with the present state.

        With a handler, it is called with each `Change` from a background thread; without, iterate over what is
        returned. Raises ModelError for a malformed pattern.
        """
        check_pattern(pattern)
        watch = Watch(pattern, handler, self)
        self._endpoint.adopt(watch.subscription)
        try:
            committed(self._ask(WatchQuestion(watch.subscription, pattern), TIMEOUT))
        except RefusedError:
            watch.close()
            raise
        return watch

    def lock(self, name: str, lease: float = 10.0, *, timeout: float = TIMEOUT) -> Lock:
        """Wait for a lock and take it, for `lease` seconds unless renewed; a context manager that gives it back.

        Raises RefusedError if somebody else holds it all the time.
        """
        owner = self._owner()
        ending = self._ask(Write([LockOperation(name, owner, lease_ms(lease))], patient=True), timeout)
        return Lock(self, name, owner, lease, *locked(ending))

    def lock_operation(self, operation: Operation, timeout: float = TIMEOUT) -> int:
        """For locks: renew or release."""
        return committed(self._ask(Write([operation]), timeout))

    @property
    def leader(self) -> str | None:
        """The name of the endpoint that leads now, as far as this one knows."""
        return self.status.leader

    @property
    def status(self) -> ModelStatus:
        """What this endpoint's replica is, and how far it has come."""
        return self._driver.inspect(self._read_status)

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until a leader is known; whether one was in time."""
        return self._driver.wait_until(lambda: self._read_status().leader is not None, timeout)

    def transfer(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Hand the leadership to another voter, by name. Only at the leader. Raises RefusedError."""
        committed(self._ask(Transfer(id_of(name)), timeout))

    def remove(self, name: str, *, timeout: float = TIMEOUT) -> None:
        """Take an endpoint out of the voters for good, by name. Only at the leader. Raises RefusedError."""
        committed(self._ask(Remove(id_of(name)), timeout))

    def close(self) -> None:
        """Take part no more. Calls under way end; a second time does nothing."""
        if not self._driver.closed and self.name in self._endpoint.models:
            del self._endpoint.models[self.name]
            self._driver.order(CloseModel(self.name))

    def _ask(self, question: Question, timeout: float) -> Ending | None:
        pending = _Pending()
        self._driver.order(Ask(self.name, pending, question, timeout, time.time()), wait=False)
        self._driver.wait_for(pending.done, timeout + GRACE)
        return pending.answer

    # ------------------------------------------------------------------------------------- for subscriptions

    def end_watch(self, subscription: Subscription) -> None:
        """For watches: one was closed."""
        if not self._driver.closed:
            self._driver.order(Ask(self.name, _Pending(), Unwatch(subscription), TIMEOUT, time.time()), wait=False)
        self._endpoint.disown(subscription)

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that this model is of."""
        return self._endpoint


class Watch:
    """Changes of the keys that match one pattern; a context manager. Without a handler, iterate: `next` waits."""

    def __init__(self, pattern: str, handler: ChangeHandler | None, model: Model) -> None:
        self.pattern = pattern
        self._model = model
        owner = _Owner(model)
        waiting = Kept(owner, time.monotonic)
        self.subscription = Subscription(pattern, handler, owner, waiting, payload_only=handler is not None)

    def get(self, timeout: float | None = None) -> Change:
        """The next change. Raises TimeoutError after `timeout` seconds, ClosedError once closed and empty."""
        change: Change = self.subscription.get(timeout).payload
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
        self.subscription.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
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
    """A lock that this endpoint holds. `token` grows with each holder: give it to whatever the lock protects.

    The lease is counted from the try that took it, by this machine's monotonic clock, so that it ends here no later
    than for the others.
    """

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

    def renew(self, lease: float | None = None) -> None:
        """Begin the lease again. Raises RefusedError if the lock was lost meanwhile."""
        self._lease = self._lease if lease is None else lease
        asked = time.monotonic()
        token = self._model.lock_operation(LockOperation(self.name, self._owner, lease_ms(self._lease)))
        if token != self.token:
            self._model.lock_operation(Unlock(self.name, self._owner))
            self._ends = 0.0
            raise RefusedError(f"lock {self.name!r} was lost: its lease had ended")
        self._ends = asked + self._lease

    def release(self) -> None:
        """Give it back."""
        self._ends = 0.0
        self._model.lock_operation(Unlock(self.name, self._owner))

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
