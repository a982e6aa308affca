"""Cuts of one large pcap at true starts of records, found without reading the file from its beginning.

A pcap has no marks between records. The first plausible chain of records from a byte on may lie in a payload, because
captures travel over networks, too. Therefore all bytes of a window vote. Each possible start of a record is followed
along its chain. The cut is the start that most chains reach, at least two snapshots later. Chains from within a payload
end with the payload, or join the true chain.

Each cut is then proven: a walk from an earlier cut, found in the same way, must reach it exactly. Near damage the walk
may fail, and the file is not cut there. If many proofs fail, as with huge frames, the file is walked from its
beginning.
"""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import Any

import numpy as np

from spark.read.files import CaptureFile, read_fully
from spark.read.pcap import HEADER, RECORD, Pcap
from spark.read.records import USUAL_FRAME, Bytes, Integers

PROOF = 2 << 20
"""Bytes before a cut at which the walk that proves it starts."""

MOST_UNPROVEN = 0.5
"""Share of failed cuts above which the file is walked. Up to this share, parts are at most twice as large.
"""


def cuts(file: CaptureFile, format: Pcap, partition_bytes: int) -> list[int]:
    """Return the starts of partitions of about `partition_bytes`, ascending. The first is the first record."""
    targets = range(format.first + partition_bytes, file.size - partition_bytes // 2, partition_bytes)
    found, unproven = [format.first], 0
    with file.open() as stream:
        for target in targets:
            cut = proven_cut(stream, format, target, file.size)
            if cut is None:
                unproven += 1
            elif cut > found[-1]:
                found.append(cut)
    return walked_cuts(file, format, targets) if unproven > len(targets) * MOST_UNPROVEN else found


def proven_cut(stream: Any, format: Pcap, target: int, size: int) -> int | None:
    """Return a proven start of a record at or after `target`, None without one."""
    cut = voted_cut(stream, format, target, size)
    if cut is None:
        return None
    earlier = max(format.first, target - PROOF)
    if earlier > format.first:
        voted = voted_cut(stream, format, earlier, size)
        if voted is None or voted > cut:
            return None
        earlier = voted
    return cut if _walk(stream, format, earlier, cut) == cut else None


def voted_cut(stream: Any, format: Pcap, target: int, size: int) -> int | None:
    """Return the start of a record, at or after `target`, that most chains of plausible records reach."""
    reach = 2 * min(format.snapshot, USUAL_FRAME) + RECORD
    window = _read(stream, target, min(2 * reach, size - target))
    data = np.frombuffer(window + bytes(RECORD), np.uint8)
    following = _chains(data, len(window), format)
    ends: dict[int, int] = {}
    votes: Counter[int] = Counter()
    for start in sorted(following, reverse=True):  # so that the end of the next record's chain is known
        step = following[start]
        ends[start] = start if start >= reach else ends.get(step, -1)
        if start < reach and ends[start] >= 0:
            votes[ends[start]] += 1
    if not votes:
        return None
    return target + max(votes, key=lambda end: (votes[end], -end))


def _chains(data: Bytes, size: int, format: Pcap) -> dict[int, int]:
    """Return each byte that could be the start of a record, and the start of the record after it."""
    windows = np.lib.stride_tricks.sliding_window_view(data, RECORD)[: size - RECORD + 1]
    length = _column(windows, 8, format.order)
    original = _column(windows, 12, format.order)
    fraction = _column(windows, 4, format.order)
    plausible = (length > 0) & (length <= format.snapshot) & (original >= length) & (original <= 1 << 20)
    plausible &= fraction * format.unit_ns < 1_000_000_000
    starts = np.flatnonzero(plausible)
    return dict(zip(starts.tolist(), (starts + RECORD + length[starts]).tolist(), strict=True))


def _column(windows: Bytes, offset: int, order: str) -> Integers:
    return np.ascontiguousarray(windows[:, offset : offset + 4]).view(f"{order}u4")[:, 0].astype(np.int64)


def _walk(stream: Any, format: Pcap, start: int, stop: int) -> int:
    """Walk from the record at `start` to the first record at or after `stop`, and return its start."""
    window = _read(stream, start, stop - start + RECORD)
    length_at = Struct(format.order + "I").unpack_from
    position = 0
    while position < stop - start and position + RECORD <= len(window):
        position += RECORD + length_at(window, position + 8)[0]
    return start + position


def walked_cuts(file: CaptureFile, format: Pcap, targets: range) -> list[int]:
    """Return the cuts by walking the file from its first record: certain, but as slow as reading the file."""
    found = [HEADER]
    wanted = iter(targets)
    target = next(wanted, None)
    for _, scan in file.scans(format, HEADER, None):
        offsets = scan.records.offset
        while target is not None and offsets.size and offsets[-1] >= target:
            cut = int(offsets[np.searchsorted(offsets, target)])
            if cut > found[-1]:
                found.append(cut)
            target = next(wanted, None)
    return found


def _read(stream: Any, start: int, size: int) -> bytes:
    stream.seek(start)
    return read_fully(stream, size)
