"""Access to captures: from paths to files, and from files to blocks of records.

Paths may be local paths, `s3://`, `gs://`, `hdfs://` and similar URIs through Arrow's filesystems, directories and
patterns. Files may be compressed with gzip or zstd, recognized by their first bytes. A file is read in blocks of 16 MB,
as far as it is undamaged.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from pyarrow import ArrowInvalid, CompressedInputStream
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from spark.read.pcap import HEADER, Pcap
from spark.read.pcapng import Pcapng
from spark.read.records import LARGEST_RECORD, PADDING, Bytes, Fault, Format, Scan

BLOCK = 16 << 20
"""Bytes read at once: about ten thousand frames, so that NumPy's work outweighs Python's. Memory is a few times as
much.
"""

PIECE = 1 << 20
"""Bytes requested from a decompressor at once. Of these, the part before a fault in compressed data is lost, too."""

ENDINGS = (".pcap", ".pcapng", ".cap")
MCAP = b"\x89MCAP"
PACKED_ENDINGS = ("", ".gz", ".zst")
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class CaptureError(ValueError):
    """A path leads to no capture. The message tells which path, and what was expected."""


def filesystem_of(path: str) -> tuple[FileSystem, str]:
    """Return the filesystem of a path or URI, and the path within it."""
    if "://" in path:
        return FileSystem.from_uri(path)  # type: ignore[no-any-return]
    return LocalFileSystem(), path


def captures(paths: Iterable[str]) -> list[str]:
    """Return all captures that the paths name: files, directories (with subdirectories), and patterns such as `*.pcap`.

    Captures of each path are sorted. Raises CaptureError if a path has none.
    """
    found: dict[str, None] = {}
    for path in paths:
        some = _captures(path)
        if not some:
            raise CaptureError(f"{path}: no capture there; files end in {', '.join(ENDINGS)}, maybe then .gz or .zst")
        found.update(dict.fromkeys(some))
    return list(found)


def _captures(path: str) -> list[str]:
    if "://" not in path and glob.has_magic(path) and not os.path.exists(path):
        return sorted(name for match in glob.glob(path, recursive=True) for name in _captures(match))
    filesystem, place = filesystem_of(path)
    kind = filesystem.get_file_info(place).type
    if kind == FileType.File:
        return [path]
    if kind != FileType.Directory:
        return []
    root, query = _address(path)
    below = filesystem.get_file_info(FileSelector(place, recursive=True))
    names = [info.path.removeprefix(place.rstrip("/")) for info in below if info.type == FileType.File]
    return sorted(f"{root.rstrip('/')}{name}{query}" for name in names if _is_capture(name))


def _address(path: str) -> tuple[str, str]:
    """Return a path, and the options of a URI: `?endpoint_override=...`."""
    at = path.find("?") if "://" in path else -1
    return (path, "") if at < 0 else (path[:at], path[at:])


def _is_capture(name: str) -> bool:
    return any(name.endswith(ending + packed) for ending in ENDINGS for packed in PACKED_ENDINGS)


def point_name(path: str) -> str:
    """Return the capture point of a file that names none: the file's name without endings."""
    name = os.path.basename(_address(path)[0])
    for ending in (*PACKED_ENDINGS[1:], *ENDINGS):
        name = name.removesuffix(ending)
    return name


class CaptureFile:
    """One opened capture: compression, format, and size in bytes on disk."""

    def __init__(self, path: str) -> None:
        """Raises OSError if the file cannot be opened."""
        self.path = path
        self._filesystem, self._place = filesystem_of(path)
        with closing(self._filesystem.open_input_file(self._place)) as opened:
            self.size: int = opened.size()
            start = opened.read_at(4, 0)
        self.compression = next((name for magic, name in COMPRESSIONS.items() if start.startswith(magic)), None)
        with closing(self.open()) as opened:
            self.header = read_fully(opened, HEADER)

    def new_format(self) -> Format:
        """Return the format from the file's header. An empty file is a pcap without records.

        Raises CaptureError if the file is neither pcap nor pcapng.
        """
        if not self.header:
            return Pcap(b"\xd4\xc3\xb2\xa1".ljust(HEADER, b"\0"))
        for kind in (Pcap, Pcapng):
            try:
                return kind(self.header)
            except ValueError:
                continue
        if self.header.startswith(MCAP):
            raise CaptureError(f"{self.path}: an MCAP file has messages, no datagrams; read.format('mcap') reads it")
        raise CaptureError(f"{self.path}: neither pcap nor pcapng: it starts with {self.header[:8].hex(' ')}")

    def open(self) -> Any:
        """Return an Arrow stream of the decompressed capture."""
        opened = self._filesystem.open_input_file(self._place)
        return CompressedInputStream(opened, self.compression) if self.compression else opened

    def scans(self, format: Format, start: int, stop: int | None) -> Iterator[tuple[int, Scan]]:
        """Yield the blocks of the file from byte `start` as (offset, scan). A record starts at `start`.

        Records that start before `stop` are read; None is the end of the file. After a scan with a fault, the next scan
        is of a later place where reading continues, if there is one. A scan's buffer is valid until the next scan.
        """
        with closing(self.open()) as stream:
            if self.compression:
                read_fully(stream, start)
            else:
                stream.seek(start)
            yield from _scans(stream, format, start, stop)


def _scans(stream: Any, format: Format, start: int, stop: int | None) -> Iterator[tuple[int, Scan]]:
    buffer: Bytes = np.zeros(BLOCK + PADDING, np.uint8)
    held, lost = 0, False
    while True:
        room = BLOCK - held if stop is None else min(BLOCK - held, stop - start - held)
        added, trouble = _fill(stream, buffer.data[held : held + room])
        held += added
        buffer[held : held + PADDING] = 0
        over = added < room or start + held == stop
        if lost:
            done, found = format.resume(buffer, held, over)
            lost = not found
        else:
            scan = format.scan(buffer, held, start)
            done, rest = scan.consumed, held - scan.consumed
            if scan.fault is None and (trouble or rest > LARGEST_RECORD or (over and rest and not done)):
                scan.fault = Fault(trouble or _end_within_record(rest, stop), start + done)
            yield start, scan
            lost = scan.fault is not None
        start += done
        held -= done
        if (lost and not format.resumes) or trouble or (over and not held):
            return
        buffer[:held] = buffer[done : done + held].copy()


def _end_within_record(rest: int, stop: int | None) -> str:
    """Tell why the last bytes are no record."""
    if rest > LARGEST_RECORD:
        return "a record without end"
    if stop is None:
        return "the file ends within a record"
    return f"no record ends at byte {stop:,}, where the next part begins: damaged before, or cut in a wrong place"


def _fill(stream: Any, into: memoryview) -> tuple[int, str | None]:
    """Fill a buffer as far as the stream goes. Return the bytes, and the cause if the data is damaged."""
    filled = 0
    while filled < len(into):
        try:
            piece = stream.read(min(PIECE, len(into) - filled)) if isinstance(stream, CompressedInputStream) else None
            count = stream.readinto(into[filled:]) if piece is None else len(piece)
        except (OSError, ArrowInvalid) as error:
            return filled, f"compressed data damaged: {str(error).splitlines()[0]}"
        if not count:
            break
        if piece is not None:
            into[filled : filled + count] = piece
        filled += count
    return filled, None


def read_fully(stream: Any, size: int) -> bytes:
    """Return the next bytes of a stream. Fewer are returned only at its end or before damage in compressed data."""
    buffer = bytearray(size)
    count, _ = _fill(stream, memoryview(buffer))
    return bytes(buffer[:count])
