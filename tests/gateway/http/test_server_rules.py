"""The server of an HTTP door over loopback: errors in one form, pages of other origins, and who is one too many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

import glue
from glue.errors import MinorityError
from glue.gateway.http import gateway as room
from glue.gateway.http import server
from glue.gateway.http.asgi import Application
from glue.gateway.http.gateway import Gateway
from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer, body_of
from glue.gateway.http.server import Server
from glue.gateway.http.sharing import ModelStore
from glue.gateway.http.store import FileStore, MemoryStore
from glue.gateway.http.tokens import EVERYTHING, Rights
from tests.gateway.http.asked import door
from tests.gateway.http.test_parts_of_doors import Model


async def whoever(made: Any, rights: Rights, request: Any) -> Any:
    """Say who asks, and with what."""
    return answer({"admin": rights.admin, "body": (await body_of(made, request)).decode()})


async def failing(made: Any, rights: Rights, request: Any) -> Any:
    """Fail as the query says."""
    kind = request.query["kind"]
    raise {
        "problem": ProblemError(409, "why", {"retry-after": "5"}, pointer="/x"), "full": ProblemError(503, "full"),
        "minority": MinorityError("no majority"), "value": ValueError("wrong"), "fault": KeyError("fault"),
    }[kind]  # fmt: skip


ROUTES = [
    Route("POST", "/who", whoever, ""), Route("GET", "/open", whoever, "", is_open=True),
    Route("PUT", "/open", whoever, "", is_open=True), Route("GET", "/fail", failing, ""),
]  # fmt: skip


def served(
    monkeypatch: pytest.MonkeyPatch, main: Callable[[Any, str, aiohttp.ClientSession], Awaitable[None]],
    cors: tuple[str, ...] = (), **limits: Any,
) -> Any:  # fmt: skip
    monkeypatch.setattr(server, "ROUTES", ROUTES)
    made = door(Limits(**limits))
    made.access.check = lambda: None

    async def program() -> None:
        shell = Server(made, cors)
        port = await shell.listen("127.0.0.1", 0, None)
        try:
            async with aiohttp.ClientSession() as session:
                await main(made, f"http://127.0.0.1:{port}", session)
        finally:
            await shell.close()
            await Server(made).close()

    asyncio.run(program())
    return made


def test_each_error_is_a_problem_in_words_and_refusals_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found: dict[str, Any] = {}

    async def main(made: Any, url: str, session: aiohttp.ClientSession) -> None:
        for kind in ("problem", "full", "minority", "value", "fault"):
            async with session.get(f"{url}/fail?kind={kind}") as reply:
                assert reply.content_type == "application/problem+json"
                assert reply.headers["server"] == f"glue/{glue.__version__}"
                found[kind] = reply.status, reply.headers.get("retry-after"), await reply.json(content_type=None)
        for method, path in (("DELETE", "/open"), ("GET", "/none")):
            async with session.request(method, url + path) as reply:
                found[path] = reply.status, reply.headers.get("allow"), (await reply.json(content_type=None))["detail"]

    made = served(monkeypatch, main)

    def problem(status: int, title: str, detail: str, **more: Any) -> dict[str, Any]:
        return {"title": title, "status": status, "detail": detail, **more}

    assert found == {
        "problem": (409, "5", problem(409, "Conflict", "why", pointer="/x")),
        "full": (503, None, problem(503, "Service Unavailable", "full")),
        "minority": (503, None, problem(503, "Service Unavailable", "no majority")),
        "value": (400, None, problem(400, "Bad Request", "wrong")),
        "fault": (500, None, problem(500, "Internal Server Error", "the door has a fault; its log tells more")),
        "/open": (405, "GET,PUT", "this path takes GET, PUT, and not DELETE"),
        "/none": (404, None, "there is no path '/none'; openapi.json lists all"),
    }  # fmt: skip
    assert made.told == ["127.0.0.1: full", "127.0.0.1: no majority"]
    assert [record.getMessage() for record in caplog.records if record.name == "glue.http"] == [
        "a request failed: GET /fail"
    ]


def test_routes_without_a_token_give_everything_to_readers_and_nothing_to_writers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(made: Any, url: str, session: aiohttp.ClientSession) -> None:
        asked: list[Any] = []

        def rights(*told: Any) -> Rights:
            asked.append(told)
            return Rights("x")

        made.access.rights = rights
        for method, path, admin in (("GET", "/open", True), ("PUT", "/open", False), ("POST", "/who", False)):
            async with session.request(method, url + path, data=b"body") as reply:
                assert await reply.json() == {"admin": admin, "body": "body"}
        assert asked == [(None, "", True)]
        made.access.rights = lambda *_: EVERYTHING
        async with session.post(f"{url}/who") as reply:
            assert (await reply.json())["admin"] is True

    served(monkeypatch, main)


def test_pages_of_other_origins_are_refused_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    panel, other = "http://panel.lan", "http://evil.example"
    fixed = {
        "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
        "access-control-allow-headers": (
            "authorization, content-type, idempotency-key, last-event-id, if-match, if-none-match"
        ),
        "access-control-max-age": "600",
    }

    async def main(made: Any, url: str, session: aiohttp.ClientSession) -> None:
        for origin, status in ((panel, 200), (url, 200), (other, 403)):
            async with session.get(f"{url}/open", headers={"origin": origin}) as reply:
                names = "access-control-allow-origin", "access-control-expose-headers", "vary"
                allowed = (panel, "etag, location, retry-after, x-glue-position", "origin")
                told = tuple(reply.headers.get(name) for name in names)
                assert (reply.status, told) == (status, allowed if origin == panel else (None, None, None))
        for origin, status in ((panel, 204), (other, 403)):
            async with session.options(f"{url}/open", headers={"origin": origin}) as reply:
                found = {name: reply.headers.get(name) for name in fixed}
                assert (reply.status, found) == (status, fixed if status == 204 else dict.fromkeys(fixed))

    made = served(monkeypatch, main, cors=(panel,))
    assert made.told == [f"127.0.0.1: pages of '{other}' may not call this door; --cors names those that may"]


def test_a_connection_too_many_is_closed_and_a_body_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(made: Any, url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(f"{url}/who", data=bytes(10)) as reply:
            assert reply.status == 200
        async with session.post(f"{url}/who", data=bytes(11)) as reply:
            assert (reply.status, (await reply.json(content_type=None))["detail"]) == (
                413, "a body has at most 10 bytes",
            )  # fmt: skip

        async def pieces() -> Any:
            for _ in range(3):
                yield bytes(5)

        async with session.post(f"{url}/who", data=pieces()) as reply:
            assert (reply.status, (await reply.json(content_type=None))["detail"]) == (
                413, "a body has at most 10 bytes",
            )  # fmt: skip
        opened = [await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])) for _ in range(3)]
        async with asyncio.timeout(10):
            assert await opened[-1][0].read() == b""
        for _, writer in opened:
            writer.close()

    made = served(monkeypatch, main, body=10, connections=2)
    assert made.statistics["connections refused: too many"] >= 1
    assert "connections refused: too many" in made.told


def test_a_body_that_does_not_arrive_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(made: Any, url: str, session: aiohttp.ClientSession) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"POST /who HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n\r\nab")
        async with asyncio.timeout(10):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()

    served(monkeypatch, main, request_time=0.001)


# ---------------------------------------------------------------------------------------------------------- gateway


class Network:
    """An endpoint of which the parts of a door ask nothing."""

    id, name, closed = "0" * 16, "door", False

    def __init__(self) -> None:
        self._core = SimpleNamespace(guard=None)
        self.kept: list[tuple[str, Any, Any]] = []

    async def keep(self, pattern: str, data_dir: Any, **limits: Any) -> Any:
        from glue.storage import MemoryLog

        self.kept.append((pattern, data_dir, limits))
        return SimpleNamespace(log=MemoryLog("log"), _watch=lambda watcher: None, close=lambda: None)


def test_a_gateway_takes_what_the_system_allows_and_closes_all_that_it_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    monkeypatch.setattr(room, "open_files", lambda: 128 + 100)
    caplog.set_level(logging.WARNING, "glue.http")

    async def program() -> None:
        network: Any = Network()
        given: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "keep": ["a/#"], "age": 5.0, "size": None}
        made = Gateway(
            network,
            data_dir=tmp_path / "door",
            limits=Limits(connections=150, attempts=50, idempotency_keys=7),
            **given,
        )
        async with made:
            assert (made.limits.connections, made.limits.attempts) == (75, 25)
            assert network.kept == [
                (pattern, tmp_path / "door" / "log", {"age": 5.0, "size": None}) for pattern in ("$dead/#", "a/#")
            ]
            assert made.port > 0
            assert made._guard.refusal("127.0.0.1", made.port) == f"127.0.0.1 port {made.port} is this door"
            assert made._guard.refusal("10.0.0.1", made.port) == ""
            assert (tmp_path / "door" / "idempotency").exists()
            assert made.door is not None
            assert made.door.feed.tail.id.startswith("00000000-")
            assert (made.door.idempotency._most, made.door.idempotency._seconds) == (7, 86_400.0)
            port = made.port
        assert made._closing == []
        closed = made.door
        assert closed is not None
        assert (closed.feed._is_closed, closed.idempotency._file) == (True, None)
        assert closed.delivering._sender._session.closed
        assert closed.delivering.is_owner("s"), "nobody shares its subscriptions"
        store = FileStore(tmp_path / "door")  # nobody else has it open
        store.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await made.close()
        assert Gateway(network).port == 8080
        other = Gateway(network, host="127.0.0.1", port=port)
        assert isinstance(other._open_store(), MemoryStore)
        assert other.access.rights(None, "", True) == EVERYTHING
        assert other.access.rights(None, "", False) is None
        async with other, asyncio.timeout(10):
            taken = Gateway(network, host="127.0.0.1", port=port)
            with pytest.raises(OSError, match="in use"):
                await taken.start()
            assert taken._closing == []

    asyncio.run(program())
    assert caplog.messages[0] == (
        "this process may open 228 files, so it takes 75 connections and makes 25 deliveries at a time; "
        "`ulimit -n` raises it"
    )


def test_a_door_of_several_shares_by_its_model_and_gives_back_its_parts() -> None:
    async def program() -> None:
        network: Any = Network()
        model: Any = Model()
        model.keys = {"http/topics/a/b": True}
        async with Gateway(network, host="127.0.0.1", port=0, shared=model) as made:
            assert made.door is not None
            assert isinstance(made.door.delivering.store, ModelStore)
            assert [pattern for pattern, *_ in network.kept] == ["$dead/#", "a/b"]
            assert model.watched == ["http/subscriptions/#", "http/topics/#"]
            assert not made.door.delivering.is_owner("s")
            await asyncio.sleep(0)
            assert len(model.asked) == 16
        assert model.closed == 2
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(program())


def test_a_mounted_door_answers_the_lifespan_and_closes_websockets() -> None:
    sent: list[Any] = []
    received = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return received.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    async def program() -> None:
        made = Application(SimpleNamespace(port=1))  # type: ignore[arg-type]
        await made({"type": "lifespan"}, receive, send)
        await made({"type": "websocket"}, receive, send)

    asyncio.run(program())
    assert sent == [
        {"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"},
        {"type": "websocket.close", "code": 1000},
    ]  # fmt: skip
