"""Files sealed at rest: a `Directory` above another, with a separate key.

Whatever is appended to a file becomes *chunks*, each sealed with AES-256-GCM or ChaCha20-Poly1305:

    magic (4 bytes), cipher (1), id of the epoch of the key (1), place in the file (8), length (4), salt (16),
    nonce (12), CRC-32 of the bytes before (4); the sealed bytes; tag (16); the byte 0xA5

Numbers are big-endian. The key of a chunk is HKDF of the epoch's root with the salt, which is drawn when the directory
is opened; the nonce is drawn for each chunk. The tag covers the head and the name of the file, so chunks cannot change
places. Callers see plain sizes and places. Nothing is ever written again in place, as storages rely on.

A chunk that a crash cut short is no part of the file. A damaged one is read as bytes of 255, and what follows it is
read on: so storages find and count damage as in plain files. What an older copy of a whole file would put back, or a
missing end, is not noticed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from glue.errors import ConfigurationError, StorageError
from glue.security.key import Key
from glue.security.suites import SUITES, TAG_SIZE, Cipher, Suite, cipher, invalid_tag
from glue.storage import DAMAGED, NEW, SEALED, Directory

HEAD: Final = Struct(">4sBBQI16s12sI")
MAGIC: Final = b"\xe5glu"
END: Final = b"\xa5"
OVERHEAD: Final = HEAD.size + TAG_SIZE + len(END)
"""Bytes that sealing adds to a chunk."""

CHUNK: Final = 64 << 10
"""Bytes of a chunk at most, so that a read of a few bytes opens no more; sealing adds a thousandth."""

WINDOW: Final = 1 << 20  # bytes read at once to find the chunks of a file
KNOWN: Final = 32
WRITTEN: Final = 4
"""Files whose chunks are remembered: read ones, and those appended to last. 16 bytes a chunk: of a segment of 64 MiB in
chunks of 1 kB 1 MB, so 36 MB at most."""

CIPHERS: Final = 256  # keys of former openings kept at once
LOCK: Final = "lock"
"""The file that a directory on disk may hold while it is empty."""

CUT: Final = ".cut"
_SUFFIXES: Final = (NEW, DAMAGED, CUT)
_INFO: Final = b"glue1 at rest "
_SALT_SIZE, _NONCE_SIZE = 16, 12
_MARKED: Final = b"glue"
COPIES: Final = 2
_HOLE: Final = (1 << 64) - 1


class Chunk(NamedTuple):
    """The head of a chunk."""

    suite: int
    epoch: int
    start: int
    length: int
    salt: bytes
    nonce: bytes

    @property
    def size(self) -> int:
        """Bytes of the whole chunk."""
        return OVERHEAD + self.length

    def encode(self) -> bytes:
        """The bytes of the head."""
        head = HEAD.pack(MAGIC, *self, 0)[:-4]
        return head + crc32(head).to_bytes(4, "big")

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Chunk | None:
        """From the bytes at a place; None if no head is there."""
        if len(data) < HEAD.size or data[:4] != MAGIC:
            return None
        _, *fields, check = HEAD.unpack_from(data)
        return cls(*fields) if crc32(data[: HEAD.size - 4]) == check and fields[3] <= CHUNK else None


class Layout:
    """The places of the chunks of a file: `starts` in the plain content, `ats` in the file; `end` and `at` of all."""

    __slots__ = ("at", "ats", "end", "is_torn", "starts")

    def __init__(self) -> None:
        self.starts, self.ats = array("Q"), array("Q")
        self.end = self.at = 0
        self.is_torn = False  # whether bytes follow that a crash has left

    def add(self, length: int, size: int, is_hole: bool = False) -> None:
        """Add what follows: `length` plain bytes in `size` bytes of the file, or a hole where they are damaged."""
        if length:
            self.ats.append(_HOLE if is_hole else self.at)
            self.starts.append(self.end)
        self.at += size
        self.end += length


class SealedDirectory:
    """A `Directory` with files sealed in another `Directory`. Raises StorageError for files of another key."""

    def __init__(self, directory: Directory, key: Key, suite: Suite, entropy: Callable[[int], bytes]) -> None:
        """Use `sealed_directory`, which checks what the directory holds. `entropy` returns so many random bytes."""
        self._directory = directory
        self._suite = suite
        self._epoch = key.newest
        self._epochs = {epoch.id: epoch for epoch in key.epochs}
        self._entropy = entropy
        self._salt = entropy(_SALT_SIZE)
        self._encrypt = cipher(suite, self._epoch.root, self._salt, _INFO).encrypt
        self._invalid_tag = invalid_tag()
        self._opener = lru_cache(maxsize=CIPHERS)(self._cipher)
        self._written: OrderedDict[str, Layout] = OrderedDict()
        self._known: dict[str, Layout] = {}
        self.sync, self.sync_names, self.close = directory.sync, directory.sync_names, directory.close

    # --------------------------------------------------------------------------------------------- reading

    def names(self) -> Sequence[str]:
        """The names of all files."""
        return [name for name in self._directory.names() if name != SEALED]

    def size(self, name: str) -> int:
        """Return the plain bytes in a file, 0 if there is none."""
        return self._layout(name).end

    def read(self, name: str) -> bytes | None:
        """All of a file, None if there is none."""
        return self.read_at(name, 0, self.size(name))

    def read_at(self, name: str, start: int, size: int) -> bytes | None:
        """A part of a file, None if there is none."""
        layout = self._layout(name)
        end = layout.end  # another thread may append meanwhile
        stop = min(start + size, end)
        if stop <= start:
            return None if self._directory.read_at(name, 0, 0) is None else b""
        first = bisect_right(layout.starts, start) - 1
        last = bisect_right(layout.starts, stop - 1)
        parts = self._opened(name, layout, first, last, end)
        begin = start - layout.starts[first]
        return b"".join(parts)[begin : begin + stop - start]

    def _opened(self, name: str, layout: Layout, first: int, last: int, file_end: int) -> Iterator[bytes]:
        """The content of these chunks of a file that ends there."""
        starts, ats = layout.starts, layout.ats
        places = [at for at in ats[first:last] if at != _HOLE]
        begin = places[0] if places else 0
        end = places[-1] + CHUNK + OVERHEAD if places else 0
        data = memoryview(self._directory.read_at(name, begin, end - begin) or b"")
        for place in range(first, last):
            stop = starts[place + 1] if place + 1 < len(starts) else file_end
            length = stop - starts[place]
            chunk = None if ats[place] == _HOLE else data[ats[place] - begin :][: length + OVERHEAD]
            yield (None if chunk is None else self._opened_chunk(name, chunk, length)) or b"\xff" * length

    def _opened_chunk(self, name: str, chunk: memoryview, length: int) -> bytes | None:
        """The content of a chunk; None if it is damaged."""
        head = Chunk.parse(chunk)
        if head is None or head.length != length or head.suite not in SUITES:
            return None
        opener = self._opener(head.suite, head.epoch, head.salt)
        text = bytes(chunk[HEAD.size : -len(END)])
        try:
            return opener.decrypt(head.nonce, text, head.encode() + _base(name))
        except self._invalid_tag:
            return None

    def _cipher(self, suite: int, epoch_id: int, salt: bytes) -> Cipher:
        epoch = self._epochs.get(epoch_id)
        if epoch is None:
            raise StorageError(f"a file is sealed with another key, whose id is {epoch_id:02x}")
        return cipher(SUITES[suite], epoch.root, salt, _INFO)

    def _layout(self, name: str) -> Layout:
        """Return where the chunks of a file are."""
        layout = self._written.get(name) or self._known.get(name)
        if layout is None:
            layout = self._found(name)
            self._remember(name, layout)
        return layout

    def _remember(self, name: str, layout: Layout) -> None:
        self._known[name] = layout
        while len(self._known) > KNOWN:
            self._known.pop(next(iter([*self._known])), None)

    def _forget(self, name: str) -> None:
        self._written.pop(name, None)
        self._known.pop(name, None)

    # ----------------------------------------------------------------------------------- finding the chunks

    def _found(self, name: str) -> Layout:
        """Read the heads of a file."""
        layout, size = Layout(), self._directory.size(name)
        window, begin = memoryview(b""), 0
        while layout.at < size:
            if layout.at + CHUNK + OVERHEAD > begin + len(window) and begin + len(window) < size:
                begin = layout.at
                window = memoryview(self._directory.read_at(name, begin, WINDOW) or b"")
            data = window[layout.at - begin :]
            chunk = Chunk.parse(data)
            if chunk is None or chunk.start != layout.end:
                if not self._found_again(name, layout, size):
                    break
                continue
            if chunk.size > len(data) or (data[chunk.size - 1] == 0 and not any(data[chunk.size :])):
                break  # a crash has cut it short
            layout.add(chunk.length, chunk.size)
        layout.is_torn = layout.at < size
        return layout

    def _found_again(self, name: str, layout: Layout, size: int) -> bool:
        """Add a hole up to the next chunk, or to the end of a damaged file; False where a crash has cut it short."""
        data = self._directory.read_at(name, layout.at, size - layout.at) or b""
        place = data.find(MAGIC, 1)
        while place > 0:
            chunk = Chunk.parse(memoryview(data)[place:])
            if chunk is not None and 0 <= chunk.start - layout.end <= place:
                layout.add(chunk.start - layout.end, place, is_hole=True)
                return True
            place = data.find(MAGIC, place + 1)
        if len(data) < HEAD.size or data[-1] == 0:
            return False
        layout.add(len(data), len(data), is_hole=True)
        return True

    # --------------------------------------------------------------------------------------------- writing

    def create(self, name: str) -> None:
        """Create an empty file; an existing one is replaced."""
        self._forget(name)
        self._directory.create(name)
        self._write(name, Layout())

    def _write(self, name: str, layout: Layout) -> None:
        """Remember the chunks of a file that grows."""
        self._written[name] = layout
        self._written.move_to_end(name)
        while len(self._written) > WRITTEN:
            self._remember(*self._written.popitem(last=False))

    def append(self, name: str, data: bytes) -> None:
        """Append bytes to a file; a crash may keep the first of them."""
        layout = self._layout(name)
        if layout.is_torn:
            self._directory.truncate(name, layout.at)
            layout.is_torn = False
        self._write(name, layout)
        sealed, sizes, start = [], [], layout.end
        for begin in range(0, len(data), CHUNK):
            part = data[begin : begin + CHUNK]
            sealed.append(self._sealed(name, start, part))
            sizes.append((len(part), len(sealed[-1])))
            start += len(part)
        layout.is_torn = True  # unless all goes well
        self._directory.append(name, b"".join(sealed))
        layout.is_torn = False
        for length, size in sizes:
            layout.add(length, size)

    def _sealed(self, name: str, start: int, part: bytes) -> bytes:
        nonce = self._entropy(_NONCE_SIZE)
        head = Chunk(self._suite.format, self._epoch.id, start, len(part), self._salt, nonce).encode()
        return b"".join([head, self._encrypt(nonce, bytes(part), head + _base(name)), END])

    def truncate(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file."""
        layout = self._layout(name)
        if size >= layout.end:
            if layout.is_torn:
                self._directory.truncate(name, layout.at)
                layout.is_torn = False
            return
        place = bisect_right(layout.starts, size) - 1
        if layout.starts[place] == size and layout.ats[place] != _HOLE:
            self._directory.truncate(name, layout.ats[place])
            self._forget(name)
            return
        kept, new = self.read_at(name, 0, size) or b"", name + CUT
        self.create(new)
        self.append(new, kept)
        self.sync(new)
        self.rename(new, name)
        self.sync_names()

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace the one of the new name."""
        layout = self._written.pop(old, None)
        self._forget(old)
        self._forget(new)
        self._directory.rename(old, new)
        if layout is not None:
            self._remember(new, layout)

    def mark(self) -> None:
        """Write what tells that the directory is sealed with this key; twice, so that a flipped bit does no harm."""
        new = SEALED + NEW
        self.create(new)
        for _ in range(COPIES):
            self.append(new, _MARKED)
        self.sync(new)
        self.rename(new, SEALED)
        self.sync_names()

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        self._forget(name)
        self._directory.remove(name)


def _base(name: str) -> bytes:
    """Return the name of a file without what it is called while it is replaced or put aside."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.encode()


def sealed_directory(
    directory: Directory, key: Key, suite: Suite, entropy: Callable[[int], bytes], place: str = "the directory"
) -> SealedDirectory:
    """Open a sealed directory, or begin one that is empty.

    Raises ConfigurationError if it holds plain files, or was sealed with another key.
    """
    made = SealedDirectory(directory, key, suite, entropy)
    found = directory.read(SEALED)
    if found:
        chunk = Chunk.parse(found) or Chunk.parse(found[len(found) // 2 :])
        ids = [epoch.id for epoch in key.epochs]
        marked = (made.read(SEALED) or b"") if chunk is not None and chunk.epoch in ids else b""
        if _MARKED in marked:
            if marked != _MARKED * COPIES:
                made.mark()
            return made
        told = "" if chunk is None else f", whose id is {chunk.epoch:02x}"
        raise ConfigurationError(f"{place} is sealed with another key{told}; name the key file that it was made with")
    if {*directory.names()} - {LOCK, SEALED, SEALED + NEW}:
        raise ConfigurationError(f"{place} holds files that are not sealed; give storage_key= an empty directory")
    made.mark()
    return made
