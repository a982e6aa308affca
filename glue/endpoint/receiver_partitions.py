"""The partitions of a kind at an endpoint: ownership, and the storage of their receivers' state."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import orjson

from glue.contract import Delivery, Event
from glue.endpoint.model_calls import TIMEOUT, ModelCall, found, read_items, write
from glue.endpoint.receiver_copy import Copy
from glue.endpoint.receiver_ops import Ask, Awaitable, Known, Operation, Runtime, Work
from glue.endpoint.responder import Receiver as Mailbox
from glue.errors import GlueError, RefusedError
from glue.model import Ask as AskModel
from glue.model.questions import Ending, Read, WatchPattern
from glue.model.state import ABSENT, Delete, Expect, ExpectRevision, Set
from glue.receivers.activation import Activation
from glue.receivers.context import AgainError, Await, Load, Save, Step
from glue.receivers.ownership import Change, Owner, Ownership
from glue.receivers.store import Document, Store

DRAINED = 4
"""Partitions that are handed over at once, so that each stands still only for a moment."""
GONE = -1
"""The epoch of a receiver that is not this endpoint's any more."""


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


class Partitions:
    """The partitions of one hosted kind."""

    def __init__(
        self, runtime: Runtime, kind: str, partitions: int, model: str, store: Store | None, is_fenced: bool
    ) -> None:
        """`is_fenced` is false only where tests show what fencing is for."""
        self.runtime = runtime
        self.kind = kind
        self.partitions = partitions
        self.ownership = Ownership(kind, partitions, runtime.host, runtime.life)
        self.activations: dict[str, Activation] = {}
        self._model = model
        self._copy = Copy(runtime.core, model)
        self._store = store
        self._is_fenced = is_fenced
        self._draining: set[int] = set()
        self._left: Counter[int] = Counter()  # receivers in memory, of partitions that are drained
        self._ready: dict[int, int] = {}  # epochs known to the store, of owned partitions
        self._readying: set[int] = set()
        self._is_looking = False  # whether `_make_ready` is about to run
        self._root = f"receivers/{quote(kind, safe='')}"
        self._reread = False
        self._watch = WatchToken(self)

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
        self._read_records()

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
                self._read_records()
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

    def _owner_key(self, partition: int) -> str:
        return f"{self._root}/owner/{partition}"

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
            if error is not None or self.ownership.owned(partition) != owner:
                return
            self._ready[partition] = owner.epoch
        for id in ids or ():
            self.wake(str(id))

    # -------------------------------------------------------------------------------------------- the store

    def _state_key(self, partition: int, id: str, what: str) -> str:
        name = id if id.isascii() and id.isalnum() else quote(id, safe="")
        return f"{self._root}/{what}/{partition}/{name}"

    def _claim(self, partition: int, owner: Owner) -> Operation:
        if self._store is not None:
            store = self._store
            return Work(lambda: store.claim(self.kind, partition, owner.epoch))
        call = read_items(f"{self._root}/timed/{partition}/+")
        ids = ModelCall(call.question, lambda answer: [unquote(key.rpartition("/")[2]) for key in call.result(answer)])
        return Ask(self._model, ids)

    def _operation(self, activation: Activation, step: Step) -> Operation | Known:
        """Return the operation of a step. Raises AgainError if the partition is not owned any more."""
        if isinstance(step, Await):
            return Awaitable(step.awaitable)
        partition = activation.partition
        owner = self.ownership.owned(partition)
        if activation.epoch == GONE:
            raise AgainError(f"{activation.address} moved")
        if isinstance(step, Load) and owner is not None:
            activation.epoch = owner.epoch
        if owner is None or owner.epoch != activation.epoch:
            raise AgainError(f"{activation.address} moved")
        store, id = self._store, activation.id
        if isinstance(step, Load):
            if store is not None:
                return Work(lambda: own(store.load(self.kind, partition, id)))
            return self._load(partition, id)
        if store is not None:
            document = own(step.document) or {}
            return Work(lambda: store.save(self.kind, partition, id, owner.epoch, document, step.has_timers))
        return Ask(self._model, self._save(partition, id, owner, step))

    def _load(self, partition: int, id: str) -> Operation | Known:
        """Read a document from this host's copy of the model, or ask the model while an outcome is unknown."""
        copy, key = self._copy, self._state_key(partition, id, "state")
        is_there, document = copy.document(partition, key)
        if is_there:
            return Known(document)
        doubt = copy.question(partition)

        def result(ending: Ending | None) -> Any:
            document = document_of(ending)
            copy.answered(partition, doubt)
            return document

        return Ask(self._model, ModelCall(Read(key), result))

    def _save(self, partition: int, id: str, owner: Owner, step: Save) -> ModelCall[int]:
        """Write a document, if the owner's record is still there.

        The revision keeps off an earlier write with an unknown outcome, which might arrive after this one.
        """
        key, timed = self._state_key(partition, id, "state"), self._state_key(partition, id, "timed")
        fence: list[Any] = []
        if self._is_fenced:
            fence.append(Expect(self._owner_key(partition), owner.record))
            revision = self._copy.revision(key)
            if revision is not None:
                fence.append(ExpectRevision(key, revision))
        call = write(*fence, Set(key, step.document), Set(timed, True) if step.has_timers else Delete(timed))

        def result(ending: Ending | None) -> int:
            try:
                return call.result(ending)
            except RefusedError:
                raise
            except GlueError:
                self._copy.doubt(partition)
                raise

        return ModelCall(call.question, result)


def own(document: Document | None) -> Document | None:
    """Copy a document, as a store may keep the object that it is given, and return this object."""
    found: Document | None = orjson.loads(orjson.dumps(document))
    return found


def document_of(ending: Ending | None) -> Any:
    """The value of the key that was read, None if it has none. Raises RefusedError."""
    return next((change.value for change in found(ending)), None)


def _number(key: str) -> int | None:
    """The partition of a record's key."""
    tail = key.rpartition("/")[2]
    return int(tail) if tail.isdecimal() and tail.isascii() and len(tail) < 6 else None


class _Token:
    """Takes the answer of the model."""

    __slots__ = ("answered",)

    def __init__(self, answered: Callable[[Ending], None]) -> None:
        self.answered = answered
