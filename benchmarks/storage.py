"""Benchmark of durable writes of a replica: glue's files, SQLite and LMDB.

    python -m benchmarks.storage --document

Each storage gets the same writes: batches of entries, as a leader writes them with that many clients. Each batch is
synced before the next. Then the storage is opened again with 100 MB in it. The raw cost of the disk is measured by
appending the same bytes to a file with `fdatasync`. LMDB needs `pip install lmdb`.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Protocol

from benchmarks.results import PAGE, Column, Row, provenance, refresh, save, table, wait_until_idle
from glue.drivers.directory import FileDirectory
from glue.model.consensus import DurableWrite, Kind, LogEntry
from glue.model.storage import FileStorage

SIZE = 256
"""Bytes of a command."""
BATCHES = (1, 8, 64, 512)
RECOVERED = 100 << 20
"""Bytes of commands in the log that is opened again."""


IDLE_WAIT = 2.0
"""Seconds to wait for an idle machine before each run."""


class Bench(Protocol):
    """A storage to measure."""

    def append(self, entries: list[LogEntry]) -> None:
        """Make entries durable."""

    def recover(self) -> int:
        """Open the storage again, read all entries, and return their number."""


class Own:
    """glue's own storage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._open()

    def _open(self) -> int:
        self._directory = FileDirectory(self._path)
        self._storage = FileStorage(self._directory, Random(1))
        return len(self._storage.load().entries)

    def append(self, entries: list[LogEntry]) -> None:
        """Write one record and sync once."""
        self._number += 1
        self._storage.write(DurableWrite(self._number, None, entries))
        self._storage.sync()

    def recover(self) -> int:
        """Open and read the log with all its checksums."""
        self._storage.close()
        return self._open()


class Sqlite:
    """SQLite with a write-ahead log, synced at each commit."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self._path = path / "log.db"
        self._open()
        self._base.execute("CREATE TABLE log (entry INTEGER PRIMARY KEY, term INTEGER, kind INTEGER, data BLOB)")
        self._base.commit()

    def _open(self) -> None:
        self._base = sqlite3.connect(self._path)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")

    def append(self, entries: list[LogEntry]) -> None:
        """Write one transaction."""
        rows = [(entry.index, entry.term, entry.kind, entry.data) for entry in entries]
        self._base.executemany("INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?)", rows)
        self._base.commit()

    def recover(self) -> int:
        """Open and read the table."""
        self._base.close()
        self._open()
        return len([LogEntry(*row) for row in self._base.execute("SELECT * FROM log ORDER BY entry")])


class Lmdb:
    """LMDB, synced at each commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        import lmdb

        self._environment: Any = lmdb.open(str(self._path), map_size=4 << 30)

    def append(self, entries: list[LogEntry]) -> None:
        """Write one transaction."""
        with self._environment.begin(write=True) as transaction:
            for entry in entries:
                transaction.put(entry.index.to_bytes(8, "big"), entry.term.to_bytes(8, "big") + entry.data, append=True)

    def recover(self) -> int:
        """Open and read all keys."""
        self._environment.close()
        self._open()
        with self._environment.begin() as transaction:
            return len(
                [
                    LogEntry(int.from_bytes(key, "big"), int.from_bytes(value[:8], "big"), Kind.COMMAND, value[8:])
                    for key, value in transaction.cursor()
                ]
            )


class Raw:
    """A plain file, for the cost of the disk alone."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(self, entries: list[LogEntry]) -> None:
        """Append and sync."""
        os.write(self._file, b"".join([entry.data for entry in entries]))
        os.fdatasync(self._file)

    def recover(self) -> int:
        """Return 0: nothing can be recovered."""
        return 0


STORAGES: dict[str, Callable[[Path], Bench]] = {
    "file and fdatasync": Raw, "glue": Own, "SQLite": Sqlite, "LMDB": Lmdb,
}  # fmt: skip


def batch(first: int, count: int, data: bytes) -> list[LogEntry]:
    """Return `count` consecutive entries from index `first` on."""
    return [LogEntry(index, 7, Kind.COMMAND, data) for index in range(first, first + count)]


def measure(name: str, folder: Path, seconds: float, recovered: int) -> list[Row]:
    """Append batches of each size for `seconds`, then open a log of `recovered` bytes. Return the rows."""
    rows: list[Row] = []
    bench, written, data = STORAGES[name](folder / name), 0, os.urandom(SIZE)
    for count in BATCHES:
        delays: list[float] = []
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            bench.append(batch(written + 1, count, data))
            written += count
            delays.append(time.perf_counter() - start)
        delays.sort()
        rows.append({
            "storage": name, "batch": count, "entries_s": count * len(delays) / sum(delays),
            "p50": delays[len(delays) // 2], "p99": delays[len(delays) * 99 // 100],
        })  # fmt: skip
    while written * SIZE < recovered:
        bench.append(batch(written + 1, 4096, data))
        written += 4096
    start = time.perf_counter()
    found = bench.recover()
    if found:
        rows.append({"storage": name, "recovery": (time.perf_counter() - start) * (100 << 20) / (written * SIZE)})
        assert found == written
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each size of batch (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="how often (default: %(default)s)")
    parser.add_argument("--recovered", type=int, default=RECOVERED, help="bytes in the log that is opened")
    parser.add_argument("--directory", type=Path, help="where to write (default: the system's place for such files)")
    parser.add_argument("--json", type=Path, help="write all rows there")
    parser.add_argument("--document", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    rows: list[Row] = []
    for run in range(options.runs):
        about = {"run": run, "idle_percent": wait_until_idle(IDLE_WAIT)}
        for name in [name for name in STORAGES if name != "LMDB" or find_spec("lmdb")]:
            with tempfile.TemporaryDirectory(prefix="glue-storage-", dir=options.directory) as folder:
                rows += [about | row for row in measure(name, Path(folder), options.seconds, options.recovered)]
    tables = {
        "storage appends": table(
            [row for row in rows if "batch" in row],
            (Column("storage", "storage"), Column("entries a sync", "batch")),
            (Column("entries/s", "entries_s"), Column("p50 ms", "p50", 1e3), Column("p99 ms", "p99", 1e3)),
        ),
        "storage recovery": table(
            [row for row in rows if "recovery" in row], (Column("storage", "storage"),),
            (Column("100 MB opened in s", "recovery"),),
        ),
    }  # fmt: skip
    tables = {
        name: f"{made}\n\n{provenance('benchmarks.storage', sys.argv[1:], rows)}" for name, made in tables.items()
    }
    print("\n\n".join(tables.values()))
    if options.json:
        save(options.json, sys.argv[1:], rows)
    if options.document:
        refresh(tables)


if __name__ == "__main__":
    main()
