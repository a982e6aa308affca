"""Copies of captures with the sealed datagrams opened, for tools that read glue's datagrams.

Only the key of the group is needed. What two members with identities sent to each other alone stays sealed, as its keys
are in no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path

from glue.capture.packets import LINKS, udp_at
from glue.capture.pcapng import Recording
from glue.capture.reading import Capture
from glue.contract.sealed import HEAD, sealed_network
from glue.security.key import Key
from glue.security.lives import GROUP_INFO
from glue.security.runs import OVERHEAD, PREFIX_SIZE, open_lone
from glue.security.suites import SUITES, Cipher, cipher, invalid_tag

CIPHERS = 4096
"""Keys of lives kept at once, some 1 kB each."""
STEP = 1000
"""Frames between two reports of the progress."""


class Opener:
    """Opens sealed datagrams with the key of a group, without any check of freshness."""

    def __init__(self, key: Key) -> None:
        self._epochs = {epoch.id: epoch for epoch in key.epochs}
        self._ciphers: dict[bytes, Cipher] = {}
        self._invalid_tag = invalid_tag()

    def open(self, payload: bytes) -> bytes | None:
        """Open a datagram, or a train of them; None if it is not sealed with this key."""
        if sealed_network(payload) is None:
            return None
        made = self._cipher(payload[:PREFIX_SIZE])
        if made is None:
            return None
        opened = []
        for start, stop in _segments(payload):
            try:
                opened.append(open_lone(payload[start:stop], made.decrypt))
            except self._invalid_tag:
                return None
        return b"".join(opened)

    def _cipher(self, prefix: bytes) -> Cipher | None:
        found = self._ciphers.get(prefix)
        epoch = self._epochs.get(prefix[1])
        if found is None and epoch is not None and prefix[0] in SUITES:
            if len(self._ciphers) >= CIPHERS:
                self._ciphers.clear()
            made = cipher(SUITES[prefix[0]], epoch.root, prefix[4:], GROUP_INFO + prefix[2:4])
            found = self._ciphers[prefix] = made
        return found


def _segments(payload: bytes) -> list[tuple[int, int]]:
    """Return where the datagrams of a train begin and end: each begins with the prefix and the next number."""
    prefix, number = payload[:PREFIX_SIZE], int.from_bytes(payload[PREFIX_SIZE : HEAD.size], "big")
    following = (number + 1) % (1 << 32)  # whoever sealed it: a capture also holds what a stranger sent
    size = payload.find(prefix + following.to_bytes(4, "big"), OVERHEAD)
    if size < 0:
        return [(0, len(payload))]
    return [(start, min(start + size, len(payload))) for start in range(0, len(payload), size)]


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
    opener, recording = Opener(key), None
    capture = Capture(source)
    link = 0
    try:
        for number, frame in enumerate(capture):
            if progress is not None and number % STEP == 0:
                progress(capture.position / max(1, capture.size))
            if recording is None:
                recording, link = Recording(target, frame.point, frame.link, is_secret=True), frame.link
            if frame.link != link:
                counted["left out: another link type"] += 1
                continue
            data = _opened(frame.data, frame.link, opener)
            counted["copied" if data is None else "opened"] += 1
            data = frame.data if data is None else data
            recording.write(frame.time_ns, data, len(data))
    finally:
        if recording is not None:
            recording.close()
    if capture.fault is not None:
        counted[f"reading ended early: {capture.fault}"] += 1
    return counted


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


def frame_opener(key: Key, link: int) -> Callable[[bytes], bytes | None]:
    """Return a function that opens a frame of this link type; it returns None for one that the key does not open."""
    opener = Opener(key)
    return lambda frame: _opened(frame, link, opener)


def _opened(frame: bytes, link: int, opener: Opener) -> bytes | None:
    """Return the frame with its sealed payload opened; None if there is none."""
    at = udp_at(frame, link)
    plain = None if at is None else opener.open(frame[at + 8 :])
    if at is None or plain is None:
        return None
    data = bytearray(frame[: at + 8])
    length = 8 + len(plain)
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
    return bytes(data) + plain


def _checksum(header: bytes) -> int:
    """The checksum of an IPv4 header (RFC 1071)."""
    total = sum(int.from_bytes(header[place : place + 2], "big") for place in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
