"""The bounds of a door: connections that do nothing, files of the process, schemas; and its client for programs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from glue import errors
from glue.gateway.http import (
    destinations,
    lanes,
    publishing,
    resources,
    server,
    sources,
    streaming,
    topics,
    typed,
    webhook,
)
from glue.gateway.http.client import Client, _checked, _path
from glue.gateway.http.limits import Limits, fitted
from glue.gateway.http.server import Server
from glue.gateway.http.typed import address_of, content_type, referring
from glue.gateway.refusals import Refusals
from glue.schema import PUBLISH, AnnouncedType


def door(limits: Limits) -> Any:
    """A door as its server sees it."""
    access = SimpleNamespace(check=lambda: None)
    return SimpleNamespace(access=access, limits=limits, statistics=Counter(), refusals=Refusals(lambda text: None))


class Handler:
    """A connection, as aiohttp has it."""

    def __init__(self, waiting: int = 0, requests: int = 0) -> None:
        self.waiting, self._request_count, self.is_cut = waiting, requests, False
        self._current_request: object = None
        self.transport: Any = SimpleNamespace(get_write_buffer_size=lambda: self.waiting, abort=self.abort)

    def abort(self) -> None:
        self.is_cut = True


def test_a_connection_is_cut_that_reads_nothing_for_the_time_of_a_stream() -> None:
    made: Any = Server.__new__(Server)
    made._door = door(Limits(send_time=30.0))
    slow, stuck, still, idle, gone = Handler(100), Handler(100), Handler(100), Handler(0), Handler(100)
    gone.transport = None
    made._runner = SimpleNamespace(server=SimpleNamespace(connections=[slow, stuck, still, idle, gone]))
    made._unread = {}
    for now in (0.0, 20.0, 30.0):
        made._cut_suspended(now)
        slow.waiting -= 10
        stuck.waiting += 10
    assert not stuck.is_cut
    assert not still.is_cut
    made._cut_suspended(30.5)
    assert (slow.is_cut, stuck.is_cut, still.is_cut, idle.is_cut) == (False, True, True, False)
    assert made._door.statistics == {"connections cut: the client read nothing": 2}
    assert [*made._unread] == [slow]


def test_a_connection_without_a_request_is_closed_after_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP", 0.0)
    checks: list[int] = []

    async def program() -> None:
        made: Any = Server.__new__(Server)
        made._door = door(Limits())
        made._door.access.check = lambda: checks.append(1)
        now = asyncio.get_running_loop().time()
        young, old, busy, gone, shaking, slow = (Handler(requests=count) for count in (0, 0, 1, 0, 0, 0))
        slow._current_request = object()  # its first one, whose body is on its way
        gone.transport = shaking.transport = None
        made._young = {
            young: now - 9.0,
            old: now - 10.1,
            busy: now,
            gone: now - 20.0,
            shaking: now - 15.0,
            slow: now - 20,
        }
        made._runner = SimpleNamespace(server=SimpleNamespace(connections=[]))
        made._unread = {}
        task = asyncio.create_task(made._sweep())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        assert [*made._young] == [young, shaking], "a handshake that lasts does not end the watch"
        assert [one.is_cut for one in (young, old, busy, slow)] == [False, True, False, False]
        assert made._door.statistics == {"connections closed: no request came": 1}

    asyncio.run(program())
    assert len(checks) > 1


def test_the_files_of_a_process_are_shared_by_connections_and_deliveries() -> None:
    limits = Limits(connections=3_000, attempts=1_000, doubtful=5)
    assert fitted(limits, 4_000 + 128) is limits
    small = fitted(limits, 4_000 + 127)
    assert (small.connections, small.attempts, small.doubtful) == (2_999, 1_000, 5)


def test_a_client_names_paths_and_reasons() -> None:
    assert _path("topics", "a/ü b#") == "/v1/topics/a/%C3%BC%20b%23"
    assert _path("topics", "a", {"since": "1h", "limit": 5}) == "/v1/topics/a?since=1h&limit=5"

    def answer(status: int, kind: str | None, reason: str = "Gone") -> Any:
        return SimpleNamespace(status=status, reason=reason, getheader=lambda name: kind)

    assert _checked(answer(200, "application/json"), b'{"a":1}') == {"a": 1}
    assert _checked(answer(200, "application/json"), b"") == b""
    assert _checked(answer(399, None), b"{}") == b"{}"
    for kind, text, reason in [
        ("application/problem+json", b'{"detail":"why"}', "why"), ("application/json", b"{", "Gone"),
        ("application/json", b"{}", "Gone"), ("application/json", b"[]", "Gone"), (None, b'{"detail":"why"}', "Gone"),
    ]:  # fmt: skip
        with pytest.raises(OSError, match=f"400: {reason}"):
            _checked(answer(400, kind), text)
    for wrong in ("ftp://a", "http://", "a"):
        with pytest.raises(errors.ConfigurationError):
            Client(wrong)


def test_a_schema_is_bounded_and_its_references_stay_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = "end"
    for _ in range(typed.DEPTH):
        deep = [deep]
    assert referring(deep, "k", {}) == deep
    assert referring([deep], "k", {}) != [deep]
    nested: Any = "end"
    for _ in range(typed.DEPTH):
        nested = {"a": nested}
    assert referring(nested, "k", {}) == nested
    assert referring({"a": nested}, "k", {}) != {"a": nested}
    names = {"a": "k.0_a"}
    for target, expected in [
        ("#", "#/components/schemas/k"), ("#/$defs/a", "#/components/schemas/k.0_a"),
        ("#/definitions/a", "#/components/schemas/k.0_a"), ("#/$defs/b", None), ("http://x", None),
        ("#/$defs/a/b", None),
    ]:  # fmt: skip
        assert referring({"$ref": target}, "k", names) == ({} if expected is None else {"$ref": expected})
    assert address_of("a/+/#") == {
        "address": "a/{level2}/{level3}", "x-glue-pattern": "a/+/#",
        "parameters": {
            "level2": {"description": "one level"}, "level3": {"description": "all further levels, or none"},
        },
    }  # fmt: skip
    assert address_of("a/b") == {"address": "a/b"}
    assert [address_of(pattern)["address"] for pattern in ("a/#", "#", "+/b")] == [
        "a/{level2}",
        "{level1}",
        "{level1}/b",
    ]
    for pattern in ("a/{b", "a/b}"):
        assert address_of(pattern) == {"address": None, "x-glue-pattern": pattern}
    assert [content_type(one) for one in ({"properties": {"a": {"number": 1}}}, {"title": "numpy.ndarray"}, {})] == [
        "application/x-protobuf", "application/octet-stream", "application/json",
    ]  # fmt: skip
    made = typed.Description()
    monkeypatch.setattr(typed, "SIZE", 9)
    for number, schema in enumerate((b'{"a":1}', b'{"a":12}', b"{}", b"{ }", None)):
        kind = AnnouncedType(PUBLISH, f"T{number}", "0" * 8, "t")
        made.add("kitchen", kind, schema)
        made.add("kitchen", kind, schema)
    found = made.document()
    assert [*found["components"]["schemas"]] == ["T0_00000000", "T2_00000000"]
    assert found["channels"]["t"]["x-glue-endpoints"] == ["kitchen"]
    assert len(found["operations"]["send_t"]["messages"]) == 5
    assert found["channels"]["t"]["messages"]["T1_00000000"] == {"name": "T1", "x-glue-schema-hash": "0" * 8}


def test_what_a_door_remembers_and_how_long_it_waits_is_bounded() -> None:
    assert (destinations.REMEMBERED, lanes.STREAMS, sources.STREAMS) == (10_000, 1_024, 1_024), "entries of tables"
    assert (lanes.KEPT_PAYLOAD, typed.SIZE, webhook.BODY_LIMIT) == (1_024, 4 << 20, 256 << 20), "bytes"
    assert (topics.LINES, resources.LETTERS, typed.TOPICS, streaming.PATTERNS) == (10_000, 1_000, 2_000, 100)
    assert (server.SWEEP, publishing.ACKS_TIME, webhook.TIMEOUT, sources.SETTLED) == (2.0, 10.0, 15.0, 5.0), "seconds"


def test_malformed_requests_are_not_logged() -> None:
    assert not server.malformed.isEnabledFor(logging.ERROR)
