"""Receivers on hosts that join, die and are cut off, and the times of their timers. Needs root.

    python -m benchmarks.receivers_split timers --timers 1000
    python -m benchmarks.receivers_split join --rounds 10
    python -m benchmarks.receivers_split cut --rounds 20
    python -m benchmarks.receivers_split pause --rounds 20
    python -m benchmarks.receivers_split kill --rounds 20

Each host is a process in a network namespace of its own; A, B and C are the voters of the model, on disk. A caller in
one more namespace adds one to a receiver of each of 64 partitions, again and again, and so do the hosts themselves,
also when they are cut off. Each acknowledged addition tells the new sum, and which activation made it. Two writers
would show: as a sum that was told twice, as an activation that goes on after another one took over, or as an
acknowledged addition that is missing at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import glue
import glue.aio
from benchmarks.results import ROOT
from glue.receivers import partition_of
from tests.support.namespaces import Host, segment

PARTITIONS = 64
VOTERS = ["A", "B", "C"]
PATIENCE = 40.0
PAUSE = 0.01
"""Seconds between two additions to a receiver."""
SAYING = threading.Lock()
TROUBLE = 8.0
"""Seconds that a host is cut off, longer than it takes the others to take over."""


def ids() -> list[str]:
    """Name a receiver of each partition."""
    found: dict[int, str] = {}
    for number in itertools.count():
        found.setdefault(partition_of(f"r{number}", PARTITIONS), f"r{number}")
        if len(found) == PARTITIONS:
            return [id for _, id in sorted(found.items())]
    raise AssertionError


def say(*words: Any) -> None:
    """Print a line of JSON, in one piece, as several threads do so."""
    with SAYING:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


# ------------------------------------------------------------------------------------------------ processes


class Sum(glue.Receiver):
    """Adds up, and says where and by which activation."""

    host = ""
    numbers = itertools.count()

    def activate(self, context: glue.Context) -> None:
        """Take a name that no other activation has."""
        self.name = f"{Sum.host}/{os.getpid()}/{next(Sum.numbers)}"

    def receive(self, context: glue.Context, message: Any) -> Any:
        """Add, or set a timer."""
        match message:
            case {"timer": seconds, "durable": durable, "name": name}:
                context.after(seconds, {"due": time.monotonic() + seconds, "name": name}, durable=durable)
            case {"due": due, "name": name}:
                say("rung", name, time.monotonic() - due, Sum.host)
            case None:
                return context.state.get("sum", 0)
            case _:
                context.state["sum"] = context.state.get("sum", 0) + 1
                return [context.state["sum"], self.name, Sum.host]
        return None


def host(name: str, directory: str) -> None:
    """Host the kind, and add to receivers, until SIGTERM."""
    Sum.host = name
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with glue.Endpoint(name, interface="eth0") as endpoint:
        where = f"{directory}/{name}" if name in VOTERS else None
        plant = endpoint.model("plant", members=VOTERS, data_dir=where)
        plant.get("nothing", timeout=PATIENCE)  # answered once this host has the log so far
        began = time.monotonic()
        served = endpoint.receivers("sum", Sum, model=plant, partitions=PARTITIONS)
        assert served.wait_until_served(PATIENCE)
        say("served", began, time.monotonic(), served.owned)
        chance = random.Random(name)
        while True:
            id = chance.choice(ids())
            with contextlib.suppress(glue.RequestError):
                say("ack", id, *endpoint.ask(f"sum/{id}", 1, timeout=5), time.monotonic())
            time.sleep(5 * PAUSE)


async def caller() -> None:
    """Add to a receiver of each partition for ever."""

    async def add(id: str) -> None:
        while True:
            with contextlib.suppress(glue.RequestError):
                say("ack", id, *(await endpoint.ask(f"sum/{id}", 1, timeout=PATIENCE)), time.monotonic())
            await asyncio.sleep(PAUSE)

    async with glue.aio.Endpoint("caller", interface="eth0") as endpoint:
        loop, lines = asyncio.get_running_loop(), sys.stdin
        tasks: list[asyncio.Task[None]] = []
        while line := await loop.run_in_executor(None, lines.readline):
            match json.loads(line):
                case ["add"]:
                    tasks = [asyncio.create_task(add(id)) for id in ids()]
                case ["read"]:
                    for task in tasks:
                        task.cancel()
                    found = [await endpoint.ask(f"sum/{id}", None, timeout=PATIENCE) for id in ids()]
                    say("sums", dict(zip(ids(), found, strict=True)))
                case ["tell", id, message]:
                    await endpoint.send(f"sum/{id}", message)


class Process:
    """A process on a host, and what it says."""

    def __init__(self, place: Host, heard: Heard, *words: str) -> None:
        self.place, self.heard, self.words = place, heard, words
        self.start()

    def start(self) -> None:
        """Start it, again perhaps."""
        command = [sys.executable, "-m", "benchmarks.receivers_split", "--run", *self.words]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = self.place.popen(command, cwd=ROOT, **pipes)
        threading.Thread(target=self.heard.read, args=(self.process.stdout,), daemon=True).start()

    def tell(self, *words: Any) -> None:
        """Give it a line."""
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(json.dumps(words) + "\n")
        pipe.flush()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Heard:
    """What all processes said: a ledger of acknowledged additions, and anything else."""

    def __init__(self) -> None:
        self.acks: dict[str, list[tuple[int, str, str, float]]] = defaultdict(list)
        self.others: queue.Queue[list[Any]] = queue.Queue()

    def read(self, lines: Iterable[str]) -> None:
        """Read the lines of a process; the last one of a killed process may be cut short."""
        for line in lines:
            with contextlib.suppress(ValueError):
                kind, *words = json.loads(line)
                if kind == "ack":
                    id, sum, activation, host, at = words
                    self.acks[id].append((sum, activation, host, at))
                else:
                    self.others.put([kind, *words])

    def wait_for(self, kind: str, timeout: float = PATIENCE) -> list[Any]:
        """Return the next thing of a kind; anything before it is dropped."""
        until = time.monotonic() + timeout
        while True:
            said = self.others.get(timeout=max(0.01, until - time.monotonic()))
            if said[0] == kind:
                return said[1:]

    def check(self, sums: dict[str, int], asked: float) -> str:
        """Compare additions acknowledged before `asked` with the sums read afterwards. Raises AssertionError."""
        count = activations = 0
        for id, acks in self.acks.items():
            told = sorted(acks)
            values = [sum for sum, *_ in told]
            assert len(set(values)) == len(values), f"{id}: a sum was told twice"
            highest = max(sum for sum, *_, at in told if at < asked)
            assert highest <= sums[id], f"{id}: {highest} was acknowledged, and {sums[id]} is there"
            makers = [maker for maker, _ in itertools.groupby(activation for _, activation, _, _ in told)]
            assert len(set(makers)) == len(makers), f"{id}: an activation went on after another one: {makers}"
            count += len(values)
            activations += len(makers)
        return f"{count:,} acknowledged additions by {activations:,} activations: none lost, never two writers"


def gaps(acks: list[tuple[int, str, str, float]], since: float, until: float) -> float:
    """Return the longest time without an acknowledged addition."""
    times = sorted(at for *_, at in acks if since - 1.0 <= at <= until)
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def row(what: str, values: list[float], unit: float = 1.0, form: str = ".2f") -> str:
    """A row of a table: median, 99 %, longest."""
    values = sorted(value * unit for value in values)
    chosen = values[len(values) // 2], values[min(len(values) - 1, len(values) * 99 // 100)], values[-1]
    return f"| {what} | {len(values):,} | {' | '.join(format(value, form) for value in chosen)} |"


@contextlib.contextmanager
def plant(more: int = 0) -> Iterator[tuple[Heard, dict[str, Process], Process, list[Host]]]:
    """Three hosts that serve and a caller; `more` namespaces without a process."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT) as directory, segment(4 + more) as places:
        heard = Heard()
        hosts = {
            name: Process(place, heard, "host", name, directory) for name, place in zip(VOTERS, places, strict=False)
        }
        for _ in VOTERS:
            heard.wait_for("served")
        calls = Process(places[3], heard, "caller")
        yield heard, hosts, calls, places[4:]
        asked = time.monotonic()
        calls.tell("read")
        (sums,) = heard.wait_for("sums")
        print(heard.check(sums, asked), flush=True)


def owners(heard: Heard) -> dict[str, str]:
    """Return the host that acknowledged the latest addition of each receiver."""
    return {id: max(acks)[2] for id, acks in heard.acks.items() if acks}


def all_are_fresh(heard: Heard, since: float, but: str = "") -> Callable[[], bool]:
    """Return whether each receiver acknowledged something since then, at another host than one."""
    return lambda: all(any(at > since and host != but for *_, host, at in heard.acks[id][-200:]) for id in ids())


def wait(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.05)


# -------------------------------------------------------------------------------------------------- figures


def trouble(rounds: int, how: str) -> None:
    """Cut hosts off, stop or kill them, by turns; print how long their partitions stood still, and the others."""
    moved, others = list[float](), list[float]()
    with plant() as (heard, hosts, calls, _):
        calls.tell("add")
        wait(all_are_fresh(heard, 0.0))
        for number in range(rounds):
            name = VOTERS[number % 3]
            before = owners(heard)
            began = time.monotonic()
            if how == "cut":
                hosts[name].place.unplug()
            elif how == "pause":
                hosts[name].process.send_signal(signal.SIGSTOP)
            else:
                hosts[name].kill()
            wait(all_are_fresh(heard, began, name))
            time.sleep(max(0.0, TROUBLE - (time.monotonic() - began)) if how != "kill" else 0.0)
            for id, owner in before.items():
                first = min(at for *_, host, at in heard.acks[id] if at > began and (owner != name or host != name))
                (moved if owner == name else others).append(first - began)
            if how == "cut":
                hosts[name].place.plug()
            elif how == "pause":
                hosts[name].process.send_signal(signal.SIGCONT)
            else:
                hosts[name].start()
            wait(lambda: set(owners(heard).values()) == set(VOTERS))
            time.sleep(2.0)
            print(f"{number + 1}/{rounds}: {name}, {max(moved[-PARTITIONS:]):.2f} s", file=sys.stderr, flush=True)
    print(f"| hosts {how} | partitions | median s | 99 % | longest |\n|---|---|---|---|---|")
    print(row("until an addition is acknowledged elsewhere", moved))
    print(row("the same of partitions of other hosts", others))


def join(rounds: int) -> None:
    """Let a fourth host join and leave; print how long its share takes, and how long receivers stand still."""
    times = defaultdict[str, list[float]](list)
    with plant(1) as (heard, _, calls, (place,)):
        calls.tell("add")
        wait(all_are_fresh(heard, 0.0))
        for number in range(rounds):
            before = owners(heard)
            fourth = Process(place, heard, "host", f"D{number}", "")
            opened, served, _ = heard.wait_for("served")
            wait(all_are_fresh(heard, served))
            time.sleep(1.0)
            between = owners(heard)
            left = time.monotonic()
            fourth.process.terminate()
            fourth.process.wait()
            closed = time.monotonic()
            wait(all_are_fresh(heard, closed, f"D{number}"))
            times["s until it serves its share"].append(served - opened)
            times["s until it has handed it over and ended"].append(closed - left)
            for id in ids():
                kind = "of its share" if before[id] != between[id] else "of other hosts"
                times[f"ms: longest pause of receivers {kind}, it joins"].append(
                    1000 * gaps(heard.acks[id], opened, served + 1.0)
                )
                times[f"ms: longest pause of receivers {kind}, it leaves"].append(
                    1000 * gaps(heard.acks[id], left, closed + 1.0)
                )
            print(f"{number + 1}/{rounds}: {served - opened:.2f} s", file=sys.stderr, flush=True)
    print("| a host joins and leaves | times | median | 99 % | longest |\n|---|---|---|---|---|")
    for what, values in sorted(times.items(), reverse=True):
        print(row(what, values, 1.0, ".2f" if what.startswith("s") else ".0f"))


def timers(count: int) -> None:
    """Set timers at rest, under load, and durable ones whose host is killed; print how late they come."""
    chance, rows = random.Random(1), list[str]()
    with plant() as (heard, hosts, calls, _):
        for what, is_durable in (("at rest", False), ("beside 64 callers", False), ("durable, a host dies", True)):
            if what == "beside 64 callers":
                calls.tell("add")
            time.sleep(3.0)
            for number in range(count):
                seconds = chance.uniform(6.0, 12.0) if is_durable else chance.uniform(0.1, 5.0)
                message = {"timer": seconds, "durable": is_durable, "name": f"{what} {number}"}
                calls.tell("tell", f"timer{number % 100}", message)
            if is_durable:
                time.sleep(4.0)
                hosts["B"].kill()
            late: dict[str, float] = {}
            with contextlib.suppress(queue.Empty):
                while len(late) < count:
                    name, late_by, _ = heard.wait_for("rung", 15.0)
                    late.setdefault(name, late_by)
            within = sum(-0.02 <= one <= 0.02 for one in late.values())
            rows.append(f"{row(what, list(late.values()), 1000, '.1f')} {within / count:.1%} |")
    print(
        "| timers | come | median ms late | 99 % | latest | within 20 ms |\n|---|---|---|---|---|---|", *rows, sep="\n"
    )


def main() -> None:
    """Run a process of a benchmark, or a benchmark."""
    if sys.argv[1:2] == ["--run"]:
        role, *words = sys.argv[2:]
        if role == "host":
            host(*words)
        else:
            asyncio.run(caller())
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["timers", "join", "cut", "pause", "kill"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--timers", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.what == "timers":
        timers(arguments.timers)
    elif arguments.what == "join":
        join(arguments.rounds)
    else:
        trouble(arguments.rounds, arguments.what)


if __name__ == "__main__":
    main()
