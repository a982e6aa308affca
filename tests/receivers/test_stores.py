"""Stores of receivers' state: SQLite, Redis, one by an entry point, and one that fails."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glue
from glue.endpoint.stores import open_store
from glue.receivers import Store
from glue.receivers.store import Document
from tests.support.lan import PATIENCE, Ear, Lan


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis server of its own."""
    server = shutil.which("redis-server")
    if server is None and os.environ.get("CI") != "true":
        pytest.skip("redis-server is missing (on Debian: apt-get install redis-server)")
    assert server is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def check_store(url: str) -> None:
    """A store keeps documents, knows timers, and refuses a former owner."""
    store = open_store(url)
    assert store is not None
    assert store.claim("k", 3, 5) == []
    assert store.load("k", 3, "x") is None
    store.save("k", 3, "x", 5, {"state": {"a": 1}}, True)
    assert store.load("k", 3, "x") == {"state": {"a": 1}}
    assert store.claim("k", 3, 6) == ["x"]
    with pytest.raises(glue.FencedError):
        store.save("k", 3, "x", 5, {"state": {}}, False)
    with pytest.raises(glue.FencedError):
        store.claim("k", 3, 5)
    store.save("k", 3, "x", 6, {"state": {"a": 2}}, False)
    assert store.claim("k", 3, 6) == []
    assert store.load("k", 3, "x") == {"state": {"a": 2}}
    assert store.load("k", 4, "x") is None
    store.close()


def test_sqlite_keeps_state_and_fences(tmp_path: Path) -> None:
    check_store(f"sqlite:{tmp_path / 'state.db'}")
    with pytest.raises(glue.StorageError):
        open_store(f"sqlite:{tmp_path / 'no' / 'state.db'}")


def test_redis_keeps_state_and_fences(redis_url: str) -> None:
    check_store(redis_url)


def count(context: glue.Context, message: Any) -> Any:
    """Count in the state."""
    context.state["n"] = context.state.get("n", 0) + 1
    return context.state["n"]


def test_two_hosts_share_state_in_redis(lan: Lan, redis_url: str) -> None:
    a, b = lan.pair()
    kinds = [
        host.receivers("count", count, model=host.model("plant", voters=2, election_timeout=0.1), store=redis_url)
        for host in (a, b)
    ]
    c = lan.start("c")
    assert [c.ask(f"count/{number}", 0, PATIENCE) for number in range(8)] == [1] * 8
    assert kinds[0].close(PATIENCE)
    assert [c.ask(f"count/{number}", 0, PATIENCE) for number in range(8)] == [2] * 8
    with pytest.raises(glue.StorageError):
        open_store("redis://127.0.0.1:1/0")


THIRD_PARTY = """
class Store:
    def __init__(self, rest):
        self.rest, self.documents, self.epochs = rest, {}, {}
    def claim(self, kind, partition, epoch):
        self.epochs[kind, partition] = epoch
        return []
    def load(self, kind, partition, id):
        return self.documents.get(id)
    def save(self, kind, partition, id, epoch, document, has_timers):
        self.documents[id] = document
    def close(self):
        self.documents.clear()
"""


def test_a_third_party_store_is_found_by_its_entry_point(
    lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shelf_of_others.py").write_text(THIRD_PARTY)
    metadata = tmp_path / "shelf_of_others-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-of-others\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[glue.stores]\nshelf = shelf_of_others:Store\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    a = lan.start("a")
    a.receivers("count", count, model=a.model("plant", voters=1, election_timeout=0.1), store="shelf:top")
    assert [a.ask("count/x", 0, PATIENCE) for _ in range(2)] == [1, 2]
    with pytest.raises(glue.ConfigurationError, match="entry point"):
        open_store("drawer:top")


class Moody:
    """A store in memory that fails as often as it is told."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.failures = 0
        self.error: Exception = OSError("the disk is away")

    def claim(self, kind: str, partition: int, epoch: int) -> list[str]:
        return []

    def load(self, kind: str, partition: int, id: str) -> Document | None:
        return self.documents.get(id)

    def save(self, kind: str, partition: int, id: str, epoch: int, document: Document, has_timers: bool) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.documents[id] = document

    def close(self) -> None:
        pass


def test_messages_wait_while_a_store_fails_and_keep_their_order(lan: Lan) -> None:
    a, b = lan.pair()
    store: Store = Moody()
    assert isinstance(store, Moody)

    def note(context: glue.Context, message: Any) -> Any:
        context.state["seen"] = [*context.state.get("seen", []), message]
        return context.state["seen"]

    a.receivers("list", note, model=a.model("plant", voters=1, election_timeout=0.1), store=store)
    assert a.ask("list/a", 0, PATIENCE) == [0]
    assert b.ask("list/b", 0, PATIENCE) == [0]
    for endpoint, address in ((a, "list/a"), (b, "list/b")):
        store.failures = 2
        for number in range(1, 5):
            endpoint.send(address, number)
        assert endpoint.ask(address, 5, PATIENCE) == [0, 1, 2, 3, 4, 5]
    store.failures, store.error = 1, ValueError("no such document")  # which would fail again
    with pytest.raises(glue.RemoteError, match="no such document"):
        b.ask("list/b", 6, PATIENCE)
    assert b.ask("list/b", 7, PATIENCE)[-2:] == [5, 7]


def test_a_failing_message_is_dropped_or_parked_and_a_durable_timer_does_not_fail_for_ever(lan: Lan) -> None:
    a = lan.start("a")
    letters = Ear()
    a.subscribe("dead", letters)

    class Failing(glue.Receiver):
        on_error = "park"

        def receive(self, context: glue.Context, message: Any) -> Any:
            match message:
                case "begin":
                    context.after(0.01, {"bad": True}, durable=True)
                case {"bad": _}:
                    context.state["half"] = 1
                    raise ValueError("bad")
                case "half":
                    return context.state.get("half")
            return None

    store = Moody()
    a.receivers("f", Failing, model=a.model("plant", voters=1, election_timeout=0.1), store=store, dead_letters="dead")
    assert a.ask("f/1", "begin", PATIENCE) is None
    letters.wait(1)
    letter = letters.heard[0].payload
    assert letter == {"receiver": "f/1", "error": "ValueError", "message": "bad", "payload": {"bad": True}}
    assert a.ask("f/1", "half", PATIENCE) is None
    assert not store.documents["1"].get("timers")
    assert a.statistics["endpoint"]["messages parked"] == 1
