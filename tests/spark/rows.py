"""What the reader makes of a capture, as plain Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark.analyze.result import Result
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


def stored(result: Result) -> str:
    """An analysis as text: the columns of a table once, and a line for each row."""
    tables = []
    for name, rows in result.items():
        if name == "trace":
            lines = [json.dumps(rows)]
        else:
            lines = [json.dumps(list(rows[0]) if rows else []), *(json.dumps(list(row.values())) for row in rows)]
        tables.append(f'"{name}": [\n' + ",\n".join(lines) + "]")
    return "{" + ",\n".join(tables) + "}\n"


def restored(text: str) -> Result:
    """The analysis that `stored` wrote down."""
    result: Result = {}
    for name, (first, *rows) in json.loads(text).items():
        result[name] = first if name == "trace" else [dict(zip(first, row, strict=True)) for row in rows]
    return result
