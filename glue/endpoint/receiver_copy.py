"""The host's own copy of the model, from which the state of receivers is read without a round trip."""

from __future__ import annotations

from typing import Any

import orjson

from glue.endpoint.core import EndpointCore
from glue.receivers.store import Document


class Copy:
    """The copy of one model at this host. It may be older than the model, and still has all that counts.

    A host reads the document of a receiver here while it serves the partition under an epoch of its own. Then no
    committed write of this document is missing:

    * A write of a former owner expects the record of that owner. So it comes before the record of this epoch in the
      log, or it is refused.
    * This host learns its own record from the copy: a watch tells what was applied here, a read is answered from here,
      and the answer to a compare-and-set comes once the entry was applied here. The copy applies the log in order, so
      it has all writes of former owners before this host serves.
    * Later writes are this host's own. The answer to one comes once it was applied here.
    * After a write with an unknown outcome the partition is in doubt (`doubt`): the model is asked, until an answer to
      a later question has come. That answer waits until all that was committed before is applied here.
    * A copy never goes back while the model is open. A model that was closed and opened again has another copy, which
      may be behind; it is not read.

    What is only possible, but not committed, may be missing, as in every read.
    """

    __slots__ = ("_core", "_doubts", "_group", "_model")

    def __init__(self, core: EndpointCore, model: str) -> None:
        self._core = core
        self._model = model
        self._group: Any = None  # the first one found, of which all records are
        self._doubts: dict[int, object] = {}

    def _found(self) -> Any:
        layer: Any = self._core.stack.layers["model"]
        group = layer.groups.get(self._model)
        if self._group is None:
            self._group = group
        return group if group is self._group else None

    def document(self, partition: int, key: str) -> tuple[bool, Document | None]:
        """Return whether the copy has what counts, and the document."""
        group = None if partition in self._doubts else self._found()
        if group is None:
            return False, None
        entry = group.state.get(key)
        return True, None if entry is None else orjson.loads(entry[0])

    def revision(self, key: str) -> int | None:
        """Return the log index at which the key was last changed here, 0 without a value; None if it is unknown."""
        group = self._found()
        if group is None:
            return None
        entry = group.state.get(key)
        return 0 if entry is None else int(entry[1])

    def doubt(self, partition: int) -> None:
        """Ask the model for the documents of this partition from now on, as an outcome is unknown."""
        self._doubts[partition] = object()

    def question(self, partition: int) -> object:
        """Return what `answered` is to be called with once a question that is asked now has its answer."""
        return self._doubts.get(partition)

    def answered(self, partition: int, doubt: object) -> None:
        """A question has its answer, so the copy is as good again, unless another outcome became unknown meanwhile."""
        if doubt is not None and self._doubts.get(partition) is doubt:
            del self._doubts[partition]
