"""Connections of a door's server: how many, how long, and how they end."""

from __future__ import annotations

import asyncio
import gzip
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from glue.gateway.http import server
from glue.gateway.http.limits import Limits
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.routes import Route, answer, body_of
from glue.gateway.http.server import Server
from glue.gateway.http.tokens import Rights
from tests.gateway.http.asked import door
from tests.support.lan import PATIENCE

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Program = Callable[[Any, Server, int], Awaitable[None]]


async def echo(made: Any, rights: Rights, request: Any) -> Any:
    """Give the body back."""
    return answer({"body": (await body_of(made, request)).hex()})


async def refuse(made: Any, rights: Rights, request: Any) -> Any:
    """Refuse with the status of the query."""
    raise ProblemError(int(request.query["status"]), request.query["status"])


async def hang(made: Any, rights: Rights, request: Any) -> Any:
    """Answer nothing."""
    made.hanging.append("begun")
    try:
        await asyncio.Event().wait()
    finally:
        made.hanging.append("ended")


ROUTES = [
    Route("POST", "/echo", echo, "", is_open=True), Route("GET", "/hang", hang, "", is_open=True),
    Route("GET", "/refuse", refuse, "", is_open=True),
]  # fmt: skip


def served(monkeypatch: pytest.MonkeyPatch, program: Program, **limits: Any) -> Any:
    """Run a program with a server on loopback."""
    monkeypatch.setattr(server, "ROUTES", ROUTES)
    made = door(Limits(**limits), hanging=[], writers=[])
    made.access.check = lambda: None

    async def run() -> None:
        shell = Server(made)
        port = await shell.listen("127.0.0.1", 0, None)
        try:
            async with asyncio.timeout(PATIENCE):
                await program(made, shell, port)
                await shell.close()
        finally:
            await shell.close()
            for writer in made.writers:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "glue" in task.get_name()]

    asyncio.run(run())
    return made


async def connect(made: Any, port: int) -> Link:
    """Open a connection, which is closed in the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    made.writers.append(writer)
    return reader, writer


async def ask(link: Link, line: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Send a request on a connection; its status and body, or 0 if the connection is closed."""
    reader, writer = link
    told = {"host": "127.0.0.1", "content-length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    writer.write(f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body)
    begin = await reader.readline()
    length = 0
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(": ")
        length = int(value) if name.lower() == "content-length" else length
    return int(begin.split()[1]) if begin else 0, await reader.readexactly(length)


def test_exactly_as_many_connections_are_taken_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        links = [await connect(made, port) for _ in range(2)]
        assert [(await ask(link, "POST /echo"))[0] for link in links] == [200, 200]
        for number in range(1, 3):
            reader, _ = await connect(made, port)
            assert await reader.read() == b""
            assert made.statistics == {"connections refused: too many": number}
        assert made.told == ["connections refused: too many"], "a cause is told once"

    served(monkeypatch, program, connections=2)


def test_a_connection_on_which_nothing_comes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP", 0.0)
    monkeypatch.setattr(server, "FIRST_REQUEST", 0.05)

    async def program(made: Any, shell: Server, port: int) -> None:
        looked: list[float] = []
        monkeypatch.setattr(shell, "_cut_suspended", looked.append)
        reader, _ = await connect(made, port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert made.statistics == {"connections closed: no request came": 1}
        assert looked
        assert shell._young == {}

    served(monkeypatch, program)


def test_a_connection_that_is_lost_is_watched_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        _, writer = await connect(made, port)
        while not shell._young:
            await asyncio.sleep(0)
        writer.close()
        while shell._young:
            await asyncio.sleep(0)
        assert not made.statistics

    served(monkeypatch, program)


def test_headers_are_counted_and_bodies_are_left_as_they_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        link = await connect(made, port)
        packed = gzip.compress(b"text")
        status, body = await ask(link, "POST /echo", packed, content_encoding="gzip")
        assert (status, body) == (200, b'{"body":"%b"}' % packed.hex().encode())
        for count, expected in ((100, 200), (101, 400)):
            link = await connect(made, port)
            headers = {f"x-{number}": "1" for number in range(count - 2)}
            assert (await ask(link, "POST /echo", b"", **headers))[0] == expected

    served(monkeypatch, program)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 412, 413, 422, 429, 500, 502, 503, 504])
def test_refusals_for_want_of_a_right_or_of_room_are_logged(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        link = await connect(made, port)
        assert (await ask(link, f"GET /refuse?status={status}"))[0] == status

    made = served(monkeypatch, program)
    assert made.told == ([f"127.0.0.1: {status}"] if status in (401, 403, 413, 429, 503) else [])


def test_a_request_whose_client_is_gone_is_not_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        _, writer = await connect(made, port)
        writer.write(b"GET /hang HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        while not made.hanging:
            await asyncio.sleep(0)
        writer.close()
        while len(made.hanging) < 2:
            await asyncio.sleep(0)
        assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM), "signals are the program's"

    served(monkeypatch, program)


def test_a_server_that_closes_waits_for_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(made: Any, shell: Server, port: int) -> None:
        idle = await connect(made, port)
        assert (await ask(idle, "POST /echo"))[0] == 200
        _, writer = await connect(made, port)
        writer.write(b"GET /hang HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        while not made.hanging:
            await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        await shell.close()
        assert asyncio.get_running_loop().time() - began < 5.0, "not the minute that aiohttp waits"
        assert made.hanging == ["begun", "ended"]
        assert await idle[0].read() == b""
        with pytest.raises(OSError, match=r"."):
            await connect(made, port)

    served(monkeypatch, program)


@pytest.mark.parametrize(
    ("host", "port", "is_failing", "calls", "answer"),
    [
        (None, 0, False, [("0.0.0.0", 0), ("::", 4711)], 4711), (None, 0, True, [("0.0.0.0", 0), ("::", 4711)], 4711),
        (None, 80, False, [(None, 80)], 4711), ("127.0.0.1", 0, False, [("127.0.0.1", 0)], 4711),
    ],
)  # fmt: skip
def test_a_free_port_is_the_same_in_both_families(
    host: str | None, port: int, is_failing: bool, calls: list[Any], answer: int
) -> None:
    asked: list[Any] = []

    async def listen(*told: Any) -> int:
        asked.append(told)
        if told[0] == "::" and is_failing:
            raise OSError("no IPv6 here")
        return 4711

    async def program() -> None:
        made: Any = Server(door())
        made._listen = listen
        tls: Any = SimpleNamespace()
        assert await made.listen(host, port, tls) == answer
        assert asked == [(*call, tls) for call in calls]
        await made.close()

    asyncio.run(program())
