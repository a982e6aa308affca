"""Benchmark of shared state against PySyncObj and etcd: three voters in three namespaces, all writes synced to disk.

    python -m benchmarks.model --seconds 3

The clients of each system run at the leader, so no request is forwarded. glue's clients are asyncio tasks in the
voter's process. PySyncObj's clients are callbacks in the voter's process. etcd's clients are HTTP connections from
Python to its JSON gateway. Each client sends its next request when it has the answer.

The benchmark needs root. It measures PySyncObj (PyPI) and etcd (Debian's etcd-server) if they are installed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import importlib
import importlib.util
import json
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import glue.aio
from benchmarks.results import ROOT
from tests.support.namespaces import Host, segment

NAMES = "ABC"
VALUE = "x" * 100
KEYS = 1000
MEASURES = (("write", 1), ("write", 64), ("read", 1), ("read", 64), ("stale read", 1))
PATIENCE = 30.0

Ask = Callable[[int], Awaitable[object]]


async def measure(ask: Ask, clients: int, seconds: float) -> dict[str, float]:
    """Run `clients` clients for `seconds`. Return answers per second, and milliseconds per answer."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        while (began := time.perf_counter()) < until:
            await ask(number)
            times.append(time.perf_counter() - began)
            number = (number + 7) % KEYS

    await asyncio.gather(*(client(number) for number in range(clients)))
    return summary(times, seconds)


def summary(times: list[float], seconds: float) -> dict[str, float]:
    """Return the rate per second and the quantiles in milliseconds."""
    times.sort()
    return {
        "rate": len(times) / seconds,
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[len(times) * 99 // 100] * 1e3,
    }


# -------------------------------------------------------------------------------------------- the systems


async def run_glue(name: str, directory: str, addresses: list[str]) -> None:
    """Run a voter of glue."""
    async with glue.aio.Endpoint(name, interface="eth0") as endpoint:
        model = endpoint.model("benchmark", members=list(NAMES), data_dir=directory)
        await model.wait_until_ready(PATIENCE)
        asks: dict[str, Ask] = {
            "write": lambda n: model.set(f"k{n}", VALUE),
            "read": lambda n: model.get(f"k{n}"),
            "stale read": lambda n: model.get(f"k{n}", stale=True),
        }
        await model.set("k0", VALUE)
        await answer(lambda: model.leader == name, asks)


async def run_etcd(name: str, directory: str, addresses: list[str]) -> None:
    """Start an etcd member and run its clients."""
    number = NAMES.index(name)
    cluster = ",".join(f"{peer}=http://{address}:2380" for peer, address in zip(NAMES, addresses, strict=True))
    peer, here = f"http://{addresses[number]}:2380", "http://127.0.0.1:2379"
    process = subprocess.Popen(
        ["etcd", "--name", name, "--data-dir", directory, "--initial-cluster", cluster, "--listen-peer-urls", peer,
         "--initial-advertise-peer-urls", peer, "--listen-client-urls", here, "--advertise-client-urls", here],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", 2379)
        data = json.dumps(body).encode()
        writer.write(
            b"POST /v3/%b HTTP/1.1\r\nHost: e\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data
        )
        headers = await reader.readuntil(b"\r\n\r\n")
        length = int(headers.lower().partition(b"content-length:")[2].split()[0])
        answered: dict[str, Any] = json.loads(await reader.readexactly(length))
        idle.append((reader, writer))
        return answered

    def key(n: int) -> str:
        return base64.b64encode(b"k%d" % n).decode()

    value = base64.b64encode(VALUE.encode()).decode()
    try:
        until = time.monotonic() + PATIENCE
        status: dict[str, Any] = {}
        while "leader" not in status and time.monotonic() < until:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                status = await call("maintenance/status", {})
            await asyncio.sleep(0.1)
        asks: dict[str, Ask] = {
            "write": lambda n: call("kv/put", {"key": key(n), "value": value}),
            "read": lambda n: call("kv/range", {"key": key(n)}),
            "stale read": lambda n: call("kv/range", {"key": key(n), "serializable": True}),
        }
        await answer(lambda: status["leader"] == status["header"]["member_id"], asks)
    finally:
        process.kill()
        process.wait()


async def answer(leads: Callable[[], bool], asks: dict[str, Ask]) -> None:
    """Run the commands from standard input until it ends."""
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": True}), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        if asked["do"] == "leads":
            result: dict[str, Any] = {"leads": leads()}
        else:
            result = await measure(asks[asked["do"]], asked["clients"], asked["seconds"])
        print(json.dumps(result), flush=True)


def run_pysyncobj(name: str, directory: str, addresses: list[str]) -> None:
    """Run a voter of PySyncObj with a journal."""
    pysyncobj: Any = importlib.import_module("pysyncobj")

    class Shared(pysyncobj.SyncObj):  # type: ignore[misc]
        """Replicated keys and values."""

        def __init__(self, own: str, others: list[str]) -> None:
            super().__init__(own, others, pysyncobj.SyncObjConf(journalFile=f"{directory}.journal", flushJournal=True))
            self.values: dict[str, str] = {}

        @pysyncobj.replicated  # type: ignore[untyped-decorator]
        def put(self, key: str, value: str) -> None:
            self.values[key] = value

    number = NAMES.index(name)
    nodes = [f"{address}:4321" for address in addresses]
    shared = Shared(nodes[number], nodes[:number] + nodes[number + 1 :])
    while not shared.isReady():
        time.sleep(0.05)
    print(json.dumps({"ready": True}), flush=True)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if asked["do"] == "leads":
            result: dict[str, Any] = {"leads": str(shared._getLeader()) == nodes[number]}
        elif asked["do"] == "write":
            result = write_by_callbacks(shared, asked["clients"], asked["seconds"])
        else:
            result = {}  # PySyncObj has no linearizable reads, and its local read is a plain attribute access
        print(json.dumps(result), flush=True)
    shared.destroy()


def write_by_callbacks(shared: Any, clients: int, seconds: float) -> dict[str, float]:
    """Measure as `measure` does, for an API with callbacks."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    ended = threading.Semaphore(0)

    def write(number: int) -> None:
        began = time.perf_counter()
        if began >= until:
            ended.release()
            return

        def done(result: Any, error: Any) -> None:
            times.append(time.perf_counter() - began)
            write((number + 7) % KEYS)

        shared.put(f"k{number}", VALUE, callback=done)

    for number in range(clients):
        write(number)
    for _ in range(clients):
        ended.acquire(timeout=seconds + PATIENCE)
    return summary(times, seconds)


# -------------------------------------------------------------------------------------------- the referee

SYSTEMS: dict[str, Callable[[], bool]] = {
    "glue": lambda: True,
    "PySyncObj": lambda: importlib.util.find_spec("pysyncobj") is not None,
    "etcd": lambda: shutil.which("etcd") is not None,
}


class Voter:
    """Handle of a voter's process."""

    def __init__(self, system: str, host: Host, name: str, directory: str, addresses: list[str]) -> None:
        command = [sys.executable, "-m", "benchmarks.model", "--voter", system, name, f"{directory}/{name}", *addresses]
        self._process = host.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self._process.stdin.write(json.dumps(question) + "\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """Return the next answer. Raises RuntimeError after 60 s without one."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 2 * PATIENCE)[0]:
            raise RuntimeError("a voter fell silent")
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        """Close the voter's input and wait up to 5 s for its end."""
        self._process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)


def rows(system: str, seconds: float) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the figures of one system."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT) as directory, segment(3) as hosts:
        addresses = [host.address for host in hosts]
        voters = [Voter(system, host, name, directory, addresses) for host, name in zip(hosts, NAMES, strict=True)]
        for voter in voters:
            voter.receive()
        leader = next(voter for voter in voters if voter.ask(do="leads")["leads"])
        for what, clients in MEASURES:
            yield what, clients, leader.ask(do=what, clients=clients, seconds=seconds)
        for voter in voters:
            voter.end()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement (default: %(default)g)")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[s for s, there in SYSTEMS.items() if there()])
    parser.add_argument("--voter", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.voter:
        system, name, directory, *addresses = arguments.voter
        if system == "PySyncObj":
            run_pysyncobj(name, directory, addresses)
        else:
            asyncio.run({"glue": run_glue, "etcd": run_etcd}[system](name, directory, addresses))
        return
    print("| system | what | clients | a second | p50 ms | p99 ms |\n|---|---|---|---|---|---|")
    for system in arguments.systems:
        for what, clients, figures in rows(system, arguments.seconds):
            if figures:
                rate, p50, p99 = figures["rate"], figures["p50_ms"], figures["p99_ms"]
                print(f"| {system} | {what} | {clients} | {rate:,.0f} | {p50:.2f} | {p99:.2f} |", flush=True)


if __name__ == "__main__":
    main()
