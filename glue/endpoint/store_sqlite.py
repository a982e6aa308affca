"""Receivers' state in a SQLite file, which the processes of one machine may share."""

from __future__ import annotations

import sqlite3
import threading

import orjson

from glue.errors import ConfigurationError, StorageError
from glue.receivers.store import Document, FencedError

TABLES = """
CREATE TABLE IF NOT EXISTS epochs (kind TEXT, part INTEGER, epoch INTEGER, PRIMARY KEY (kind, part));
CREATE TABLE IF NOT EXISTS states (kind TEXT, part INTEGER, id TEXT, document BLOB, timed INTEGER,
                                   PRIMARY KEY (kind, part, id));
"""
BUSY = 10.0
"""Seconds to wait for another process that writes."""


class SqliteStore:
    """A store in one file; each save is synced to the disk."""

    def __init__(self, path: str) -> None:
        """Raises StorageError."""
        if not path:
            raise ConfigurationError("store='sqlite:': expected sqlite:PATH")
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(path, timeout=BUSY, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(TABLES)
        except sqlite3.Error as error:
            raise StorageError(f"store {path!r}: {error}") from error

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        """See `glue.receivers.Store`."""
        with self._lock, self._transaction(kind, partition, epoch):
            self._database.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (kind, partition, epoch))
            rows = self._database.execute(
                "SELECT id FROM states WHERE kind = ? AND part = ? AND timed", (kind, partition)
            )
            return [row[0] for row in rows.fetchall()]

    def load(self, kind: str, partition: int, id: str) -> Document | None:
        """See `glue.receivers.Store`."""
        with self._lock:
            row = self._database.execute(
                "SELECT document FROM states WHERE kind = ? AND part = ? AND id = ?", (kind, partition, id)
            ).fetchone()
        return None if row is None else orjson.loads(row[0])

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Document, has_timers: bool) -> None:
        """See `glue.receivers.Store`."""
        row = kind, partition, id, orjson.dumps(document), int(has_timers)
        with self._lock, self._transaction(kind, partition, epoch):
            self._database.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?)", row)

    def _transaction(self, kind: str, partition: int, epoch: int) -> _Transaction:
        return _Transaction(self._database, kind, partition, epoch)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


class _Transaction:
    """A transaction that is refused if a higher epoch was noted."""

    def __init__(self, database: sqlite3.Connection, kind: str, partition: int, epoch: int) -> None:
        self._database = database
        self._key = kind, partition
        self._epoch = epoch

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            row = self._database.execute("SELECT epoch FROM epochs WHERE kind = ? AND part = ?", self._key).fetchone()
            if row is not None and row[0] > self._epoch:
                raise FencedError.of(*self._key, row[0])
        except BaseException:
            self._roll_back()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._roll_back()
            return
        try:
            self._database.execute("COMMIT")
        except BaseException:  # such as a full disk: the next transaction is not to find this one open
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._database.in_transaction:  # SQLite rolls some errors back by itself
            self._database.execute("ROLLBACK")
