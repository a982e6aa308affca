"""The state of the receivers of a kind: in the model, under the owner's record, or in a store, under its epoch."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import orjson

from glue.endpoint.model_calls import ModelCall, found, read_items, write
from glue.endpoint.receiver_copy import Copy
from glue.endpoint.receiver_ops import Ask, Awaitable, Known, Operation, Runtime, Work
from glue.errors import GlueError, RefusedError
from glue.model.questions import Ending, Read
from glue.model.state import Delete, Expect, ExpectRevision, Set
from glue.receivers.activation import Activation
from glue.receivers.context import AgainError, Await, Load, Save, Step
from glue.receivers.ownership import Owner, Ownership
from glue.receivers.store import Document, Store

GONE = -1
"""The epoch of a receiver that is not this endpoint's any more."""


class Storing:
    """Operations on documents: loads, saves, and claims of partitions."""

    def __init__(
        self, runtime: Runtime, kind: str, partitions: int, model: str, store: Store | None, is_fenced: bool
    ) -> None:
        """`is_fenced` is false only where tests show what fencing is for."""
        self.runtime = runtime
        self.kind = kind
        self.partitions = partitions
        self.ownership = Ownership(kind, partitions, runtime.host, runtime.life)
        self._model = model
        self._copy = Copy(runtime.core, model)
        self._store = store
        self._is_fenced = is_fenced
        self._root = f"receivers/{quote(kind, safe='')}"

    def _owner_key(self, partition: int) -> str:
        return f"{self._root}/owner/{partition}"

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
