"""Traffic of a trace as input for a simulation: endpoints, interests, messages, and the links' losses and delays.

The analysis tells the fate of each datagram on each link, with related clocks. `glue.capture.messages` reassembles the
messages. All times are seconds since the first datagram, by the first capture point's clock. Models and restarts are
left out. Every endpoint is present from the beginning to the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from glue.capture.messages import Messages
from spark.analyze.job import Analysis, analyze
from spark.convert import frames
from spark.read import PARTITION_BYTES, CaptureError, check, partitions
from spark.schema import frames_columns

NS = 10**9
MESSAGE_LIMIT = 256 << 20
USUAL_DELAY = 0.0005  # seconds on a LAN, for links without related clocks
OWN = "$glue"
COLUMNS = (
    "file",
    "capture_point",
    "time_ns",
    "network",
    "sender",
    "kind",
    "interest_version",
    "operations",
    "datagram",
)


class Offer(NamedTuple):
    """A message to publish. `time` is in seconds, `size` in bytes, and `lifespan` in seconds."""

    time: float
    publisher: str
    topic: str
    size: int
    reliable: bool
    retain: bool
    lifespan: float | None


@dataclass
class Offered:
    """All input that does not depend on settings. Picklable, for executors."""

    endpoints: list[str]
    messages: list[Offer] = field(default_factory=list)
    interests: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, endpoint, and "+pattern" or "-pattern" for the start or end of an interest."""
    links: dict[tuple[str, str], tuple[list[float], list[float | None]]] = field(default_factory=dict)
    """By sender and receiver: the times at which datagrams left, and their delays in seconds, None if lost.
    """


def offered(spark: SparkSession, paths: Sequence[str]) -> Offered:
    """Read a trace. Raises CaptureError unless at least two endpoints were captured at home."""
    check(paths)
    analysis = analyze(frames(spark, paths, None))
    try:
        homes = {life.sender: (life.name, life.home) for life in analysis.lives if life.home is not None}
        if len(homes) < 2:
            raise CaptureError("what senders would have done takes captures at the hosts of two endpoints, or more")
        found = Offered(sorted({name for name, _ in homes.values()}))
        found.links = _links(analysis, dict(homes.values()))
        _read(found, paths, homes, analysis)
    finally:
        analysis.close()
    return found


def _links(analysis: Analysis, homes: dict[str, str]) -> dict[tuple[str, str], tuple[list[float], list[float | None]]]:
    """Return losses and delays between the homes of any two endpoints."""
    rows = analysis.tables["deliveries"].where("lost is not null")
    table = rows.select("home", "receiver", "sent_ns", "under_way_ns", "lost").toArrow()
    home, receiver, sent = (table[name].to_numpy() for name in ("home", "receiver", "sent_ns"))
    lost = table["lost"].to_numpy()
    delay = table["under_way_ns"].fill_null(round(USUAL_DELAY * NS)).to_numpy() / NS
    links = {}
    for source, at in homes.items():
        for target, there in homes.items():
            pair = analysis.points.index(at), analysis.points.index(there)
            chosen = np.flatnonzero((home == pair[0]) & (receiver == pair[1]))
            if not len(chosen):
                continue
            chosen = chosen[np.argsort(sent[chosen], kind="stable")]
            times = [_seconds(analysis, pair[0], int(time)) for time in sent[chosen]]
            delays = [
                None if gone else max(0.0, way) for gone, way in zip(lost[chosen], delay[chosen].tolist(), strict=True)
            ]
            links[source, target] = (times, delays)
    return links


def _seconds(analysis: Analysis, point: int, time_ns: int) -> float:
    """Convert a point's time to seconds since the beginning, by the clock of the first point."""
    for piece in analysis.relations.get((0, point), ()):
        if time_ns <= piece.stop + piece.offset or math.isinf(piece.stop):
            time_ns -= round(float(piece.at(time_ns - round(piece.offset))))
            break
    return (time_ns - analysis.start_ns) / NS


def _rows(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    for part in partitions(paths, PARTITION_BYTES, None):
        for batch in part.batches(frames_columns(COLUMNS)):
            yield from batch.to_pylist()


def _point(row: dict[str, Any], analysis: Analysis) -> str:
    """Return the capture point of a frame, under the name that the analysis uses."""
    point: str = row["capture_point"]
    return analysis.namesakes.get((point, row["file"]), point)


def _read(found: Offered, paths: Sequence[str], homes: dict[str, tuple[str, str]], analysis: Analysis) -> None:
    """Read messages and interests, as captured at each publisher's home."""
    rows = [row for row in _rows(paths) if homes.get(row["sender"], ("", ""))[1] == _point(row, analysis)]
    rows.sort(key=lambda row: row["time_ns"])
    readers: dict[int, Messages] = {}
    known: dict[str, int] = {}
    for row in rows:
        name, home = homes[row["sender"]]
        at = _seconds(analysis, analysis.points.index(home), row["time_ns"])
        if row["interest_version"] is not None:
            operations = row["operations"] or []
            first = row["interest_version"] - len(operations)
            new = operations[max(0, known.get(name, 0) - first) :]
            known[name] = max(known.get(name, 0), row["interest_version"])
            found.interests += [(at, name, operation) for operation in new if not operation[1:].startswith(OWN)]
        reader = readers.setdefault(row["network"], Messages(row["network"], MESSAGE_LIMIT))
        for one in reader.read(row["time_ns"], row["datagram"]):
            if not one.topic.startswith(OWN):
                offer = Offer(at, name, one.topic, len(one.payload), one.reliable, one.retain, one.lifespan)
                found.messages.append(offer)
    found.messages.sort(key=lambda offer: offer.time)
    found.interests.sort(key=lambda interest: interest[0])
