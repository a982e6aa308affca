"""Recordings: what every kind of endpoint shares to write topics into MCAP files.

The schemas of typed topics are recorded with them: they come from the retained values on `$glue/schema/HASH`.
"""

from __future__ import annotations

from contextlib import suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Protocol

from glue.contract import Delivery, Subscribe, Unsubscribe
from glue.endpoint.core import check_not_reserved
from glue.endpoint.encoding import encoded
from glue.endpoint.keep_methods import KeepMethods, SomeReceipt
from glue.endpoint.schemas import Schemas
from glue.endpoint.secret_file import open_for_owner
from glue.endpoint.typed import SCHEMA
from glue.errors import ClosedError, StorageError
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used: most programs record nothing
    from glue.endpoint.keeper import Kept
    from glue.recording import McapWriter, RecordedMessage

CLOSING: Final = 10.0
"""Seconds that the end of a recording waits at most for the disk."""


class RecordingThread(Protocol):
    """Writes deliveries into a file, off the delivery path. Its methods may be called from any thread."""

    writer: McapWriter
    failure: str

    def submit(self, delivery: Delivery) -> None:
        """Write a delivery, which has arrived now."""

    def close(self, timeout: float) -> None:
        """Write what was submitted, and end the file; wait `timeout` seconds at most."""


class RecordingOwner(Protocol):
    """The part of an endpoint that a recorder uses."""

    def _end_recording(self, recorder: Recorder) -> None:
        """Unsubscribe."""


class Recorder:
    """A recording that goes on; made by `Endpoint.record`. A context manager that ends it.

    `pattern` and `path` are as given.
    """

    def __init__(
        self, pattern: str, path: str, recorded: Kept, schemas: Schemas, thread: RecordingThread,
        owner: RecordingOwner,
    ) -> None:  # fmt: skip
        """Use `Endpoint.record`."""
        self.pattern = pattern
        self.path = path
        self._recorded = recorded
        self._schemas = schemas
        self._thread = thread
        self._owner = owner

    @property
    def messages(self) -> int:
        """Messages written so far."""
        return self._thread.writer.messages

    @property
    def bytes(self) -> int:
        """Bytes of payload written so far."""
        return self._thread.writer.bytes

    @property
    def failure(self) -> str:
        """Why nothing is written any more, such as a full disk; "" if all is well."""
        return self._thread.failure

    def close(self) -> None:
        """End the recording: write what has arrived, and the file's index. A second call does nothing."""
        self._owner._end_recording(self)
        self._thread.close(CLOSING)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder of {self.pattern!r} in {self.path}>"


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


def messages_of(time_ns: int, delivery: Delivery) -> list[RecordedMessage]:
    """Return the messages of a delivery that arrived at a time (nanoseconds since 1970)."""
    from glue.recording import RecordedMessage

    metadata, data = getattr(delivery, "metadata", None), getattr(delivery, "encoded", None)
    codec = metadata.codec if metadata else None
    properties: Any = metadata.properties if metadata and metadata.properties else {}
    found = []
    for number, payload in enumerate(delivery.payloads):
        body, json = (bytes(data[number]), False) if data is not None else encoded(payload)
        found.append(
            RecordedMessage(
                time_ns, int(delivery.published_at * 1e9), delivery.topic, delivery.sequence + number, body, json,
                codec, delivery.type, delivery.retained, properties, delivery.publisher, delivery.publisher_id,
                delivery.incarnation,
            )
        )  # fmt: skip
    return found
