"""An HTTP door under load: publications a second, deliveries a second, and dead subscribers.

    python -m benchmarks.http_door publish          # one door, keep-alive connections
    python -m benchmarks.http_door deliver          # one subscriber
    python -m benchmarks.http_door dead             # 1,000 dead subscribers beside a live one

The door is `glue http` in a process of its own, with its log on the disk of the temporary directory. Clients and
subscribers are plain sockets, so that they cost less than the door. Run it where multicast stays on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

HOST = "127.0.0.1"
CONNECTIONS = 256
"""Clients that publish at the same time."""


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


class DoorProcess:
    """`glue http` on loopback."""

    def __init__(self, data_dir: Path, name: str = "door", *more: str) -> None:
        """`more` are further arguments of the command."""
        data_dir.mkdir(exist_ok=True)
        self.port = free_port()
        self.name = name
        self._more = more
        self.data_dir = data_dir
        self._errors = (data_dir / "errors").open("ab")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "glue.cmd.http", "--interface", "lo", "--port", str(self.port), "--host", HOST,
             "--data-dir", str(self.data_dir), "--deliver-to", "127.0.0.0/8", "--endpoint-name", self.name,
             *self._more],
            stdout=subprocess.DEVNULL, stderr=self._errors,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            time.sleep(0.05)
        raise TimeoutError(f"the door does not listen: {(self.data_dir / 'errors').read_text()[-2000:]}")

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def usage(self) -> tuple[float, int]:
        """Return the processor time in seconds, and the memory in bytes."""
        assert self.process is not None
        found = psutil.Process(self.process.pid)
        times = found.cpu_times()
        return times.user + times.system, found.memory_info().rss


class Connection(asyncio.Protocol):
    """A keep-alive connection of a client, with one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: Any = None
        self._data = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; returns status and body. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, HOST, self._port)
        self._answer = loop.create_future()
        self._transport.write(b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (
            method.encode(), path.encode(), len(body), body
        ))  # fmt: skip
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = self._data[:end].lower()
        at = head.find(b"content-length:")
        stop = end + 4 + (int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0)
        if len(self._data) >= stop:
            answer, self._answer = self._answer, None
            body, self._data = self._data[end + 4 : stop], self._data[stop:]
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport, self._data = None, b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the door has closed the connection"))

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


class Subscriber(asyncio.Protocol):
    """A subscriber that takes everything at once: parses no more than it must."""

    def __init__(self, got: list[tuple[float, bytes, bytes]]) -> None:
        self._got = got
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            id_at = head.find(b"webhook-id:")
            id = head[id_at + 11 :].split(b"\r\n", 1)[0].strip()
            self._got.append((time.monotonic(), id, self._data[end + 4 : end + 4 + length]))
            self._data = self._data[end + 4 + length :]
            self.answer()

    def answer(self) -> None:
        """Take a delivery."""
        self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def subscribe(connection: Connection, topic: str, url: str, **more: Any) -> None:
    """Create a subscription."""
    body = json.dumps({"topic": topic, "url": url, **more}).encode()
    status, answer = await connection.call("POST", "/v1/subscriptions", body)
    assert status == 201, answer


async def publish_rate(door: DoorProcess, seconds: float, connections: int, topic: str) -> Counter[int]:
    """Publish on several connections for some seconds; returns the answers by status."""
    answers: Counter[int] = Counter()
    ends = time.monotonic() + seconds

    async def work() -> None:
        connection = Connection(door.port)
        while time.monotonic() < ends:
            status, _ = await connection.call("POST", f"/v1/topics/{topic}", b'{"celsius": 21.5}')
            answers[status] += 1
        connection.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return answers


async def run_publish(door: DoorProcess) -> None:
    """Measure publications: not kept, and acknowledged by the disk."""
    first = Connection(door.port)
    for topic, what in (("free/x", "sent"), ("kept/x", "on disk")):
        if topic.startswith("kept"):
            await subscribe(first, "kept/#", f"http://{HOST}:1/")
        before, _ = door.usage()
        began = time.monotonic()
        answers = await publish_rate(door, 5.0, CONNECTIONS, topic)
        seconds = time.monotonic() - began
        used = (door.usage()[0] - before) / seconds
        rate, others = answers[202] / seconds, sum(answers.values()) - answers[202]
        print(f"publish, {what}, {CONNECTIONS} connections: {rate:,.0f}/s, others {others}, door {100 * used:.0f} %")
    first.close()


async def run_deliver(door: DoorProcess) -> None:
    """Measure deliveries to one subscriber, one at a time and 16 at a time."""
    got: list[tuple[float, bytes, bytes]] = []
    server = await asyncio.get_running_loop().create_server(lambda: Subscriber(got), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    first = Connection(door.port)
    for parallel, count in ((1, 10_000), (16, 20_000)):
        topic = f"d{parallel}/x"
        await subscribe(first, topic, f"http://{HOST}:{port}/", parallel=parallel, start="earliest")
        got.clear()
        (identity,) = [
            one["id"] for one in json.loads((await first.call("GET", "/v1/subscriptions"))[1])["subscriptions"]
            if one["topic"] == topic
        ]  # fmt: skip
        await first.call("PATCH", f"/v1/subscriptions/{identity}", b'{"state": "paused"}')
        for begin in range(0, count, 5_000):
            lines = b"".join(
                b'{"topic":"%b","payload":%d}\n' % (topic.encode(), n) for n in range(begin, begin + 5_000)
            )
            await first.call("POST", "/v1/publish", lines)
        await asyncio.sleep(1.0)
        before, _ = door.usage()
        began = time.monotonic()
        await first.call("PATCH", f"/v1/subscriptions/{identity}", b'{"state": "active"}')
        while len(got) < count and time.monotonic() < began + 60:
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - began
        used = (door.usage()[0] - before) / seconds
        is_ordered = [int(body) for _, _, body in got] == list(range(len(got)))
        rate = len(got) / seconds
        print(f"deliver, {parallel} at a time: {rate:,.0f}/s, in order {is_ordered}, door {100 * used:.0f} %")
    server.close()
    first.close()


async def run_dead(door: DoorProcess) -> None:
    """1,000 dead subscribers and 1,000 messages a second beside a live one: memory, and the live one's delays."""
    got: list[tuple[float, bytes, bytes]] = []
    server = await asyncio.get_running_loop().create_server(lambda: Subscriber(got), HOST, 0)
    port, dead = server.sockets[0].getsockname()[1], free_port()
    first = Connection(door.port)
    await subscribe(first, "t/#", f"http://{HOST}:{port}/", parallel=8)

    async def load(seconds: float) -> list[float]:
        got.clear()
        sent: dict[int, float] = {}
        began, number = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            lines = []
            for _ in range(20):
                sent[number] = time.monotonic()
                lines.append(b'{"topic":"t/x","payload":%d}' % number)
                number += 1
            await first.call("POST", "/v1/publish", b"\n".join(lines))
            await asyncio.sleep(max(0.0, began + number / 1000 - time.monotonic()))
        await asyncio.sleep(2.0)
        return sorted(at - sent[int(body)] for at, _, body in got)

    for count in (0, 1_000):
        for _ in range(count):
            await subscribe(first, "t/#", f"http://{HOST}:{dead}/")
        before, memory = door.usage()
        delays = await load(10.0)
        used, after = door.usage()
        print(f"{count} dead: {len(delays)} delivered, median {1e3 * delays[len(delays) // 2]:.1f} ms, "
              f"p99 {1e3 * delays[len(delays) * 99 // 100]:.1f} ms, door {100 * (used - before) / 12:.0f} %, "
              f"memory {(after - memory) / 1e6:+.1f} MB")  # fmt: skip
    server.close()
    first.close()


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("publish", "deliver", "dead"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as data_dir:
        door = DoorProcess(Path(data_dir))
        door.start()
        try:
            runs = {"publish": run_publish, "deliver": run_deliver, "dead": run_dead}
            asyncio.run(runs[arguments.what](door))
        finally:
            door.end()


if __name__ == "__main__":
    os.environ.setdefault("GLUE_INTERFACE", "lo")
    main()
