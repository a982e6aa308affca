"""Streams that were cut off or stopped: a restart of the door, a long pause, a real EventSource, a stopped curl."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from glue.gateway.http import feed
from glue.gateway.http.client import Client
from glue.gateway.http.gateway import Gateway
from glue.gateway.http.limits import Limits
from tests.gateway.http.doors import Doors
from tests.gateway.http.hook import wait
from tests.gateway.http.streams import opened_stream
from tests.support.lan import PATIENCE

SSE = {"accept": "text/event-stream"}
PATH = "/v1/topics/s/%23"
MODULES = Path(__file__).parents[3] / ".venv/node/node_modules"


def client(gateway: Gateway) -> Client:
    return Client(f"http://127.0.0.1:{gateway.port}", timeout=PATIENCE)


@contextmanager
def events(gateway: Gateway, last: str | None = None, path: str = PATH) -> Iterator[Iterator[tuple[str, str, Any]]]:
    """The events of a stream: name, id and decoded data of each."""
    with opened_stream(gateway, path, SSE if last is None else {**SSE, "last-event-id": last}) as lines:
        yield _events(lines)


def _events(lines: Iterator[bytes]) -> Iterator[tuple[str, str, Any]]:
    name, id = "", ""
    for line in lines:
        kind, _, text = line.decode().partition(": ")
        if kind == "event":
            name = text
        elif kind == "id":
            id = text
        elif kind == "data":
            yield name, id, json.loads(text)
            name = ""


def test_history_of_several_patterns_comes_once_and_a_client_that_comes_back_misses_nothing(
    door: Doors, tmp_path: Path
) -> None:
    path = "/v1/stream?topic=s/x&topic=s/%2B&topic=r&since=10m"
    with door(data_dir=tmp_path, keep=["#"]) as gateway, client(gateway) as user:
        for number in range(3):
            for topic in ("s/x", "s/y", "r"):
                user.publish(topic, number)
        with events(gateway, path=path) as found:
            assert next(found)[0] == "ready"
            got = [next(found) for _ in range(9)]
            user.publish("r", 3)
            got.append(next(found))
        values = {(topic, number) for topic in ("s/x", "s/y", "r") for number in range(3)} | {("r", 3)}
        assert {(data["topic"], data["payload"]) for _, _, data in got} == values
        with events(gateway, got[4][1], path.replace("&since=10m", "")) as found:
            assert next(found)[0] == "ready"
            again = [next(found) for _ in range(10)]
        assert values <= {(data["topic"], data["payload"]) for _, _, data in [*got[:5], *again]}


def test_a_stream_goes_on_from_the_log_after_a_restart_of_the_door(door: Doors, tmp_path: Path) -> None:
    with door(data_dir=tmp_path, keep=["s/#"]) as gateway, client(gateway) as user, events(gateway) as found:
        before = next(found)[1]
        for number in range(5):
            user.publish("s/x", number)
        id = [next(found) for _ in range(3)][-1][1]
    with door(data_dir=tmp_path, keep=["s/#"]) as gateway, client(gateway) as user:
        user.publish("s/x", 5)
        with events(gateway, id) as found:
            assert next(found)[0] == "ready"
            rest = [next(found) for _ in range(3)]
            assert [data["payload"] for _, _, data in rest] == [3, 4, 5]
            user.publish("s/x", 6)
            assert next(found)[2]["payload"] == 6
        with events(gateway, rest[0][1]) as found:
            assert [next(found)[2].get("payload") for _ in range(4)] == [None, 4, 5, 6]
        with events(gateway, before) as found:
            assert [next(found)[2].get("payload") for _ in range(8)] == [None, *range(7)]


@pytest.mark.parametrize("path", ["/v1/topics/other/%23", "/v1/topics/%23"])
def test_what_the_log_does_not_keep_may_be_missed_after_a_restart(door: Doors, tmp_path: Path, path: str) -> None:
    with door(data_dir=tmp_path, keep=["s/#"]) as gateway, events(gateway, path=path) as found, client(gateway) as user:
        user.publish("other/x", 1)
        id = [next(found) for _ in range(2)][1][1]
    with door(data_dir=tmp_path, keep=["s/#"]) as gateway, events(gateway, id, path) as found:
        assert [next(found)[0] for _ in range(2)] == ["ready", "missed"]


@pytest.mark.parametrize("keep", [(), ("s/#",)])
def test_a_client_that_is_away_for_long_is_told_or_gets_all_from_the_log(
    door: Doors, tmp_path: Path, keep: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LINGER", 0.0)
    with door(data_dir=tmp_path, keep=keep) as gateway, client(gateway) as user:
        with events(gateway) as found:
            user.publish("s/x", 1)
            id = [next(found) for _ in range(2)][1][1]
        wait(lambda: user.call("GET", "/v1/status")["streams"] == 0)
        opened = gateway.door
        assert opened is not None
        wait(lambda: not opened.feed.covers("s/x"))
        user.publish("s/x", 2)
        with events(gateway, id) as found:
            assert next(found)[0] == "ready"
            name, _, data = next(found)
            assert (name, data.get("payload")) == (("", 2) if keep else ("missed", None))


def test_an_eventsource_of_node_misses_nothing_over_a_restart_of_the_door(door: Doors, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (MODULES / "eventsource").exists():
        pytest.skip("needs node and the package eventsource")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    script = (
        f"import {{ EventSource }} from '{MODULES}/eventsource/dist/index.js';"
        f"const source = new EventSource('http://127.0.0.1:{port}{PATH}');"
        "source.addEventListener('ready', () => console.log('ready'));"
        "source.addEventListener('missed', () => console.log('missed'));"
        "source.onmessage = event => console.log(JSON.parse(event.data).payload);"
    )
    chosen: dict[str, Any] = {"data_dir": tmp_path, "keep": ["s/#"], "port": port}
    process: subprocess.Popen[str] | None = None
    try:
        with door(**chosen) as gateway, client(gateway) as user:
            process = subprocess.Popen(
                [node, "--input-type=module", "-e", script], stdout=subprocess.PIPE, text=True
            )  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for number in range(50):
                user.publish("s/x", number)
        with door(**chosen) as gateway, client(gateway) as user:  # while the client waits to connect again
            for number in range(50, 100):
                user.publish("s/x", number)
            lines = [process.stdout.readline().strip() for _ in range(101)]
        assert [line for line in lines if line != "ready"] == [str(number) for number in range(100)]
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def test_a_stopped_curl_holds_nobody_up_and_is_told_what_it_missed(door: Doors, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("needs curl")
    limits = Limits(recent_bytes=1 << 20)
    with door(limits=limits) as gateway, client(gateway) as user, events(gateway) as found:
        url = f"http://127.0.0.1:{gateway.port}{PATH}"
        out = (tmp_path / "out").open("wb")
        process = subprocess.Popen([curl, "-sN", "-H", "accept: text/event-stream", url], stdout=out)
        try:
            opened = gateway.door
            assert opened is not None
            wait(lambda: opened.streams == 2)
            os.kill(process.pid, signal.SIGSTOP)
            line = b'{"topic":"s/x","payload":"%s"}\n' % (b"x" * 10_000)
            next(found)
            for number in range(30):  # 30 MB: far more than the sockets and the ring hold
                user.call("POST", "/v1/publish", line * 100)
                for _ in range(100):
                    assert next(found)[2]["topic"] == "s/x", number
            assert opened.feed.tail._size <= limits.recent_bytes
            os.kill(process.pid, signal.SIGCONT)
            user.publish("s/x", "the end")
            wait(lambda: b"the end" in (tmp_path / "out").read_bytes()[-4000:])
        finally:
            process.kill()
            process.wait()
            out.close()
        got = (tmp_path / "out").read_bytes()
        missed = sum(
            json.loads(part.split(b"\n", 1)[0])["messages"] for part in got.split(b"event: missed\ndata: ")[1:]
        )
        assert missed > 0
        assert got.count(b'"topic":"s/x"') + missed == 30 * 100 + 1
