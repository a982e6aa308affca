"""Writing pcapng (draft-ietf-opsawg-pcapng): one section and interface a file, nanoseconds, rotation by size and time.

The name of the capture point stands in the interface's description, where the analysis looks for it and mergecap
keeps it. Frames go through Python's write buffer: memory is bounded, and what was written before a crash is readable.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from glue.endpoint.fork import heirs
from glue.errors import ConfigurationError

ETHERNET, RAW_IP = 1, 101
"""Link types."""
UNKNOWN, INWARD, OUTWARD = 0, 1, 2
"""Directions."""

POINT = "glue capture point: "
"""What the description of the interface starts with; the name of the capture point follows."""
POINT_LIMIT = 255  # bytes of its name
BUFFER = 1 << 20  # bytes written at once: some thousand frames
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
    """Frames on their way into one file, or one after the other."""

    def __init__(
        self,
        path: Path | str,
        point: str,
        link: int = ETHERNET,
        *,
        rotate_bytes: float = float("inf"),
        rotate_seconds: float = float("inf"),
        keep: int | None = None,
    ) -> None:
        """`point` names the capture point. With rotation, files are called NAME-00001.pcapng and so on, and only the
        last `keep` are kept. An existing file is written over. Raises ConfigurationError and OSError.
        """
        if not 0 < len(point.encode()) <= POINT_LIMIT:
            raise ConfigurationError(f"capture point {point!r}: expected 1 to {POINT_LIMIT} bytes of UTF-8")
        self.point = point
        self.frames = 0
        self.bytes = 0
        """Written so far, in all files."""
        self._path = Path(path)
        self._rotate_bytes, self._rotate_seconds = rotate_bytes, rotate_seconds
        self._rotating = rotate_bytes < float("inf") or rotate_seconds < float("inf")
        self._keep = keep
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
        """The files that are there."""
        return list(self._written)

    def write(self, time_ns: int, frame: bytes | memoryview, size: int, direction: int = UNKNOWN) -> None:
        """Add a frame: when it passed (nanoseconds since 1970), what was captured of its `size` bytes, and whither."""
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
        """Let others read what was written so far."""
        self._file.flush()

    def rotate(self) -> None:
        """Go on in the next file."""
        self._file.close()
        self._open()

    def close(self, dropped: int | None = None) -> None:
        """End the file; `dropped` is how many frames the system says it did not hand over."""
        if self._file.closed:
            return
        if dropped is not None:
            now = time.time_ns()
            head = _STATISTICS.pack(0, 0, 0, now >> 32, now & 0xFFFFFFFF)[8:]
            number = dropped.to_bytes(8, "little")
            block = _block(5, head + _option(5, number) + _option(0, b""))
            self._file.write(block)
            self.bytes += len(block)
        self._file.close()

    def orphan(self) -> None:
        """This is a forked child: what it has of the buffer is written by its parent."""
        if not self._file.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def _open(self) -> None:
        self._files += 1
        path = self._path
        if self._rotating:
            path = path.with_name(f"{path.stem}-{self._files:05}{path.suffix}")
        self._file = open(path, "wb", buffering=BUFFER)  # noqa: SIM115 (closed by rotate and close)
        self._file.write(self._start)
        self._written.append(path)
        if self._keep is not None and len(self._written) > self._keep:
            self._written.popleft().unlink(missing_ok=True)
        self._size = len(self._start)
        self.bytes += self._size
        self._rotate_at = time.monotonic() + self._rotate_seconds
