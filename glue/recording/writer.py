"""Writes messages into an MCAP file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Final, NamedTuple

from glue.recording.channels import PROFILE, RecordedMessage, encoding_of, metadata_of, missing_extra

CHUNK_SIZE: Final = 64 << 10
"""Bytes of messages that are compressed and written together. A writer that is killed loses no more than these."""
CHANNELS: Final = 60_000
"""Channels of a file at most; MCAP numbers them with 16 bits."""
SCHEMAS: Final = 4096
"""Schemas of a file at most."""
LOOK_AGAIN: Final = 1_000_000_000
"""Nanoseconds of the recording after which the schema of a channel without one is looked for again."""
SEQUENCES: Final = 1 << 32
"""MCAP numbers messages with 32 bits, so larger numbers are recorded modulo this."""


class Schema(NamedTuple):
    """A JSON Schema: the type's name, and the document."""

    name: str
    document: bytes


SchemaOf = Callable[[RecordedMessage], Schema | None]
Opener = Callable[[str, int], int]


class _Channel(NamedTuple):
    number: int
    has_schema: bool
    looked_at: int


class McapWriter:
    """A new MCAP file. One thread may use it at a time."""

    def __init__(
        self, path: str | PathLike[str], schema_of: SchemaOf = lambda message: None, opener: Opener | None = None
    ) -> None:
        """`schema_of` tells the schema of a message, None as long as it is not known.

        `opener` opens the file as the `opener` of the function `open` does.

        An existing file is replaced. Raises OSError, and MissingExtraError without the package `mcap`.
        """
        try:
            from mcap.writer import Writer
        except ImportError as error:
            raise missing_extra(error) from error
        self.messages = 0
        self.bytes = 0
        """Bytes of payload."""
        self.left_out = 0
        """Messages that needed more channels than a file can have."""
        self._schema_of = schema_of
        self._channels: dict[tuple[Any, ...], _Channel] = {}
        self._numbers = 0
        self._schemas: dict[Schema, int] = {}
        self._file = open(path, "wb", opener=opener)  # noqa: SIM115 (closed by `close`)
        self._writer = Writer(self._file, chunk_size=CHUNK_SIZE)
        self._writer.start(PROFILE, library="glue")

    def write(self, messages: Sequence[RecordedMessage]) -> None:
        """Write messages. Raises OSError if the disk does not take them."""
        for message in messages:
            channel = self._channel_of(message)
            if channel is None:
                self.left_out += 1
                continue
            self._writer.add_message(
                channel, message.time_ns, message.payload, max(message.published_ns, 0), message.sequence % SEQUENCES
            )
            self.messages += 1
            self.bytes += len(message.payload)
        self._file.flush()  # parts that became small are written, too

    def close(self) -> None:
        """Write the rest and the index. Raises OSError; the file is closed all the same."""
        try:
            self._writer.finish()  # type: ignore[no-untyped-call]
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Write nothing more in a forked child, not even what was about to be written: the parent writes it."""
        if not self._file.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def _channel_of(self, message: RecordedMessage) -> int | None:
        key = (
            message.topic, message.publisher_id, message.incarnation, message.json, message.codec, message.type,
            message.retained, message.publisher, tuple(message.properties.items()),
        )  # fmt: skip
        found = self._channels.get(key)
        if found is None or (not found.has_schema and message.time_ns - found.looked_at > LOOK_AGAIN):
            found = self._look(message, found)
            if found is None:
                return None
            self._channels[key] = found
        return found.number

    def _look(self, message: RecordedMessage, before: _Channel | None) -> _Channel | None:
        """Return the channel of a message: a new one, unless there is still no schema."""
        schema = self._schema_of(message)
        if schema is None and before is not None:
            return before._replace(looked_at=message.time_ns)
        if self._numbers >= CHANNELS:
            return before
        self._numbers += 1
        number = self._writer.register_channel(
            message.topic, encoding_of(message), self._number_of(schema), metadata_of(message)
        )
        return _Channel(number, schema is not None, message.time_ns)

    def _number_of(self, schema: Schema | None) -> int:
        if schema is None:
            return 0
        number = self._schemas.get(schema)
        if number is None:
            if len(self._schemas) >= SCHEMAS:
                return 0
            number = self._writer.register_schema(schema.name, "jsonschema", schema.document)
            self._schemas[schema] = number
        return number
