"""The partitions of one kind at one endpoint: which are owned, and where the state of their receivers is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote, unquote

from glue.contract import Delivery, Event
from glue.endpoint.model_calls import TIMEOUT, ModelCall, read_items, write
from glue.endpoint.receiver_ops import Ask, Awaitable, Operation, Runtime, Work
from glue.endpoint.responder import Receiver as Mailbox
from glue.errors import GlueError
from glue.model import Ask as AskModel
from glue.model.questions import Ending, WatchPattern
from glue.model.state import ABSENT, Delete, Expect, Set
from glue.receivers.activation import Activation
from glue.receivers.address import parse, partition_of
from glue.receivers.context import AgainError, Await, Load, Mail, Step
from glue.receivers.ownership import Change, Owner, Ownership
from glue.receivers.store import Store


class WatchToken(Mailbox):
    """Receives the changes of a kind's records."""

    def __init__(self, kind: Partitions) -> None:
        super().__init__()
        self._kind = kind

    def _deliver(self, event: Event) -> None:
        """Take changes."""
        if isinstance(event, Delivery):
            for change in event.payloads:
                self._kind.note(change.key, change.value)
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
        self._store = store
        self._is_fenced = is_fenced
        self._draining: set[int] = set()
        self._ready: dict[int, int] = {}  # owned partitions whose store knows the epoch
        self._readying: set[int] = set()
        self._pending: dict[tuple[str, int, int], Mail] = {}  # messages of others that wait or are being handled
        self._root = f"receivers/{quote(kind, safe='')}"
        self._reread = False
        self._watch = WatchToken(self)

    def put(self, id: str, mail: Mail, partition: int = -1) -> None:
        """Queue a message for a receiver."""
        raise NotImplementedError

    def _schedule(self, activation: Activation) -> None:
        """Let a receiver run."""
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
            for key, value in items.items():
                if int(key.rpartition("/")[2]) not in self.ownership.records:
                    self.note(key, value)
            self.ownership.is_known = True

        self._reread = False
        self._ask_model(call.question, Pending(call, take).answered)

    def _ask_model(self, question: Any, answered: Callable[[Ending], None]) -> None:
        token = _Token(answered)
        self.runtime.order(AskModel(self._model, token, question, TIMEOUT, self.runtime.unix_time()))

    def note(self, key: str, record: Any) -> None:
        """Take a record that changed."""
        tail = key.rpartition("/")[2]
        if not tail.isdecimal():
            return
        partition = int(tail)
        with self.runtime.lock:
            if self.ownership.note(partition, record):
                self._drop(partition)

    def serves(self, partition: int) -> bool:
        """Whether messages to this partition are handled here."""
        owner = self.ownership.owned(partition)
        if self.ownership.is_leaving:
            return False
        return owner is not None and partition not in self._draining and self._ready.get(partition) == owner.epoch

    def _drop(self, partition: int) -> None:
        """This endpoint lost a partition: what waits is handed back, and nothing in memory is written any more."""
        self._draining.discard(partition)
        self._ready.pop(partition, None)
        for id in [id for id in self.activations if partition_of(id, self.partitions) == partition]:
            activation = self.activations.pop(id)
            if not activation.is_scheduled:
                activation.forget()  # else its write will fail
            self._hand_back(activation)

    def _hand_back(self, activation: Activation) -> None:
        waiting, activation.mailbox = activation.mailbox or deque(), None
        again = AgainError(f"{activation.address} moved")
        while waiting:
            self._again(activation, waiting.popleft(), again)

    def _again(self, activation: Activation, mail: Mail, error: BaseException) -> None:
        """Hand a message back to its sender; a local one is sent again from here."""
        if mail.payload is WAKE:
            return
        if mail.sender:
            partition = partition_of(activation.id, self.partitions)
            self._pending.pop((mail.sender, partition, mail.seq), None)
            if mail.settle is not None:
                settle, mail.settle = mail.settle, None
                settle(error, None)
            return
        within = max(0.001, mail.until - self.runtime.now()) if mail.is_request and mail.until < inf else 0.0
        self.runtime.executor.soon(
            lambda: self.runtime.send(parse(activation.address), mail.payload, mail.path, within, mail.settle)
        )

    def tick(self, now: float) -> None:
        """Do what is due: claims and hand-overs."""
        runtime = self.runtime
        with runtime.lock:
            if self._reread:
                self._read_records()
            claims = self.ownership.claims()
            for partition in self.ownership.surplus():
                self._draining.add(partition)
            drained = [partition for partition in self._draining if self._is_empty(partition)]
            changes = [change for partition in drained if (change := self.ownership.hand_over(partition))]
            for partition in drained:
                if self.ownership.wanted(partition) in ("", runtime.host):
                    self._draining.discard(partition)
        for change in [*claims, *changes]:
            self._change(change)
        self._make_ready()

    def _change(self, change: Change) -> None:
        before = ABSENT if change.before is None else change.before.record
        key = self._owner_key(change.partition)
        call = write(Expect(key, before), Set(key, change.after.record))

        def done(_: Any, error: BaseException | None) -> None:
            with self.runtime.lock:
                self.ownership.answered(change.partition)
                if error is None and self.ownership.records.get(change.partition) == change.before:
                    self.note(key, change.after.record)

        self._ask_model(call.question, Pending(call, done).answered)

    def _owner_key(self, partition: int) -> str:
        return f"{self._root}/owner/{partition}"

    def _is_empty(self, partition: int) -> bool:
        """Whether no receiver of a partition is in memory; those that are, are put away."""
        found = [one for one in self.activations.values() if partition_of(one.id, self.partitions) == partition]
        for activation in found:
            if not activation.is_stopping:
                activation.is_stopping = True
                self._schedule(activation)
        return not found

    def _make_ready(self) -> None:
        """Tell the store of new epochs, and wake receivers with durable timers."""
        with self.runtime.lock:
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
            self.put(str(id), Mail(WAKE))

    # -------------------------------------------------------------------------------------------- the store

    def _state_key(self, partition: int, id: str, what: str) -> str:
        return f"{self._root}/{what}/{partition}/{quote(id, safe='')}"

    def _claim(self, partition: int, owner: Owner) -> Operation:
        if self._store is not None:
            store = self._store
            return Work(lambda: store.claim(self.kind, partition, owner.epoch))
        call = read_items(f"{self._root}/timed/{partition}/+")
        ids = ModelCall(call.question, lambda answer: [unquote(key.rpartition("/")[2]) for key in call.result(answer)])
        return Ask(self._model, ids)

    def _operation(self, activation: Activation, step: Step) -> Operation:
        """What a step of a receiver means here. Raises AgainError if its partition is not owned any more."""
        if isinstance(step, Await):
            return Awaitable(step.awaitable)
        partition = partition_of(activation.id, self.partitions)
        owner = self.ownership.owned(partition)
        if isinstance(step, Load) and owner is not None:
            activation.epoch = owner.epoch
        if owner is None or owner.epoch != activation.epoch:
            raise AgainError(f"{activation.address} moved")
        store, id = self._store, activation.id
        if isinstance(step, Load):
            if store is not None:
                return Work(lambda: store.load(self.kind, partition, id))
            key = self._state_key(partition, id, "state")
            call = read_items(key)
            return Ask(self._model, ModelCall(call.question, lambda answer: call.result(answer).get(key)))
        if store is not None:
            return Work(lambda: store.save(self.kind, partition, id, owner.epoch, step.document, step.has_timers))
        timed = self._state_key(partition, id, "timed")
        fence = [Expect(self._owner_key(partition), owner.record)] if self._is_fenced else []
        mark = Set(timed, True) if step.has_timers else Delete(timed)
        return Ask(self._model, write(*fence, Set(self._state_key(partition, id, "state"), step.document), mark))


WAKE: Any = object()
"""The payload that only brings a receiver into memory."""


class _Token:
    """Takes the answer of the model."""

    __slots__ = ("answered",)

    def __init__(self, answered: Callable[[Ending], None]) -> None:
        self.answered = answered
