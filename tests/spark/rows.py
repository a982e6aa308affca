"""What the reader makes of a capture, as plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark.read import Tally, partitions
from spark.schema import frames_columns

Row = dict[str, Any]


def read(
    path: Path | str, names: Sequence[str] | None = None, partition_bytes: int = 0, point: str | None = None
) -> tuple[list[Row], Tally]:
    """All rows of `frames`, and the sum of what was counted."""
    rows: list[Row] = []
    whole = Tally()
    for part in partitions([str(path)], partition_bytes, point):
        tally = Tally()
        for batch in part.batches(frames_columns(names), tally):
            rows += batch.to_pylist()
        whole.records += tally.records
        whole.datagrams += tally.datagrams
        whole.skipped += tally.skipped
        whole.bytes += tally.bytes
        whole.fault = tally.fault or whole.fault
        whole.dropped = tally.dropped if tally.dropped is not None else whole.dropped
    return rows, whole


def read_bytes(directory: Path, data: bytes, names: Sequence[str] | None = None) -> tuple[list[Row], Tally]:
    """The same for a capture that is not in a file yet."""
    path = directory / "trace.pcap"
    path.write_bytes(data)
    return read(path, names)
