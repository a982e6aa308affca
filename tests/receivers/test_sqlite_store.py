"""The store of receivers' state in a SQLite file: what it keeps apart, what it refuses, and what stays after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.endpoint import receiver_methods
from glue.endpoint.receiver_methods import ReceiverParts
from glue.endpoint.store_sqlite import SqliteStore
from glue.errors import ConfigurationError, StorageError
from glue.receivers.store import FencedError
from tests.receivers.desk import Desk


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    made = SqliteStore(path)
    yield made
    made.close()


def test_documents_are_kept_apart_by_kind_partition_and_id(store: SqliteStore) -> None:
    places = [(kind, part, id) for kind in "ab" for part in (0, 1) for id in "xy"]
    for number, (kind, part, id) in enumerate(places):
        store.save(kind, part, id, 1, {"n": number}, has_timers=id == "y" and part == 1)
    assert [store.load(*place) for place in places] == [{"n": number} for number in range(8)]
    assert [store.claim(kind, part, 1) for kind in "ab" for part in (0, 1)] == [[], ["y"], [], ["y"]]
    store.save("a", 1, "y", 1, {"n": 9}, has_timers=False)
    assert (store.claim("a", 1, 1), store.load("a", 1, "y"), store.load("a", 2, "y")) == ([], {"n": 9}, None)


def test_a_former_owner_is_refused_and_told_of_the_newest_epoch(store: SqliteStore) -> None:
    assert store.claim("a", 3, 5) == []
    store.save("a", 3, "x", 5, {"n": 1}, True)
    store.save("a", 3, "x", 6, {"n": 2}, True)  # of an owner whose claim came elsewhere
    for call in (
        lambda: store.claim("a", 3, 4),
        lambda: store.save("a", 3, "x", 4, {"n": 3}, False),
    ):
        with pytest.raises(FencedError, match="partition 3 of 'a' has a newer owner, of epoch 5") as caught:
            call()
        assert caught.value.epoch == 5
    assert (store.load("a", 3, "x"), store.claim("a", 3, 5)) == ({"n": 2}, ["x"])
    assert store.claim("a", 4, 1) == store.claim("b", 3, 1) == []


def test_two_processes_share_a_file(store: SqliteStore, path: str) -> None:
    other = SqliteStore(path)
    store.claim("a", 0, 1)
    store.save("a", 0, "x", 1, {"n": 1}, True)
    assert other.claim("a", 0, 2) == ["x"]
    with pytest.raises(FencedError):
        store.save("a", 0, "x", 1, {"n": 2}, True)
    other.close()
    assert store.load("a", 0, "x") == {"n": 1}


def test_what_fails_within_a_call_leaves_nothing_half_done(store: SqliteStore, path: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TRIGGER no BEFORE INSERT ON states BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(sqlite3.Error, match="no"):
        store.save("a", 0, "x", 1, {"n": 1}, True)
    with sqlite3.connect(path) as database:
        database.execute("DROP TRIGGER no")
    database.close()
    store.save("a", 0, "x", 1, {"n": 2}, True)
    assert store.load("a", 0, "x") == {"n": 2}


@pytest.mark.parametrize("failing", ["COMMIT", "SELECT epoch"])
def test_after_an_error_of_the_disk_the_next_call_works(store: SqliteStore, path: str, failing: str) -> None:
    class Full(sqlite3.Connection):
        is_full = True

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if self.is_full and sql.startswith(failing):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *parameters)

    store.close()
    database = sqlite3.connect(path, factory=Full, isolation_level=None)
    store._database = database
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.save("a", 0, "x", 1, {"n": 1}, False)
    database.is_full = False
    assert store.load("a", 0, "x") is None
    store.save("a", 0, "x", 1, {"n": 2}, False)
    assert store.load("a", 0, "x") == {"n": 2}


def test_each_save_is_synced_to_the_disk(store: SqliteStore) -> None:
    pragmas = [store._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]  # 2 is FULL


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected sqlite:PATH"):
        SqliteStore("")
    wrong = tmp_path / "text.db"
    wrong.write_text("this is no database, but a text that is long enough for a header" * 9)
    with pytest.raises(StorageError, match=r"text\.db"):
        SqliteStore(str(wrong))


def test_a_kind_that_is_hosted_already_leaves_no_store_open(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SqliteStore] = []

    def open_one(store: str) -> SqliteStore:
        made.append(SqliteStore(store))
        return made[-1]

    monkeypatch.setattr(receiver_methods, "open_store", open_one)
    parts = ReceiverParts.__new__(ReceiverParts)
    parts._core = SimpleNamespace(settings=SimpleNamespace(storage_key=None))  # type: ignore[assignment]
    parts.runtime = Desk().runtime

    def host() -> None:
        parts.add_kind("sum", lambda context, message: None, 2, "", "plant", path, 1.0, None, ())

    host()
    with pytest.raises(ConfigurationError, match="hosted here already"):
        host()
    first, second = made
    assert first.load("a", 0, "x") is None
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        second.load("a", 0, "x")
    first.close()
