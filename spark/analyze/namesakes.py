"""Capture points with the same name, such as hosts with equal host names, distinguished by file.

Consecutive files of one name are pieces of one recording. If the counters of a sender overlap in two files, both files
were captured at the same time, whatever the clocks show. Then the files are recordings of different places. Merged, the
files would look like a single place that received everything several times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark.read.files import point_name

FEWEST = 4
"""Least counters of a life that two files must share. Where a recorder changes files, a datagram or two overlap."""

SHARE = 0.1
"""Least overlap of two files, as a share of the shorter file's counters or time."""

ROTATED = re.compile(r"-\d{5,}$")
"""Suffix that `glue record` adds to each file of a rotation."""


class Presence(NamedTuple):
    """A life in a file of a capture point: first and last counter, and first and last time (ns)."""

    point: str
    file: str
    life: tuple[str, int]
    counters: tuple[int, int]
    times: tuple[int, int]


def find_namesakes(seen: Iterable[Presence]) -> dict[tuple[str, str], str]:
    """Return new names of capture points by (name, file). The result is empty if all names are unique."""
    by_point: dict[str, dict[str, list[Presence]]] = {}
    for presence in seen:
        by_point.setdefault(presence.point, {}).setdefault(presence.file, []).append(presence)
    found: dict[tuple[str, str], str] = {}
    taken = set(by_point)
    for point, files in by_point.items():
        recordings = _recordings(files)
        if any(_meet(files, one, other) for one, other in combinations(recordings, 2)):
            names = _names([recording[0] for recording in recordings], taken - {point})
            taken.update(names)
            for name, recording in zip(names, recordings, strict=True):
                found.update(((point, file), name) for file in recording)
    return found


def renamed(frames: DataFrame, names: dict[tuple[str, str], str]) -> DataFrame:
    """Return the frames with the names that `find_namesakes` found."""
    told = sql.col("capture_point")
    for point in sorted({point for point, _ in names}):
        pairs = [sql.lit(text) for (other, file), name in names.items() if other == point for text in (file, name)]
        told = sql.when(sql.col("capture_point") == point, sql.create_map(*pairs)[sql.col("file")]).otherwise(told)
    return frames.withColumn("capture_point", told)


def _recordings(files: dict[str, list[Presence]]) -> list[list[str]]:
    """Group the files of one name into recordings. Files of a rotation form one, unless they also overlap in time."""
    rotations: dict[str, list[str]] = {}
    for file in sorted(files):
        key = os.path.join(os.path.dirname(file), ROTATED.sub("", point_name(file)))
        rotations.setdefault(key, []).append(file)
    found = []
    for rotation in rotations.values():
        pairs = combinations(rotation, 2)
        at_once = any(_overlap(files[one], files[other], by_time=True) for one, other in pairs)
        found += [[file] for file in rotation] if at_once else [rotation]
    return found


def _meet(files: dict[str, list[Presence]], one: Sequence[str], other: Sequence[str]) -> bool:
    return any(_overlap(files[a], files[b]) for a in one for b in other)


def _overlap(one: Sequence[Presence], other: Sequence[Presence], by_time: bool = False) -> bool:
    """Return whether a life sent during both files, by its counters, and with `by_time` also by the capture points'
    clocks.
    """
    known = {presence.life: presence for presence in one}
    for presence in other:
        same = known.get(presence.life)
        if same is not None and _shared(same.counters, presence.counters) >= FEWEST:
            spans = [(same.counters, presence.counters)] + ([(same.times, presence.times)] if by_time else [])
            if all(_shared(*span) > SHARE * min(stop - start + 1 for start, stop in span) for span in spans):
                return True
    return False


def _shared(one: tuple[int, int], other: tuple[int, int]) -> int:
    return min(one[1], other[1]) - max(one[0], other[0]) + 1


def _names(files: Sequence[str], taken: set[str]) -> list[str]:
    """Return a name for each file: its own, with enough directories before it to be unique."""
    directories = [[part for part in os.path.dirname(file).split("/") if part] for file in files]
    whole = [point_name(file) for file in files]
    for own in ([ROTATED.sub("", name) for name in whole], whole):
        paths = [[*above, name] for above, name in zip(directories, own, strict=True)]
        for depth in range(1, max(map(len, paths)) + 1):
            names = ["/".join(path[-depth:]) for path in paths]
            if len(set(names)) == len(names) and taken.isdisjoint(names):
                return names
    return list(files)
