"""A recording that goes on, and the form in which its messages are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from glue.contract import Delivery
from glue.endpoint.encoding import encoded
from glue.endpoint.schemas import Schemas

if TYPE_CHECKING:  # imported when used, with the extra that they need
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
    def left_out(self) -> int:
        """Messages that were not written, since the file has all the channels that it can have."""
        return self._thread.writer.left_out

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
