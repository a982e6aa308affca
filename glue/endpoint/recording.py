"""Recordings: what every kind of endpoint shares to write topics into MCAP files.

The schemas of typed topics are recorded with them: they come from the retained values on `$glue/schema/HASH`.
"""

from __future__ import annotations

from contextlib import suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING

from glue.contract import Subscribe, Unsubscribe
from glue.endpoint.core import check_not_reserved
from glue.endpoint.keep_methods import KeepMethods, SomeReceipt
from glue.errors import ClosedError, StorageError
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used: most programs record nothing
    from glue.endpoint.recorder import Recorder, RecordingThread
    from glue.recording import McapWriter


class RecordMethods(KeepMethods[SomeReceipt]):
    """The method of endpoints that records."""

    _recorders: tuple[Recorder, ...] = ()

    def _make_recording(self, writer: McapWriter) -> RecordingThread:
        """Start the thread that writes a file."""
        raise NotImplementedError

    def record(self, pattern: str, path: str | PathLike[str]) -> Recorder:
        """Record the messages of the topics that match a pattern in an MCAP file, until the recorder is closed.

        pattern: a topic, or a pattern with the wildcards `+` and `#`.
        path: the file. An existing one is replaced.

        A thread writes the file. If the disk is slower than the publishers, they wait as for a slow subscriber. If the
        disk fails, `Recorder.failure` tells so. JSON payloads are recorded as `orjson` writes them. Foxglove, the
        `mcap` command and `glue play` read the file. With a key, its owner alone may read it.

        Raises TopicError, ClosedError, StorageError if the file cannot be made, MissingExtraError without the extra
        `glue-lan[mcap]`.
        """
        from glue.endpoint.keeper import Kept
        from glue.endpoint.recorder import Recorder
        from glue.endpoint.schemas import Schemas
        from glue.endpoint.secret_file import open_for_owner
        from glue.endpoint.typed import SCHEMA
        from glue.recording import McapWriter

        check_pattern(pattern)
        check_not_reserved(pattern)
        self._running()
        opener = None if self._core.security is None else open_for_owner
        schemas = Schemas(self._core.types, self._owner, self._COUNTS)
        try:
            writer = McapWriter(path, schemas.schema_of, opener)
        except OSError as error:
            raise StorageError(f"cannot record in {fspath(path)}: {error.strerror or error}") from error
        thread = self._make_recording(writer)
        recorded = Kept(thread, self._owner, self._COUNTS)
        recorder = Recorder(pattern, fspath(path), recorded, schemas, thread, self)
        self._recorders = (*self._recorders, recorder)
        self._order_keeping(Subscribe(schemas, SCHEMA + "+"))
        self._order_keeping(Subscribe(recorded, pattern))
        return recorder

    def _end_recording(self, recorder: Recorder) -> None:
        if recorder not in self._recorders:
            return
        self._recorders = tuple(one for one in self._recorders if one is not recorder)
        with suppress(ClosedError):  # then all subscriptions end
            self._order_keeping(Unsubscribe(recorder._recorded))
            self._order_keeping(Unsubscribe(recorder._schemas))

    def _end_keeping(self, timeout: float) -> None:
        """End all recordings and logs, as the endpoint closes."""
        for recorder in self._recorders:
            recorder.close()
        super()._end_keeping(timeout)
