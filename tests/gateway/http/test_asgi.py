"""The door mounted in another server: what comes by ASGI is passed on, and has no rights of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from aiohttp import web
from yarl import URL

import glue.aio
from glue.gateway.http.asgi import Application, _place
from glue.gateway.http.gateway import Gateway
from glue.gateway.http.limits import MOUNTED
from glue.gateway.http.tokens import Access, add_token
from tests.support.lan import PATIENCE, Lan

Told = list[dict[str, Any]]


async def call(
    application: Application, method: str, path: str, body: bytes | None = None, token: str = "", until: bytes = b"",
    version: str = "1.1",
) -> tuple[int, bytes]:  # fmt: skip
    """Call an application as a server does; with `until`, the client goes once it has got this."""
    headers = [(b"host", b"example.org")]
    if token:
        headers.append((b"authorization", b"Bearer " + token.encode()))
    if body is not None and version == "1.1":
        headers.append((b"content-length", b"%d" % len(body)))
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": f"/mounted{path}", "raw_path": f"/mounted{path}".encode(),
        "root_path": "/mounted", "query_string": query.encode(), "headers": headers, "http_version": version,
    }  # fmt: skip
    told: Told = []
    gone = asyncio.Event()
    waiting = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        told.append(message)
        if until and until in message.get("body", b""):
            gone.set()

    async with asyncio.timeout(PATIENCE):
        await application(scope, receive, send)
    return told[0]["status"], b"".join(message.get("body", b"") for message in told)


def test_requests_and_streams_are_passed_on(lan: Lan, tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens", "a", ["t/#"], ["t/#"])

    async def program() -> None:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            Gateway(endpoint, host="127.0.0.1", port=0, access=Access(tmp_path / "tokens")) as gateway,
        ):
            mounted = Application(gateway)
            status, answer = await call(mounted, "POST", "/v1/topics/t/x?retain=1", b"on", token)
            assert (status, orjson.loads(answer)["acks"]) == (202, "sent")
            assert (await call(mounted, "GET", "/v1/topics/t/x?raw=1", None, token)) == (200, b"on")
            status, _ = await call(mounted, "POST", "/v1/topics/t/x?retain=1", b"off", token, version="2")
            assert status == 202
            for version in ("1.1", "2"):
                told = await call(mounted, "GET", "/v1/topics/t/x?raw=1", None, token, version=version)
                assert told == (200, b"off"), "HTTP/2 needs no header to have a body"
            assert (await call(mounted, "GET", "/v1/status"))[0] == 401
            stream = asyncio.create_task(call(mounted, "GET", "/v1/stream?topic=t/y&stream=1", None, token, b"t/y"))
            while not endpoint._core.is_done or gateway.door is None or not gateway.door.streams:
                await asyncio.sleep(0)
            await call(mounted, "POST", "/v1/topics/t/y", b"now", token)
            assert b'"topic":"t/y"' in (await stream)[1]

    asyncio.run(program())


@pytest.mark.parametrize(
    ("scope", "place"),
    [
        ({"raw_path": b"/m/t/a%2Fb", "path": "/m/t/a/b", "root_path": "/m"}, "/t/a%2Fb"),
        ({"raw_path": b"/m/t", "query_string": b"q=%C3%BC&r=a+b"}, "/m/t?q=%C3%BC&r=a+b"),
        ({"path": "/t/k\u00fcche 1", "query_string": b""}, "/t/k%C3%BCche%201"),  # the path is decoded without raw_path
        ({"path": "/t/100%/a?b", "raw_path": None}, "/t/100%25/a%3Fb"),
        ({"raw_path": b"/m%C3%BC/t", "root_path": "/m\u00fc"}, "/t"),
        ({"raw_path": b"/t/\xc3\xbc", "query_string": b"q=\xff"}, "/t/%C3%BC?q=%FF"),
        ({"raw_path": b"/a/m", "root_path": "/m"}, "/a/m"),
        ({"raw_path": b"/m/t", "root_path": "/m/"}, "/t"),
        ({"raw_path": b"/m", "root_path": "/m"}, "/"),
        ({"raw_path": b"@example.org/t", "path": "@example.org/t"}, "/@example.org/t"),
        ({"raw_path": b"/m/@example.org/t", "root_path": "/m"}, "/@example.org/t"),
        ({"raw_path": b"/m@example.org/t", "root_path": "/m"}, "/m@example.org/t"),
        ({"raw_path": b"/%6D-%c3%bc/t%2f", "root_path": "/m-\u00fc"}, "/t%2f"),
        ({"raw_path": b"/m/n/t", "root_path": "/m/n"}, "/t"),
        ({"raw_path": b"/m//t", "root_path": "/m"}, "//t"),
        ({"raw_path": b"//t"}, "//t"),
        ({"raw_path": b"1/t", "path": "1/t"}, "/1/t"),
        ({"raw_path": b"http://example.org/t"}, "/http://example.org/t"),
    ],
)
def test_a_place_is_the_same_behind_the_mount(scope: dict[str, Any], place: str) -> None:
    assert _place(scope) == place
    target = URL(f"http://127.0.0.1:80{place}", encoded=True)
    assert (target.host, target.port) == ("127.0.0.1", 80)


def test_headers_go_on_as_they_came() -> None:
    got: list[tuple[bytes, bytes]] = []

    async def echo(request: web.Request) -> web.Response:
        got.extend(request.raw_headers)
        return web.Response(headers={"x-answer": "gr\u00fcn"})

    async def program() -> list[Any]:
        server = web.Application()
        server.router.add_get("/", echo)
        runner = web.AppRunner(server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        told: list[Any] = []

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            told.append(message)

        try:
            mounted: Any = Application(cast(Any, SimpleNamespace(port=runner.addresses[0][1])))
            headers = [
                (b"x-utf", "gr\u00fcn".encode()), (b"x-latin", b"gr\xfcn"), (b"x-two", b"1"), (b"x-two", b"2"),
                (b"TE", b"trailers"), (b"keep-alive", b"timeout=5"),
            ]  # fmt: skip
            await mounted({"type": "http", "method": "GET", "path": "/", "headers": headers}, receive, send)
        finally:
            await runner.cleanup()
        return told

    told = asyncio.run(program())
    assert [one for one in got if one[0].lower().startswith(b"x-")] == [
        (b"x-utf", "gr\u00fcn".encode()), (b"x-latin", "gr\u00fcn".encode()), (b"x-two", b"1"), (b"x-two", b"2"),
        (MOUNTED.encode(), b"1"),
    ]  # fmt: skip
    assert {b"te", b"keep-alive"}.isdisjoint(name.lower() for name, _ in got)
    assert (b"x-answer", "gr\u00fcn".encode()) in told[0]["headers"]
    assert [message.get("more_body") for message in told] == [None, False]


def test_a_client_that_was_passed_on_is_not_of_this_machine(lan: Lan) -> None:
    async def program() -> None:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            Gateway(endpoint, host="127.0.0.1", port=0) as gateway,
        ):
            assert (await call(Application(gateway), "GET", "/v1/status"))[0] == 401

    asyncio.run(program())
