"""Copies of captures with the sealed datagrams opened, for tools that read glue's datagrams.

Only the key of the group is needed. What two members with identities sent to each other alone stays sealed, as its keys
are in no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path
from typing import NamedTuple

from glue.capture.packets import LINKS, udp_at
from glue.capture.pcapng import Recording
from glue.capture.reading import Capture
from glue.contract import Train
from glue.contract.sealed import HEAD, sealed_network
from glue.security.blocks import BLOCKS, MOST, PARTS, TrainOpener, base_prefix, parts_of
from glue.security.key import Epoch, Key
from glue.security.lives import GROUP_INFO
from glue.security.runs import OVERHEAD, PREFIX_SIZE, open_lone
from glue.security.suites import SUITES, Cipher, cipher, invalid_tag

CIPHERS = 4096
"""Keys of lives kept at once, some 1 kB each."""
BEGUN = 64
"""Blocks held at once until their rest comes, of 64 kB at most: 4 MB."""
STEP = 1000
"""Frames between two reports of the progress."""


class Opener:
    """Opens sealed datagrams with the key of a group, without any check of freshness."""

    def __init__(self, key: Key) -> None:
        self._epochs: dict[int, Epoch] = {}
        self.use(key)
        self._ciphers: dict[bytes, Cipher] = {}
        self._trains = TrainOpener()
        self._invalid_tag = invalid_tag()

    def use(self, key: Key) -> None:
        """Open also with another key; what the former key opened stays open."""
        self._epochs |= {epoch.id: epoch for epoch in key.epochs}

    def open(self, payload: bytes) -> bytes | None:
        """Open a datagram, or a train of them; None if it is not sealed with this key."""
        made = self.cipher(payload)
        if made is None:
            return None
        size = segment_of(payload)
        first = int.from_bytes(payload[PREFIX_SIZE : HEAD.size], "big")
        base = base_prefix(payload[:PREFIX_SIZE])
        try:
            if len(payload) <= size:
                return None if payload[0] in BLOCKS else open_lone(payload, made.decrypt)
            found = self._trains.open(Train(None, payload, size), first, base, made.decrypt)
            return None if found is None else bytes(found[0].data)
        except self._invalid_tag:
            return None

    def cipher(self, payload: bytes) -> Cipher | None:
        """Return the cipher for a payload; None if it is not sealed with this key."""
        if sealed_network(payload) is None:
            return None
        prefix = base_prefix(payload[:PREFIX_SIZE])
        found = self._ciphers.get(prefix)
        epoch = self._epochs.get(prefix[1])
        if found is None and epoch is not None and prefix[0] in SUITES:
            if len(self._ciphers) >= CIPHERS:
                self._ciphers.clear()
            made = cipher(SUITES[prefix[0]], epoch.root, prefix[4:], GROUP_INFO + prefix[2:4])
            found = self._ciphers[prefix] = made
        return found


def segment_of(payload: bytes) -> int:
    """Return the size of the datagrams of a train: each begins with the open part of a life and the next number."""
    number = int.from_bytes(payload[PREFIX_SIZE : HEAD.size], "big")
    following = (number + 1) % (1 << 32)  # a stranger may send the last number
    next = payload.find(payload[1:PREFIX_SIZE] + following.to_bytes(4, "big"), OVERHEAD + 1)
    return len(payload) if next < 0 else next - 1


class Beginning(NamedTuple):
    """The sealed beginning of a block: the size of its datagrams, itself, and its last frame."""

    size: int
    data: bytes
    frame: bytes


class FrameOpener:
    """Opens frames with sealed datagrams, one after the other. A block may be spread over several frames."""

    def __init__(self, key: Key, link: int) -> None:
        """`link` is the link type of all frames."""
        self._opener = Opener(key)
        self._link = link
        self._begun: dict[bytes, Beginning] = {}  # by the part that all datagrams of the block share

    def use(self, key: Key) -> None:
        """Open also with another key."""
        self._opener.use(key)

    def open(self, frame: bytes) -> list[bytes] | None:
        """Return the frames to write instead, opened; none while the rest of a block is missing.

        Returns None for a frame that the key does not open, nor what is held. A block whose rest did not come, or for
        which there is no room, is returned as it was.
        """
        at = udp_at(frame, self._link)
        payload = b"" if at is None else frame[at + 8 :]
        if at is None or self._opener.cipher(payload) is None:
            return None
        base, number = base_prefix(payload[:PREFIX_SIZE]), int.from_bytes(payload[PREFIX_SIZE : HEAD.size], "big")
        begun = self._begun.pop(base, None)
        found: list[bytes] = []
        size = segment_of(payload)
        if begun is not None:
            expected = int.from_bytes(begun.data[PREFIX_SIZE : HEAD.size], "big") + len(begun.data) // begun.size
            if number == expected and payload[0] in BLOCKS and size <= begun.size:
                payload, size = begun.data + payload, begun.size
            else:
                found.append(_with_payload(begun.frame, self._link, begun.data))
                begun = None
        whole = payload
        start, stop, is_block = parts_of(payload, size)[-1]
        if is_block and payload[start + (stop - start - 1) // size * size] in PARTS and stop - start < MOST * size:
            whole = payload[:start]
            if len(self._begun) >= BEGUN:
                oldest = self._begun.pop(next(iter(self._begun)))
                found.append(_with_payload(oldest.frame, self._link, oldest.data))
            self._begun[base] = Beginning(size, payload[start:], frame)
        plain = self._opener.open(whole) if whole else b""
        if plain is None:
            self._begun.pop(base, None)
            if begun is not None:
                found.append(_with_payload(begun.frame, self._link, begun.data))
            return [*found, frame] if found else None
        return [*found, _with_payload(frame, self._link, plain)] if plain else found

    def rest(self) -> list[bytes]:
        """Return the incomplete blocks, still sealed."""
        found = [_with_payload(begun.frame, self._link, begun.data) for begun in self._begun.values()]
        self._begun.clear()
        return found


def opened_copy(
    source: Path | str, target: Path | str, key: Key, progress: Callable[[float], object] | None = None
) -> Counter[str]:
    """Write a copy of a capture with its sealed datagrams opened; returns how many frames were opened and copied.

    Its owner alone may read the copy.

    Frames that this key does not open are copied as they are. `progress` is called now and then with the share of the
    file that was read, 0 to 1. Raises ConfigurationError if `source` is no capture, and
    OSError.
    """
    counted: Counter[str] = Counter()
    opener: FrameOpener | None = None
    recording: Recording | None = None
    capture = Capture(source)
    link = time_ns = 0
    try:
        for number, frame in enumerate(capture):
            if progress is not None and number % STEP == 0:
                progress(capture.position / max(1, capture.size))
            if recording is None:
                recording, link = Recording(target, frame.point, frame.link, is_secret=True), frame.link
                opener = FrameOpener(key, link)
            if frame.link != link:
                counted["left out: another link type"] += 1
                continue
            assert opener is not None
            found = opener.open(frame.data)
            counted["copied" if found is None else "opened"] += 1
            if found is None and is_sealed(frame.data, frame.link):
                counted["still sealed"] += 1
            for data in (frame.data,) if found is None else found:
                recording.write(frame.time_ns, data, len(data))
            time_ns = frame.time_ns
        for data in () if opener is None else opener.rest():
            assert recording is not None
            recording.write(time_ns, data, len(data))
    finally:
        if recording is not None:
            recording.close()
    if capture.fault is not None:
        counted[f"reading ended early: {capture.fault}"] += 1
    return counted


def is_sealed(frame: bytes, link: int) -> bool:
    """Whether a frame has a sealed datagram, whatever its key."""
    at = udp_at(frame, link)
    return at is not None and sealed_network(frame[at + 8 :]) is not None


def opened_copies(captures: Sequence[Path | str], folder: Path | str, key: Key) -> list[str]:
    """Write opened copies of captures, of all files of a directory or a pattern, to a folder; returns their paths.

    Raises ConfigurationError if one is no capture, and OSError.
    """
    made: list[str] = []
    for capture in captures:
        path = Path(capture)
        files = sorted(path.iterdir()) if path.is_dir() else [*map(Path, sorted(glob(str(path))))] or [path]
        for file in files:
            target = Path(folder) / str(len(made)) / file.name  # tools show the name
            target.parent.mkdir()
            opened_copy(file, target, key)
            made += [str(target)] if target.exists() else [str(file)]
    return made


def _with_payload(frame: bytes, link: int, payload: bytes) -> bytes:
    """Return a frame with this payload instead of its own."""
    at = udp_at(frame, link)
    assert at is not None
    data = bytearray(frame[: at + 8])
    length = 8 + len(payload)
    data[at + 4 : at + 8] = (length & 0xFFFF).to_bytes(2, "big") + bytes(2)  # no checksum
    start = LINKS[link][0] if link in LINKS else 0
    while start < at and data[start] >> 4 not in (4, 6):  # tags of VLANs, or the family of loopback
        start += 4
    if data[start] >> 4 == 4:
        data[start + 2 : start + 4] = ((at - start + length) & 0xFFFF).to_bytes(2, "big")
        data[start + 10 : start + 12] = bytes(2)
        data[start + 10 : start + 12] = _checksum(bytes(data[start:at])).to_bytes(2, "big")
    else:
        data[start + 4 : start + 6] = ((at - start - 40 + length) & 0xFFFF).to_bytes(2, "big")
    return bytes(data) + payload


def _checksum(header: bytes) -> int:
    """The checksum of an IPv4 header (RFC 1071)."""
    total = sum(int.from_bytes(header[place : place + 2], "big") for place in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
