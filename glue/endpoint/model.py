"""The shared base of blocking and asyncio models and locks: everything that does not wait.

`glue.sync.model` and `glue.aio.model` add the waiting. They pass the request of a `ModelCall`
(`glue.endpoint.model_calls`) to the driver, and the driver's answer to the call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import orjson

from glue.endpoint.core import EndpointCore
from glue.endpoint.model_calls import TIMEOUT, Entry, ModelCall, check_pattern, release_lock, renew_lock
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.queues import Kept
from glue.errors import ClosedError, ConfigurationError, ModelError, RefusedError
from glue.model import Ask, CloseModel, Replicated, StackRequest
from glue.model.consensus import Role
from glue.model.mergeable import KINDS, Prefixes
from glue.model.questions import Ending, Refused, Unwatch
from glue.model.state import Change, Conflict, Update, check_key

Result = TypeVar("Result")
SomeSubscription = TypeVar("SomeSubscription")

ChangeHandler = Callable[[Change], Any]
"""Called with each change; an asyncio endpoint awaits what it returns, if that is awaitable."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The state of this endpoint's replica; `voters` are names, and so is `leader`, or None without a known leader.

    `failure` is "" in normal operation. Otherwise it tells why this replica, or which other replicas, cannot take
    part: a full or failed disk, different mergeable keys, or different voters.
    """

    role: str
    term: int
    leader: str | None
    commit_index: int
    voters: tuple[str, ...]
    age: float
    keys: int
    failure: str


class ModelDriver(Protocol):
    """The methods of an endpoint's driver that every model uses."""

    @property
    def closed(self) -> bool:
        """Whether the endpoint is closed."""

    def order(self, request: StackRequest, wait: bool = True) -> None:
        """Pass a request to the stack; `wait` for a turn that is under way. Raises ClosedError."""


@dataclass(frozen=True, slots=True)
class EndpointParts:
    """The parts of an endpoint that its models use."""

    endpoint: Any
    core: EndpointCore
    owner: OwnerFunctions
    subscriptions: set[Any]
    """The subscriptions that end with the endpoint."""
    models: dict[str, Any]
    """The models that are open, by name."""


class _Unasked:
    """The token of a request with an ignored answer."""

    def answered(self, answer: Ending) -> None:
        """Ignore the answer."""


def _ignore(outcome: str, count: int) -> None:
    """Leave changes out of the accounting, as they are no messages of a topic."""


class BaseModel:
    """The part of a model that does not wait."""

    def __init__(self, name: str, mergeable: Prefixes, parts: EndpointParts, driver: ModelDriver) -> None:
        self.name = name
        self._core = parts.core
        self._mergeable = mergeable
        self._parts = parts
        self._orders = driver
        self._locks_taken = 0

    @property
    def endpoint(self) -> Any:
        """The endpoint that this model belongs to."""
        return self._parts.endpoint

    @property
    def leader(self) -> str | None:
        """The name of the endpoint that leads now, as far as this one knows."""
        return self.status.leader

    @property
    def status(self) -> ModelStatus:
        """The role and the progress of this endpoint's replica."""
        return self._inspect(self._read_status)

    def conflicts(self, pattern: str = "#") -> dict[str, Conflict]:
        """Return the matching registers and "multi" values that have several concurrent writes, by key.

        Each conflict has all values; the first value of a register is the one that `get` returns. Raises ModelError.
        """
        return self._inspect(lambda: self._local_conflicts(check_pattern(pattern)))

    def close(self) -> None:
        """End this endpoint's part in the model. Calls under way end; a second time does nothing."""
        if not self._orders.closed and self._parts.models.get(self.name) is self:
            del self._parts.models[self.name]
            self._orders.order(CloseModel(self.name))

    def _undo(self, undo: ModelCall[Any], answer: Ending) -> None:
        """Take a call back whose caller had stopped waiting when its answer came, unless it was refused."""
        if not isinstance(answer, Refused):
            with suppress(ClosedError):
                self._orders.order(Ask(self.name, _Unasked(), undo.question, TIMEOUT, time.time()), wait=False)

    def _inspect(self, read: Callable[[], Result]) -> Result:
        """Read something of the stack between two turns."""
        raise NotImplementedError

    def _subscription(
        self, make: Callable[..., SomeSubscription], pattern: str, handler: ChangeHandler | None
    ) -> SomeSubscription:
        """Make the subscription of a watch: its changes are not counted, and its end is told to the model."""
        check_pattern(pattern)
        owner = self._parts.owner.replaced(settled=_ignore, unsubscribe=self._end_watch)
        subscription = make(pattern, handler, owner, Kept(owner, time.monotonic), handler is not None)
        self._parts.subscriptions.add(subscription)
        return subscription

    def _end_watch(self, subscription: Any) -> None:
        """Tell the model that a watch was closed."""
        if not self._orders.closed:
            self._orders.order(Ask(self.name, _Unasked(), Unwatch(subscription), TIMEOUT, time.time()), wait=False)
        self._parts.subscriptions.discard(subscription)

    def _local_entries(self, pattern: str) -> list[Entry]:
        group = self._group()
        age = group.age(time.monotonic())
        return [
            Entry(change.key, change.value, change.index, age if change.index else 0.0)
            for change in group.local(pattern)
        ]

    def _local_entry(self, key: str) -> Entry | None:
        return next(iter(self._local_entries(key)), None)

    def _local_conflicts(self, pattern: str) -> dict[str, Conflict]:
        part = self._group().mergeable
        found = {} if part is None else part.conflicts(pattern)
        return {key: Conflict(map(orjson.loads, values)) for key, values in found.items()}

    def _local_items(self, pattern: str) -> dict[str, Any]:
        return {entry.key: entry.value for entry in self._local_entries(check_pattern(pattern))}

    def _addition(self, key: str, what: Any, there: bool | None) -> Update:
        """Return the update that puts something into a counter or a set; out of the set if `there` is None."""
        kind = self._mergeable.kind(check_key(key))
        if kind is KINDS["set"]:
            return Update(key, {what: there})
        if kind is KINDS["counter"] and there:
            return Update(key, what)
        raise ModelError(f"{key!r:.80} is no mergeable {'counter or set' if there else 'set'}; see mergeable=")

    def _group(self) -> Any:
        group = cast(Replicated, self._core.stack.layers["model"]).groups.get(self.name)
        if group is None:
            raise ConfigurationError(f"model {self.name!r} is closed")
        return group

    def _read_status(self) -> ModelStatus:
        group = self._group()
        status = group.status
        names = group.names
        role = "observer" if status.role is Role.FOLLOWER and not group.is_voter else status.role.value
        return ModelStatus(
            role=role,
            term=status.term,
            leader=names.of(status.leader) if status.leader else None,
            commit_index=status.commit_index,
            voters=tuple(sorted(map(names.of, group.replica.configuration.voters))),
            age=group.age(time.monotonic()),
            keys=group.size,
            failure=group.failure(time.monotonic()),
        )

    def _new_owner(self) -> str:
        """Return the id of a new lock owner: unique, and readable for people (name/incarnation/count)."""
        self._locks_taken += 1
        return f"{self._core.identity.name[:64]}/{self._core.identity.incarnation}/{self._locks_taken}"

    def __repr__(self) -> str:
        return f"<Model {self.name} at {self._core.identity.name}>"


class BaseLock:
    """The part of a lock that does not wait."""

    def __init__(self, name: str, owner: str, lease: float, token: int, since: float) -> None:
        """`since` is when others began to count the lease (monotonic seconds), or earlier."""
        self.name = name
        self.token = token
        self._owner = owner
        self._lease = lease
        self._ends = since + lease

    @property
    def remaining(self) -> float:
        """Seconds for which the lock is certainly still held; 0.0 once the lease is over."""
        return max(0.0, self._ends - time.monotonic())

    def _renewal(self, lease: float | None) -> ModelCall[int]:
        """Return the call that renews the lease; `lease` is the new length in seconds, None keeps the old."""
        lease = self._lease if lease is None else lease
        renewal = renew_lock(self.name, self._owner, lease)
        self._lease = lease
        self._ends = min(self._ends, time.monotonic() + lease)  # a shorter one counts even if no answer comes
        return renewal

    def _renewed(self, asked: float) -> None:
        """Note that the lease began again at `asked`, the time of the request (monotonic seconds)."""
        self._ends = asked + self._lease

    def _release(self) -> ModelCall[int]:
        """Return the call that gives the lock back."""
        return release_lock(self.name, self._owner)

    def _lost(self) -> RefusedError:
        """Note that the lock was lost, and return what to raise."""
        self._ends = 0.0
        return RefusedError(f"lock {self.name!r} was lost: its lease had ended")
