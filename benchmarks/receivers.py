"""Benchmark of receivers, beside the actors of pykka and thespian where they are installed.

    unshare -n benchmarks... python -m benchmarks.receivers           # all cases, each in a process of its own
    python -m benchmarks.receivers --case "remote, 1000 receivers"

Sends are counted from the first until all were handled. "remote" has its host in a second process. Activation is the
time from message to message when each one goes to another receiver. Memory is what 100,000 receivers that have
handled a message, and wait for none, add to the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib.util
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import glue
import glue.aio
from benchmarks.results import ROOT

MESSAGE = {"set": 21}
PATIENCE = 60.0
PASSIVE = 100_000
BUSY = 10
TIMERS = 1000


class Count(glue.Receiver):
    """Counts messages; keeps no state."""

    __slots__ = ()

    handled = 0

    def receive(self, context: Any, message: Any) -> Any:
        """Count, and answer a request."""
        if message is None:
            return Count.handled
        Count.handled += 1
        return None


@contextlib.contextmanager
def threaded(hosts: bool = True) -> Iterator[glue.Endpoint]:
    """An endpoint, which hosts the kind."""
    with glue.Endpoint(interface="lo") as endpoint:
        if hosts:
            assert endpoint.receivers("count", Count).wait_until_served(PATIENCE)
        yield endpoint


def addresses(receivers: int) -> list[str]:
    """The addresses to send to."""
    return [f"count/{number}" for number in range(receivers)]


def send_all(send: Callable[[str, Any], None], messages: int, receivers: int) -> None:
    """Send messages to receivers by turns."""
    targets = addresses(receivers)
    for number in range(messages):
        send(targets[number % receivers], MESSAGE)


def local(messages: int, receivers: int) -> float:
    """Messages a second within one process."""
    with threaded() as endpoint:
        send_all(endpoint.send, 10_000, receivers)
        wait_for(lambda: Count.handled == 10_000)
        began = time.perf_counter()
        send_all(endpoint.send, messages, receivers)
        wait_for(lambda: Count.handled == messages + 10_000)
        return messages / (time.perf_counter() - began)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def local_aio(messages: int, receivers: int) -> float:
    """Messages a second within one event loop."""

    async def run() -> float:
        targets = addresses(receivers)
        async with glue.aio.Endpoint(interface="lo") as endpoint:
            assert await endpoint.receivers("count", Count).wait_until_served(PATIENCE)
            began = time.perf_counter()
            for number in range(messages):
                await endpoint.send(targets[number % receivers], MESSAGE)
            while Count.handled < messages:
                await asyncio.sleep(0)
            return messages / (time.perf_counter() - began)

    return asyncio.run(run())


def remote(messages: int, receivers: int) -> float:
    """Messages a second to another process."""
    words = [sys.executable, "-m", "benchmarks.receivers", "--host"]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdout.readline()
        with threaded(hosts=False) as endpoint:
            send_all(endpoint.send, 10_000, receivers)
            while endpoint.ask("count/0", None, PATIENCE) < 10_000:
                time.sleep(0.01)
            began = time.perf_counter()
            send_all(endpoint.send, messages, receivers)
            while endpoint.ask("count/0", None, PATIENCE) < messages + 10_000:
                time.sleep(0.01)
            rate = messages / (time.perf_counter() - began)
        host.stdin.close()
    return rate


def host() -> None:
    """Host the kind until standard input ends."""
    with threaded():
        print("ready", flush=True)
        sys.stdin.read()


def activation(messages: int, receivers: int) -> float:
    """Microseconds until a receiver that was not in memory has handled its first message."""
    with threaded() as endpoint:
        began = time.perf_counter()
        for number in range(receivers):
            endpoint.send(f"count/{number}", MESSAGE)
        wait_for(lambda: Count.handled == receivers)
        return (time.perf_counter() - began) / receivers * 1e6


def memory(messages: int, receivers: int) -> float:
    """Bytes of a receiver that waits for messages in memory, with its id."""
    with threaded() as endpoint:
        send_all(endpoint.send, 1000, 1000)
        wait_for(lambda: Count.handled == 1000)
        tracemalloc.start(1)
        for number in range(receivers):
            endpoint.send(f"count/w{number}", MESSAGE)
        wait_for(lambda: Count.handled == receivers + 1000)
        time.sleep(0.5)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / receivers


def tasks(messages: int, receivers: int) -> float:
    """Tasks of an event loop with 100,000 receivers in memory and 10 that wait for something."""

    async def run() -> float:
        gate = asyncio.Event()

        async def receive(context: glue.Context, message: Any) -> Any:
            if message == "wait":
                await gate.wait()
            else:
                Count.handled += 1

        async with glue.aio.Endpoint(interface="lo") as endpoint:
            assert await endpoint.receivers("count", receive).wait_until_served(PATIENCE)
            before = len(asyncio.all_tasks())
            for number in range(receivers):
                await endpoint.send(f"count/{number}", MESSAGE)
            while Count.handled < receivers:
                await asyncio.sleep(0.01)
            for number in range(BUSY):
                await endpoint.send(f"count/{number}", "wait")
            await asyncio.sleep(0.2)
            busy = len(asyncio.all_tasks()) - before
            gate.set()
            return float(busy)

    return asyncio.run(run())


def timer(messages: int, receivers: int) -> float:
    """Milliseconds that the latest but ten of 1,000 timers comes late, beside so many messages a second."""
    late: list[float] = []

    def receive(context: glue.Context, message: Any) -> Any:
        match message:
            case {"after": seconds}:
                context.after(seconds, {"due": time.monotonic() + seconds})
            case {"due": due}:
                late.append(time.monotonic() - due)

    with threaded() as endpoint:
        assert endpoint.receivers("timer", receive).wait_until_served(PATIENCE)
        for number in range(TIMERS):
            endpoint.send(f"timer/{number % receivers}", {"after": 0.1 + 5 * number / TIMERS})
        while len(late) < TIMERS:
            for number in range(messages // 100):
                endpoint.send(f"count/{number}", MESSAGE)
            time.sleep(0.01)
    return sorted(late)[-10] * 1000


def pykka(messages: int, receivers: int) -> float:
    """Messages a second to actors of pykka, a thread each."""
    library: Any = import_module("pykka")

    class Actor(library.ThreadingActor):  # type: ignore[misc]
        def on_receive(self, message: Any) -> Any:
            return Count().receive(self, message)

    actors = [Actor.start() for _ in range(receivers)]
    began = time.perf_counter()
    for number in range(messages):
        actors[number % receivers].tell(MESSAGE)
    wait_for(lambda: Count.handled == messages)
    rate = messages / (time.perf_counter() - began)
    library.ActorRegistry.stop_all()
    return rate


def thespian(messages: int, receivers: int) -> float:
    """Messages a second to actors of thespian in another process."""
    from thespian.actors import ActorSystem

    from benchmarks.receivers_thespian import Actor

    system = ActorSystem("multiprocTCPBase")
    try:
        actors = [system.createActor(Actor) for _ in range(receivers)]
        began = time.perf_counter()
        for number in range(messages):
            system.tell(actors[number % receivers], MESSAGE)
        handled = sum(system.ask(actor, None, PATIENCE) for actor in actors)
        assert handled == messages, handled
        return messages / (time.perf_counter() - began)
    finally:
        system.shutdown()


Case = tuple[Callable[[int, int], float], int, int, str, str]
CASES: dict[str, Case] = {
    "local, threads, 1 receiver": (local, 1_000_000, 1, "messages/s", ""),
    "local, threads, 1000 receivers": (local, 1_000_000, 1000, "messages/s", ""),
    "local, asyncio, 1 receiver": (local_aio, 500_000, 1, "messages/s", ""),
    "local, asyncio, 1000 receivers": (local_aio, 500_000, 1000, "messages/s", ""),
    "pykka, local, 1 actor": (pykka, 200_000, 1, "messages/s", "pykka"),
    "remote, 1 receiver": (remote, 500_000, 1, "messages/s", ""),
    "remote, 1000 receivers": (remote, 500_000, 1000, "messages/s", ""),
    "thespian, remote, 1 actor": (thespian, 5_000, 1, "messages/s", "thespian"),
    "activation": (activation, 0, 20_000, "µs", ""),
    "timers at rest, 99 % come within": (timer, 0, 100, "ms", ""),
    "timers beside 20,000 messages/s": (timer, 20_000, 100, "ms", ""),
    "memory, passive": (memory, 0, PASSIVE, "bytes", ""),
    "tasks with 10 of 100,000 busy": (tasks, 0, PASSIVE, "tasks", ""),
}


def measure(name: str) -> float:
    """Measure a case in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.receivers", "--case", name]
    made = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300)
    figure: float = json.loads(made.stdout.splitlines()[-1])
    return figure


def main() -> None:
    """Run one case, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--match", default="", help="only the cases with this word")
    parser.add_argument("--host", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.host:
        host()
    elif arguments.case:
        run, messages, receivers, _, _ = CASES[arguments.case]
        print(json.dumps(run(messages, receivers)))
    else:
        for name, (*_, unit, module) in CASES.items():
            if arguments.match in name and (not module or importlib.util.find_spec(module)):
                print(f"{name:36} {measure(name):12,.1f} {unit}", flush=True)


if __name__ == "__main__":
    main()
