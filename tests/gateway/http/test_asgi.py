"""The door mounted in another server: what comes by ASGI is passed on, and has no rights of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson

import glue.aio
from glue.gateway.http.asgi import Application
from glue.gateway.http.gateway import Gateway
from glue.gateway.http.tokens import Access, add_token
from tests.support.lan import PATIENCE, Lan

Told = list[dict[str, Any]]


async def call(
    application: Application, method: str, path: str, body: bytes | None = None, token: str = "", until: bytes = b""
) -> tuple[int, bytes]:
    """Call an application as a server does; with `until`, the client goes once it has got this."""
    headers = [(b"host", b"example.org")]
    if token:
        headers.append((b"authorization", b"Bearer " + token.encode()))
    if body is not None:
        headers.append((b"content-length", b"%d" % len(body)))
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": f"/mounted{path}", "raw_path": f"/mounted{path}".encode(),
        "root_path": "/mounted", "query_string": query.encode(), "headers": headers,
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
            assert (await call(mounted, "GET", "/v1/status"))[0] == 401
            stream = asyncio.create_task(call(mounted, "GET", "/v1/stream?topic=t/y&stream=1", None, token, b"t/y"))
            while not endpoint._core.is_done or gateway.door is None or not gateway.door.streams:
                await asyncio.sleep(0)
            await call(mounted, "POST", "/v1/topics/t/y", b"now", token)
            assert b'"topic":"t/y"' in (await stream)[1]

    asyncio.run(program())


def test_a_client_that_was_passed_on_is_not_of_this_machine(lan: Lan) -> None:
    async def program() -> None:
        async with (
            glue.aio.Endpoint("door", **lan.settings) as endpoint,
            Gateway(endpoint, host="127.0.0.1", port=0) as gateway,
        ):
            assert (await call(Application(gateway), "GET", "/v1/status"))[0] == 401

    asyncio.run(program())
