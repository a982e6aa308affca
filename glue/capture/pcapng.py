"""Writer of pcapng (draft-ietf-opsawg-pcapng) with rotation by size and time.

Each file has one section and one interface, with timestamps in nanoseconds. The interface's description holds the name
of the capture point: the analysis reads it there, and mergecap keeps it. Frames pass through a write buffer of 1 MB, so
memory is bounded. A crash loses only the content of the buffer.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from glue.endpoint.fork import heirs
from glue.endpoint.secret_file import open_for_owner
from glue.errors import ConfigurationError

ETHERNET, RAW_IP = 1, 101
"""Link types of pcapng."""
UNKNOWN, INWARD, OUTWARD = 0, 1, 2
"""Directions of a frame in pcapng."""

POINT = "glue capture point: "
"""Prefix of the interface's description. The name of the capture point follows."""
POINT_LIMIT = 255  # bytes of a capture point's name
BUFFER = 1 << 20  # bytes written at once, some thousand frames
LARGEST_FRAME = 65_535 + 64  # bytes: a train of 64 KiB with its headers

_SECTION = Struct("<IIIHHq")
_INTERFACE = Struct("<IIHHI")
_PACKET = Struct("<IIIIIII")
_DIRECTION = Struct("<HHIHH")
_STATISTICS = Struct("<IIIII")
_OPTION = Struct("<HH")
_LENGTH = Struct("<I")
_ENDING = [bytes(padding) for padding in range(4)]


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + value + _ENDING[-len(value) % 4]


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return _LENGTH.pack(kind) + _LENGTH.pack(length) + body + _LENGTH.pack(length)


class Recording:
    """An open capture file, or a series of files with rotation."""

    def __init__(
        self,
        path: Path | str,
        point: str,
        link: int = ETHERNET,
        *,
        rotate_bytes: float = float("inf"),
        rotate_seconds: float = float("inf"),
        keep: int | None = None,
        is_secret: bool = False,
    ) -> None:
        """Open the first file. An existing file is overwritten.

        - `point`: name of the capture point, 1 to 255 bytes of UTF-8.
        - `rotate_bytes`, `rotate_seconds`: limits of each file. With rotation, files are named NAME-00001.pcapng and so
          on.
        - `keep`: number of files to keep with rotation, by default all.
        - `is_secret`: whether the owner alone may read the files, as frames are opened that were sealed.

        Raises ConfigurationError for a wrong name and OSError if the file cannot be written.
        """
        if not 0 < len(point.encode()) <= POINT_LIMIT:
            raise ConfigurationError(f"capture point {point!r}: expected 1 to {POINT_LIMIT} bytes of UTF-8")
        self.point = point
        self.frames = 0
        self.bytes = 0
        """Bytes written so far, in all files."""
        self._path = Path(path)
        self._rotate_bytes, self._rotate_seconds = rotate_bytes, rotate_seconds
        self._rotating = rotate_bytes < float("inf") or rotate_seconds < float("inf")
        self._keep = keep
        self._is_secret = is_secret
        self._written: deque[Path] = deque()
        self._files = 0
        header = _SECTION.pack(0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1) + _LENGTH.pack(28)
        options = _option(3, (POINT + point).encode()) + _option(9, b"\x09") + _option(0, b"")
        self._start = header + _block(1, _INTERFACE.pack(0, 0, link, 0, 0)[8:] + options)
        self._file: BinaryIO
        self._open()
        heirs.add(self)

    @property
    def paths(self) -> list[Path]:
        """The files that this recording has written and not deleted."""
        return list(self._written)

    def write(self, time_ns: int, frame: bytes | memoryview, size: int, direction: int = UNKNOWN) -> None:
        """Append a frame.

        `time_ns` is nanoseconds since 1970. `frame` is the captured part of `size` bytes on the wire. `direction` is
        UNKNOWN, INWARD or OUTWARD. Raises OSError.
        """
        if self._rotating and (self._size >= self._rotate_bytes or time.monotonic() >= self._rotate_at):
            self.rotate()
        captured = len(frame)
        padding = _ENDING[-captured % 4]
        length = 32 + captured + len(padding)
        options = b""
        if direction:
            options = _DIRECTION.pack(2, 4, direction, 0, 0)
            length += len(options)
        head = _PACKET.pack(6, length, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, captured, size)
        self._file.write(b"".join((head, frame, padding, options, _LENGTH.pack(length))))
        self._size += length
        self.bytes += length
        self.frames += 1

    def flush(self) -> None:
        """Write the buffer to the file, so that other programs can read all frames so far."""
        self._file.flush()

    def rotate(self) -> None:
        """Close the current file and open the next one."""
        self._file.close()
        self._open()

    def close(self, dropped: int | None = None) -> None:
        """Close the file. `dropped` is the number of frames that the system reports as lost, None if unknown.

        Raises OSError if the rest cannot be written; the file is closed all the same.
        """
        if self._file.closed:
            return
        try:
            if dropped is not None:
                now = time.time_ns()
                head = _STATISTICS.pack(0, 0, 0, now >> 32, now & 0xFFFFFFFF)[8:]
                number = dropped.to_bytes(8, "little")
                block = _block(5, head + _option(5, number) + _option(0, b""))
                self._file.write(block)
                self.bytes += len(block)
        finally:
            self._file.close()

    def _after_fork(self) -> None:
        """Discard the buffer in a forked child, because the parent process writes it."""
        if not self._file.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def _open(self) -> None:
        self._files += 1
        path = self._path
        if self._rotating:
            path = path.with_name(f"{path.stem}-{self._files:05}{path.suffix}")
        opener = open_for_owner if self._is_secret else None
        self._file = open(path, "wb", buffering=BUFFER, opener=opener)  # noqa: SIM115 (closed by rotate and close)
        self._file.write(self._start)
        self._written.append(path)
        if self._keep is not None and len(self._written) > self._keep:
            self._written.popleft().unlink(missing_ok=True)
        self._size = len(self._start)
        self.bytes += self._size
        self._rotate_at = time.monotonic() + self._rotate_seconds
