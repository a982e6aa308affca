"""What a mounted door passes on, in both directions: to a plain server in place of the door."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from glue.gateway.http.asgi import Application
from glue.gateway.http.limits import MOUNTED
from tests.support.lan import PATIENCE

Handler = Callable[[Any], Awaitable[web.StreamResponse]]


class Client:
    """A client of the mounting server: what it sends, and what it gets."""

    def __init__(self, *said: tuple[bytes, bool]) -> None:
        """`said` are the parts of its body, each with whether more comes; then it waits until it is `gone`."""
        self.said = list(said)
        self.gone, self.asked = asyncio.Event(), 0
        self.got: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self.said:
            body, is_more = self.said.pop(0)
            return {"type": "http.request", "body": body, **({"more_body": True} if is_more else {})}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.got.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(one["body"] for one in self.got[1:])


def passed(handler: Handler, scope: dict[str, Any], client: Client, *then: Callable[[], Awaitable[None]]) -> None:
    """Let a server with this handler stand for the door, and pass one request on to it."""

    async def program() -> None:
        runner = web.ServerRunner(web.Server(handler, handler_cancellation=True))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        mounted = Application(SimpleNamespace(port=port))  # type: ignore[arg-type]
        plain = {"type": "http", "method": "GET", "path": "/", "headers": []}
        try:
            async with asyncio.timeout(PATIENCE):
                await mounted({**plain, **scope}, client.receive, client.send)
                for one in then:
                    await one()
        finally:
            await runner.cleanup()
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.sleep(0)
            assert all(task.done() for task in left), "nothing waits for the client any more"

    asyncio.run(program())


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"path": "/a b", "raw_path": b"/a%20b"}, "/a%20b"),
        ({"path": "/a/b", "raw_path": b""}, "/a/b"),
        ({"path": "/a/b"}, "/a/b"),
        ({"path": "/m/a", "raw_path": b"/m/%61%2Fb", "root_path": "/m"}, "/%61%2Fb"),
        ({"path": "/m/a", "root_path": "/m", "query_string": b"since=1%2B1&x=%23"}, "/a?since=1%2B1&x=%23"),
        ({"path": "/other/a", "root_path": "/m", "query_string": b""}, "/other/a"),
    ],
)  # fmt: skip
def test_a_path_goes_on_as_it_was_written_without_where_the_door_is_mounted(
    scope: dict[str, Any], expected: str
) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        assert request.headers[MOUNTED] == "1", "it has no rights of this machine"
        return web.Response(text="done")

    client = Client()
    passed(handle, scope, client)
    assert (asked, client.body) == ([expected], b"done")


def test_headers_go_on_but_those_of_the_connection() -> None:
    asked: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append((request.method, dict(request.headers), await request.read()))
        headers = {"X-Glue-Position": "ring.5", "Location": "/elsewhere", "content-encoding": "gzip"}
        return web.Response(status=307, body=gzip.compress(b"text"), headers=headers)

    scope = {
        "method": "PATCH",
        "headers": [
            (b"host", b"example.org"), (b"Connection", b"close"), (b"content-length", b"6"), (b"te", b"trailers"),
            (b"x-name", b"value"), (MOUNTED.encode(), b"0"),
        ],
    }  # fmt: skip
    client = Client((b"abc", True), (b"", True), (b"def", False), (b"of another request", False))
    passed(handle, scope, client)
    ((method, headers, body),) = asked
    assert (method, body) == ("PATCH", b"abcdef")
    told = {name.lower(): value for name, value in headers.items()}
    assert (told["host"], told["x-name"]) == ("example.org", "value")
    assert told[MOUNTED] in ("0", "1"), "whatever its client says"
    assert not {"te", "content-length"} & told.keys()
    assert told.get("connection") != "close"
    begin, *parts = client.got
    assert (begin["type"], begin["status"]) == ("http.response.start", 307), "the client follows, or does not"
    answered = dict(begin["headers"])
    assert (answered[b"x-glue-position"], answered[b"location"]) == (b"ring.5", b"/elsewhere")
    assert not {b"connection", b"content-length"} & answered.keys()
    assert gzip.decompress(client.body) == b"text", "packed as it was"
    assert {one["type"] for one in parts} == {"http.response.body"}
    assert [one["more_body"] for one in parts] == [True] * (len(parts) - 1) + [False]


@pytest.mark.parametrize("name", [b"content-length", b"Transfer-Encoding", b"x-other"])
def test_a_body_is_asked_for_where_a_header_tells_of_one(name: bytes) -> None:
    bodies: list[bytes] = []

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response()

    client = Client((b"body", False))
    passed(handle, {"method": "POST", "headers": [(b"x-first", b"1"), (name, b"4")]}, client)
    assert bodies == [b"" if name == b"x-other" else b"body"]
    assert client.got[1:] == [{"type": "http.response.body", "body": b"", "more_body": False}]


def test_a_stream_comes_piece_by_piece_until_its_client_is_gone() -> None:
    client, ended = Client(), asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for number in range(3):
                await response.write(b"%d\n" % number)
                while client.body.count(b"\n") <= number:
                    await asyncio.sleep(0)
            client.gone.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        return response

    async def wait() -> None:
        await ended.wait()

    passed(handle, {}, client, wait)
    assert client.body == b"0\n1\n2\n"
    assert all(one["more_body"] for one in client.got[1:]), "the answer did not end"


def test_an_answer_that_the_door_breaks_off_is_an_error_of_the_mounted_door() -> None:
    client = Client()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "9"})
        await response.prepare(request)
        await response.write(b"half")
        while client.body != b"half":
            await asyncio.sleep(0)
        assert request.transport is not None
        request.transport.abort()
        return response

    with pytest.raises(aiohttp.ClientError):
        passed(handle, {}, client)
    assert all(one["more_body"] for one in client.got[1:]), "the answer did not end"


def test_a_stream_that_the_server_ends_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Ended(Client):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if self.body and (request := asyncio.current_task()) is not None:
                request.cancel()

    client = Ended()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.Event().wait()
        return response

    with pytest.raises(asyncio.CancelledError):
        passed(handle, {}, client)
    gc.collect()  # then a task tells of an error that nobody asked for
    assert (client.body, caplog.messages) == (b"half", [])


def test_a_request_whose_client_goes_before_its_end_is_none() -> None:
    client, ended = Client((b"half", True)), list[Any]()
    client.gone.set()

    async def handle(request: web.Request) -> web.Response:
        try:
            ended.append(await request.read())
        except BaseException as error:
            ended.append(type(error))
            raise
        return web.Response()

    async def wait() -> None:
        while not ended:
            await asyncio.sleep(0)

    passed(handle, {"method": "POST", "headers": [(b"content-length", b"8")]}, client, wait)
    assert b"half" not in ended, "half a message is not published"
    assert client.got == []


def test_a_door_that_is_gone_is_told_to_the_server() -> None:
    async def program() -> None:
        client = Client()
        with pytest.raises(aiohttp.ClientConnectionError):
            await Application(SimpleNamespace(port=1))(  # type: ignore[arg-type]
                {"type": "http", "method": "GET", "path": "/", "headers": []}, client.receive, client.send
            )

    asyncio.run(program())
