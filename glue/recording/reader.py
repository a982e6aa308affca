"""Reads messages from an MCAP file, also from a file of another program or without an end."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any

from glue.recording.channels import RecordedMessage, described, missing_extra

MAGIC = b"\x89MCAP0\r\n"
"""The first bytes of an MCAP file."""


def is_mcap(path: str | PathLike[str]) -> bool:
    """Whether a file begins as MCAP does. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class McapReader:
    """The messages of an MCAP file, in the order in which they arrived."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Raises OSError, and MissingExtraError without the package `mcap`."""
        try:
            import mcap.reader
        except ImportError as error:
            raise missing_extra(error) from error
        self._mcap: Any = mcap.reader
        self.path = fspath(path)
        self.fault: str | None = None
        """What is wrong with the file; what comes before it was read."""
        self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        self.start_ns, self.stop_ns = 0, 0
        """When the first and the last message arrived; 0 if the file has no index."""
        self._is_whole = self._read_summary()

    def _read_summary(self) -> bool:
        try:
            summary = self._mcap.SeekingReader(self._file).get_summary()
        except Exception as error:  # whatever the bytes make the library do
            self.fault = f"no index, as of a recording that did not end: {error or type(error).__name__}"
            return False
        if summary is None or summary.statistics is None:
            return False
        self.start_ns, self.stop_ns = summary.statistics.message_start_time, summary.statistics.message_end_time
        return True

    def messages(self, start_ns: int | None = None) -> Iterator[RecordedMessage]:
        """Yield the messages that arrived at `start_ns` or later. A damaged part ends it, and is noted in `fault`.

        A file without an index, of a recorder that was killed, is read from its beginning in the order of the file.
        """
        self._file.seek(0)
        make = self._mcap.SeekingReader if self._is_whole else self._mcap.NonSeekingReader
        known: dict[int, RecordedMessage] = {}
        try:
            found = make(self._file, validate_crcs=True).iter_messages(
                starting_at=start_ns, log_time_order=self._is_whole
            )
            for _, channel, message in found:
                base = known.get(channel.id)
                if base is None:
                    base = known[channel.id] = described(channel.topic, channel.message_encoding, channel.metadata)
                yield base._replace(
                    time_ns=message.log_time,
                    published_ns=message.publish_time,
                    sequence=message.sequence,
                    payload=message.data,
                )
        except Exception as error:  # whatever the bytes make the library do
            self.fault = f"a part is damaged, or the end is missing: {error or type(error).__name__}"

    def close(self) -> None:
        """Close the file."""
        self._file.close()
