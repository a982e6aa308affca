"""Analysis as plain data with names of endpoints, from which the report, the JSON and the terminal output are made.

All values are JSON: dictionaries, lists, numbers and strings. Times are nanoseconds since 1970 by the clock of the
sender's capture point, and durations are nanoseconds.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from spark.analyze.gather import gather
from spark.analyze.job import Analysis

Row = dict[str, Any]
Result = dict[str, Any]

LARGE = ("deliveries",)
"""Tables with a row for each datagram. Spark's executors write these as Parquet, only if asked for."""

MOST_ROWS = 200_000
"""Most rows of a table on the driver: 50 endpoints' 2,450 pairs in 80 intervals. A longer table is reported as left
out.
"""


EMPTY = (
    "endpoints", "clocks", "files", "pairs", "streams", "repairs", "reassemblies", "histograms", "latencies",
    "latencies_over_time", "rhythm", "announcements", "silences", "topics", "leaders", "late_joiners",
)  # fmt: skip
"""The tables of a result, all of them empty if nothing could be opened."""


def collect(analysis: Analysis, files: DataFrame | None = None) -> Result:
    """Compute all tables except the large ones. `files` is the table of the data source, None if unknown."""
    names = _names(analysis)
    result: Result = {
        "trace": {
            "start_ns": analysis.start_ns,
            "end_ns": analysis.end_ns,
            "interval_ns": analysis.interval_ns,
            "points": analysis.points,
            "namesakes": _namesakes(analysis),
            "left_out": [],
        },
        "endpoints": _endpoints(analysis, names),
        "clocks": _clocks(analysis),
        "files": [],
    }
    receivers = {point: _at(analysis, names, point) for point in analysis.points}
    tables = {name: table for name, table in analysis.tables.items() if name not in LARGE}
    found = gather(tables if files is None else {**tables, "files": files}, MOST_ROWS + 1)
    for name in tables:
        rows = found[name]
        if len(rows) > MOST_ROWS:
            result["trace"]["left_out"].append(name)
        columns = rows.column_names
        result[name] = [
            _readable(row, names, receivers, analysis.points) for row in rows.slice(0, MOST_ROWS).to_pylist()
        ]
        result[name].sort(key=lambda row, columns=columns: [_order(row[column]) for column in columns])
    if files is not None:
        result["files"] = files_rows(found["files"])
    return result


def _order(value: Any) -> tuple[bool, str, float]:
    """Return a key that makes values of any type comparable, nulls first."""
    is_number = isinstance(value, int | float)
    return value is not None, "" if is_number else str(value), float(value) if is_number else 0.0


def _names(analysis: Analysis) -> dict[str, str]:
    """Return names of endpoints by id. Endpoints that share a name keep their ids."""
    names = {life.sender: life.name for life in analysis.lives}
    taken = list(names.values())
    return {sender: name if taken.count(name) == 1 else sender for sender, name in names.items()}


def _at(analysis: Analysis, names: dict[str, str], point: str) -> str:
    """Return a capture point's name as a receiver: the name of the only endpoint at home there, else its own."""
    living = {life.sender for life in analysis.lives if life.home == point}
    return names[living.pop()] if len(living) == 1 else point


def _readable(row: Row, names: dict[str, str], receivers: dict[str, str], points: list[str]) -> Row:
    for column in ("sender", "newcomer", "leader"):
        if column in row:
            row[column] = names.get(row[column], row[column])
    if "receiver" in row:
        value = points[row["receiver"]] if isinstance(row["receiver"], int) else row["receiver"]
        row["receiver"] = receivers.get(value, names.get(value, value))
    return row


def _endpoints(analysis: Analysis, names: dict[str, str]) -> list[Row]:
    rows = []
    for life in analysis.lives:
        point = life.home or next(iter(life.seen))
        first, last = life.seen.get(point, next(iter(life.seen.values())))
        row = {"endpoint": names[life.sender], "id": life.sender, "incarnation": life.incarnation, "home": life.home}
        rows.append(row | {"address": f"{life.address[0]}:{life.address[1]}", "first_ns": first, "last_ns": last})
    return rows


def _namesakes(analysis: Analysis) -> dict[str, list[str]]:
    """Return the capture points of each name that several places share."""
    found: dict[str, list[str]] = {}
    for (point, _), name in sorted(analysis.namesakes.items()):
        if name not in found.setdefault(point, []):
            found[point].append(name)
    return found


def _clocks(analysis: Analysis) -> list[Row]:
    return [
        {"from": analysis.points[first], "to": analysis.points[second], **piece._asdict()}
        for (first, second), pieces in sorted(analysis.relations.items())
        for piece in pieces
    ]


def files_rows(files: pa.Table) -> list[Row]:
    """Return the rows of `files` in order, with the causes of skipped frames as one text."""
    rows: list[Row] = files.sort_by([("file", "ascending"), ("start", "ascending")]).to_pylist()
    for row in rows:
        row["first_byte"] = row.pop("start")
        row["skipped"] = ", ".join(f"{count:,} {cause}" for cause, count in row["skipped"] or ())
    return rows


def write_tables(result: Result, directory: Path) -> None:
    """Write each table as Parquet, and the whole result as `analysis.json`, into a directory, which is made if missing.

    Each file appears complete. The file of a table without rows is removed, as it would be of an earlier result; so are
    the rows of all datagrams, `deliveries.parquet`.
    """
    tables = directory / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(tables / "deliveries.parquet", ignore_errors=True)
    for name, rows in result.items():
        if isinstance(rows, list) and rows:
            with replaced(tables / f"{name}.parquet") as fresh:
                pq.write_table(pa.Table.from_pylist(rows), fresh)
    for name in {*EMPTY, "sealed"}:
        if not result.get(name):
            (tables / f"{name}.parquet").unlink(missing_ok=True)
    with replaced(directory / "analysis.json") as fresh:
        fresh.write_text(json.dumps(result, separators=(",", ":"), allow_nan=False))


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a path for writing, and then move the file to its place, so that readers see only complete files."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
