"""The partitions of a kind at an endpoint: which of them it owns, takes and hands over."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from glue.contract import Delivery, Event
from glue.endpoint.model_calls import TIMEOUT, ModelCall, read_items, write
from glue.endpoint.receiver_ops import Operation, Runtime
from glue.endpoint.receiver_storing import GONE, Storing
from glue.endpoint.receivers import Receiver as Mailbox
from glue.errors import ConfigurationError, GlueError
from glue.model import Ask as AskModel
from glue.model.questions import Ending, WatchPattern
from glue.model.state import ABSENT, Expect, Set
from glue.receivers.activation import Activation
from glue.receivers.context import AgainError
from glue.receivers.ownership import Change, Owner
from glue.receivers.store import FencedError, Store

DRAINED = 4
"""Partitions that are handed over at once, so that each stands still only for a moment."""
logger = logging.getLogger("glue")


class WatchToken(Mailbox):
    """Receives the changes of a kind's records."""

    def __init__(self, kind: Partitions) -> None:
        super().__init__()
        self._kind = kind

    def _deliver(self, event: Event) -> None:
        """Take changes."""
        if isinstance(event, Delivery):
            self._kind.note([(change.key, change.value) for change in event.payloads])
            self._kind.runtime.watched(event)


class Pending:
    """A question to the model; `then` is called with its result, or an error, within a turn."""

    __slots__ = ("call", "then")

    def __init__(self, call: ModelCall[Any], then: Callable[[Any, BaseException | None], None]) -> None:
        self.call = call
        self.then = then

    def answered(self, answer: Ending) -> None:
        """Take the answer."""
        try:
            result = self.call.result(answer)
        except GlueError as error:
            self.then(None, error)
        else:
            self.then(result, None)


class Partitions(Storing):
    """The partitions of one hosted kind."""

    def __init__(
        self, runtime: Runtime, kind: str, partitions: int, model: str, store: Store | None, is_fenced: bool
    ) -> None:
        """As `Storing`."""
        super().__init__(runtime, kind, partitions, model, store, is_fenced)
        self.activations: dict[str, Activation] = {}
        self._draining: set[int] = set()
        self._left: Counter[int] = Counter()  # receivers in memory, of partitions that are drained
        self._ready: dict[int, int] = {}  # epochs known to the store, of owned partitions
        self._readying: set[int] = set()
        self._is_looking = False  # whether `_make_ready` is about to run
        self._reread = False
        self._watch = WatchToken(self)
        self._told = ""  # why the store refused partitions, as it was last logged
        self.refusal: ConfigurationError | None = None

    def wake(self, id: str) -> None:
        """Bring a receiver into memory."""
        raise NotImplementedError

    def stop(self, activation: Activation) -> None:
        """Put a receiver away; the caller holds the lock."""
        raise NotImplementedError

    def again(self, activation: Activation, item: Any, error: BaseException) -> None:
        """Hand a message back to its sender."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------- ownership

    def open(self) -> None:
        """Watch the records of the partitions."""
        pattern = f"{self._root}/owner/+"
        self._ask_model(WatchPattern(self._watch, pattern), lambda answer: None)
        self._agree()

    def _agree(self) -> None:
        """Read how many partitions the kind has, which its first host has written; then read their records.

        With two numbers, one receiver would be in two partitions, and have two owners and two states.
        """
        key = f"{self._root}/partitions"
        call = read_items(key)

        def take(items: Any, error: BaseException | None) -> None:
            found = None if error is not None else items.get(key)
            if error is not None:
                self._reread = True
            elif found is None:
                first = write(Expect(key, ABSENT), Set(key, self.partitions))
                self._ask_model(first.question, Pending(first, again).answered)
            elif found != self.partitions:
                self._refuse(found, key)
            else:
                self._read_records()

        def again(_: Any, error: BaseException | None) -> None:
            self._reread = True

        self._reread = False
        self._ask_model(call.question, Pending(call, take).answered)

    def _refuse(self, found: Any, key: str) -> None:
        """Host nothing, as other hosts divide this kind otherwise."""
        kind = self.kind.removeprefix(":")
        self.refusal = ConfigurationError(
            f"partitions={self.partitions} for receivers of kind {kind!r}: other hosts have {found}, and all need the "
            f"same; to change it, end all hosts and delete the key {key!r} of the model {self._model!r}"
        )
        logger.error("%s", self.refusal)
        self.runtime.executor.soon(lambda: self.runtime.withdraw(self))

    def _read_records(self) -> None:
        call = read_items(f"{self._root}/owner/+")

        def take(items: Any, error: BaseException | None) -> None:
            if error is not None:
                self._reread = True
                return
            found = [(key, value) for key, value in items.items() if _number(key) not in self.ownership.records]
            self.note(found)
            self.ownership.is_known = True

        self._reread = False
        self._ask_model(call.question, Pending(call, take).answered)

    def _ask_model(self, question: Any, answered: Callable[[Ending], None]) -> None:
        token = _Token(answered)
        self.runtime.order(AskModel(self._model, token, question, TIMEOUT, self.runtime.unix_time()))

    def note(self, changes: Iterable[tuple[str, Any]]) -> None:
        """Take records that changed."""
        with self.runtime.lock:
            lost, is_more = set(), False
            for key, record in changes:
                partition = _number(key)
                if partition is not None and self.ownership.note(partition, record):
                    lost.add(partition)
                elif partition is not None and self.ownership.owned(partition) is not None:
                    is_more = True
            if lost:
                self._drop(lost)
            if is_more and not self._is_looking:
                self._is_looking = True
                self.runtime.executor.soon(self._make_ready)

    def serves(self, partition: int) -> bool:
        """Whether messages to this partition are handled here."""
        owner = self.ownership.owned(partition)
        if self.ownership.is_leaving:
            return False
        return owner is not None and partition not in self._draining and self._ready.get(partition) == owner.epoch

    def _drop(self, lost: set[int]) -> None:
        """Drop lost partitions: hand back waiting messages, and write nothing in memory any more."""
        self._draining -= lost
        for partition in lost:
            self._ready.pop(partition, None)
        for activation in [one for one in self.activations.values() if one.partition in lost]:
            del self.activations[activation.id]
            if not activation.is_scheduled:
                activation.forget()  # else its write will fail
            self._hand_back(activation)

    def _hand_back(self, activation: Activation) -> None:
        activation.is_direct, activation.epoch = False, GONE
        waiting, activation.mailbox = activation.mailbox or deque(), None
        again = AgainError(f"{activation.address} moved")
        while waiting:
            self.again(activation, waiting.popleft(), again)

    def tick(self, now: float) -> None:
        """Do what is due: claims and hand-overs."""
        with self.runtime.lock:
            if self._reread:
                self._agree()
            claims = self.ownership.claims()
        for claim in claims:
            self._change(claim)
        self._hand_over()
        self._make_ready()

    def _hand_over(self) -> None:
        """Put away the receivers of some partitions that another host should have, and give away those without any."""
        ownership = self.ownership
        with self.runtime.lock:
            surplus = ownership.surplus()
            room = len(surplus) if ownership.is_leaving else max(0, DRAINED - len(self._draining))
            self._draining.update([one for one in surplus if one not in self._draining][:room])
            drained = self._drained() if self._draining else []
            changes = [change for partition in drained if (change := ownership.hand_over(partition))]
            for partition in drained:
                if ownership.wanted(partition) in ("", self.runtime.host):
                    self._draining.discard(partition)
        for change in changes:
            self._change(change)

    def _drained(self) -> list[int]:
        """Put away receivers of partitions to hand over; return the partitions without receivers."""
        left = self._left = Counter()
        for activation in list(self.activations.values()):
            if activation.partition in self._draining:
                left[activation.partition] += 1
                if not activation.is_stopping:
                    self.stop(activation)
        return [partition for partition in self._draining if partition not in left]

    def gone(self, partition: int) -> None:
        """A receiver was put away; the last one of a partition to hand over lets it go. The caller holds the lock."""
        if partition in self._left:
            self._left[partition] -= 1
            if not self._left[partition]:
                del self._left[partition]
                self.runtime.executor.soon(self._hand_over)

    def _change(self, change: Change) -> None:
        before = ABSENT if change.before is None else change.before.record
        key = self._owner_key(change.partition)
        call = write(Expect(key, before), Set(key, change.after.record))

        def done(_: Any, error: BaseException | None) -> None:
            with self.runtime.lock:
                self.ownership.answered(change.partition)
                if error is not None:
                    return  # the next tick tries again
                if self.ownership.records.get(change.partition) == change.before:
                    self.note([(key, change.after.record)])
                if change.after.host != self.runtime.host:
                    self.runtime.executor.soon(self._hand_over)

        self._ask_model(call.question, Pending(call, done).answered)

    def _make_ready(self) -> None:
        """Tell the store of new epochs, and wake receivers with durable timers."""
        with self.runtime.lock:
            self._is_looking = False
            owners = [(partition, self.ownership.owned(partition)) for partition in self.ownership.all_owned]
            new = [
                (partition, owner) for partition, owner in owners
                if owner and self._ready.get(partition) != owner.epoch and partition not in self._readying
            ]  # fmt: skip
            self._readying.update(partition for partition, _ in new)
        for partition, owner in new:
            self._begin(self._claim(partition, owner), partial(self._is_ready, partition, owner))

    def _begin(self, operation: Operation, then: Callable[[Any, BaseException | None], None]) -> None:
        """Do an operation in the background."""

        def run() -> None:
            outcome = self.runtime.executor.perform(operation, then)
            if isinstance(outcome, tuple):
                then(*outcome)

        self.runtime.executor.soon(run)

    def _is_ready(self, partition: int, owner: Owner, ids: Any, error: BaseException | None) -> None:
        with self.runtime.lock:
            self._readying.discard(partition)
            if self.ownership.owned(partition) != owner:
                return
            if error is not None:
                self._not_ready(partition, owner, error)
                return
            self._ready[partition] = owner.epoch
        for id in ids or ():
            self.wake(str(id))

    def _not_ready(self, partition: int, owner: Owner, error: BaseException) -> None:
        """The store refused a partition, or failed; the caller holds the lock. The next tick tries again.

        A store that outlived its model knows higher epochs than the new model. Then this owner counts on from there:
        by compare-and-set, so that another owner is not overtaken.
        """
        if isinstance(error, FencedError):
            after = owner._replace(epoch=max(error.epoch, 2 * owner.epoch) + 1)
            if self.ownership.ask(partition):
                change = Change(partition, owner, after)
                self.runtime.executor.soon(lambda: self._change(change))
        elif self._told != (told := repr(error)):
            self._told = told
            logger.warning("the store of receivers of kind %r: %s", self.kind.removeprefix(":"), told)


def _number(key: str) -> int | None:
    """The partition of a record's key."""
    tail = key.rpartition("/")[2]
    return int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 6 else None


class _Token:
    """Takes the answer of the model."""

    __slots__ = ("answered",)

    def __init__(self, answered: Callable[[Ending], None]) -> None:
        self.answered = answered
