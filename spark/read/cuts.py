"""Where one large pcap can be cut: at true starts of records, found without reading the file from its beginning.

A pcap has no marks between records, and the first plausible chain of records from some byte on may be one that lies in
a payload: captures travel over networks, too. So all bytes of a window vote: each that could be a record's start is
followed along its chain, and the start that most chains reach, at least two snapshots on, is the cut. Chains from
within a payload end with it, or join the true one. Then the cut is proven once more: the walk from a cut that was found
in the same way some way before must meet it exactly. If it does not, as near damage, the file is not cut there; if that
happens often, as with huge frames, it is walked from its beginning.
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
"""Bytes before a cut at which the walk that proves it begins."""

MOST_UNPROVEN = 0.5
"""Share of the cuts that may fail before the file is walked: with fewer, parts are twice as large on average."""


def cuts(file: CaptureFile, format: Pcap, partition_bytes: int) -> list[int]:
    """Where partitions of about that many bytes start, ascending; the first is that of the first record."""
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
    """A start of a record at or after `target`; None if it could not be found or not be proven."""
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
    """The start of a record, at or after `target`, that most chains of plausible records reach."""
    reach = 2 * min(format.snapshot, USUAL_FRAME) + RECORD
    window = _read(stream, target, min(2 * reach, size - target))
    data = np.frombuffer(window + bytes(RECORD), np.uint8)
    following = _chains(data, len(window), format)
    ends: dict[int, int] = {}
    votes: Counter[int] = Counter()
    for start in sorted(following, reverse=True):  # so that where a chain goes on is known before it
        step = following[start]
        ends[start] = start if start >= reach else ends.get(step, -1)
        if start < reach and ends[start] >= 0:
            votes[ends[start]] += 1
    if not votes:
        return None
    return target + max(votes, key=lambda end: (votes[end], -end))


def _chains(data: Bytes, size: int, format: Pcap) -> dict[int, int]:
    """For each byte that could be the start of a record, where the next would be."""
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
    """The first start of a record at or after `stop`, from the one at `start` on."""
    window = _read(stream, start, stop - start + RECORD)
    length_at = Struct(format.order + "I").unpack_from
    position = 0
    while position < stop - start and position + RECORD <= len(window):
        position += RECORD + length_at(window, position + 8)[0]
    return start + position


def walked_cuts(file: CaptureFile, format: Pcap, targets: range) -> list[int]:
    """The same cuts, by walking the file from its first record: certain, and as slow as reading all of it."""
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
