"""Input of one endpoint from captures. NumPy reads it in this process, because a replay is one sequence of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from spark.read import PARTITION_BYTES, CaptureError, partitions
from spark.replay.engine import Captured
from spark.schema import frames_columns

COLUMNS = (
    "capture_point", "time_ns", "direction", "source", "source_port", "destination", "destination_port", "multicast",
    "sender", "name", "kind", "interest_version", "operations", "datagram",
)  # fmt: skip


def _rows(paths: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for part in partitions(paths, PARTITION_BYTES, None):
        for batch in part.batches(frames_columns(columns)):
            yield from batch.to_pylist()


def endpoints(paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the endpoints that announce themselves, by name: id and home.

    The home is the capture point with most of the endpoint's datagrams, where datagrams captured as outgoing decide.
    Among equal points it is the one with the endpoint's name, else the first by name.
    """
    names: dict[str, str] = {}
    seen: dict[str, Counter[str]] = {}
    for row in _rows(paths, ("capture_point", "sender", "name", "direction")):
        counts = seen.setdefault(row["sender"], Counter())
        counts[row["capture_point"]] += 1 if row["direction"] != "out" else 1 << 40
        if row["name"] is not None:
            names[row["name"]] = row["sender"]
    return {name: (sender, _likeliest(seen[sender], name)) for name, sender in names.items()}


def _likeliest(counts: Counter[str], name: str) -> str:
    return max(sorted(counts), key=lambda point: (counts[point], point == name))


def inbound(paths: Sequence[str], name: str) -> list[Captured]:
    """Return the datagrams captured at an endpoint's home for this endpoint, and its own announcements, by time.

    Raises CaptureError if no endpoint of this name announces itself.
    """
    known = endpoints(paths)
    if name not in known:
        raise CaptureError(f"no endpoint {name!r} announces itself; there are {', '.join(sorted(known)) or 'none'}")
    sender, home = known[name]
    rows = [row for row in _rows(paths, COLUMNS) if row["capture_point"] == home]
    own = {(row["source"], row["source_port"]) for row in rows if row["sender"] == sender}
    rows.sort(key=lambda row: row["time_ns"])
    return [found for row in rows if (found := _captured(row, sender, own)) is not None]


def _captured(row: dict[str, Any], sender: str, own: set[tuple[str, int]]) -> Captured | None:
    address = row["source"], row["source_port"]
    if row["sender"] != sender:
        is_for_it = row["multicast"] or (row["destination"], row["destination_port"]) in own
        return Captured(row["time_ns"], address, row["datagram"]) if is_for_it else None
    if row["kind"] != "announce" or row["interest_version"] is None:
        return None
    operations = tuple(row["operations"] or ())
    return Captured(row["time_ns"], address, b"", (row["interest_version"] - len(operations), operations))
