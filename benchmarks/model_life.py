"""Benchmark of failover, idleness and recovery of a model.

    python -m benchmarks.model_life failover --rounds 30
    python -m benchmarks.model_life idle --seconds 10
    python -m benchmarks.model_life recovery --megabytes 100

Failover and idle run three voters on disk, each in its own process and namespace (needs root). A failover is the time
from the leader's SIGKILL to the first write acknowledged by a survivor, in election timeouts. Idle compares the CPU of
a voter without clients with the CPU of an endpoint without a model. Recovery opens a log of 1 kB writes, in entries of
64 writes as from a busy leader, and applies all entries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import glue.aio
from benchmarks.results import ROOT
from glue.drivers.directory import FileDirectory
from glue.model.consensus import DurableWrite, Kind, LogEntry
from glue.model.state import Set, State, encode_command, encode_entry
from glue.model.state.commands import Command
from glue.model.storage import FileStorage
from tests.support.namespaces import Host, segment

NAMES = "ABC"
ELECTION_TIMEOUT = 0.5
PATIENCE = 30.0
BUSY = 0.02
"""Seconds after a kill in which answers from before the kill may still arrive."""


# ------------------------------------------------------------------------------------------------- a voter


async def voter(name: str, directory: str, task: str) -> None:
    """Run a voter. With the task "write" the voter prints the time of each acknowledged write, and the leader."""
    async with glue.aio.Endpoint(name, interface="eth0") as endpoint:
        if task != "bare":
            timeout = ELECTION_TIMEOUT if task == "write" else 1.0
            model = endpoint.model("life", members=list(NAMES), data_dir=directory, election_timeout=timeout)
            await model.wait_until_ready(PATIENCE)
        print(json.dumps([time.monotonic(), None]), flush=True)
        while task == "write":
            with suppress(glue.RefusedError, glue.UnknownOutcomeError):
                await model.set(name, 1)
                print(json.dumps([time.monotonic(), model.leader]), flush=True)
            await asyncio.sleep(0.002)
        await asyncio.Event().wait()


class Voter:
    """Handle of a voter's process, with the time of its last acknowledged write."""

    def __init__(self, host: Host, name: str, directory: str, task: str) -> None:
        self.name = name
        self._host, self._directory, self._task = host, directory, task
        self.start()

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "benchmarks.model_life", "voter", self.name, self._directory, self._task]
        self.process = self._host.popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        self.leader: str | None = None
        self.last = 0.0
        self._said = threading.Condition()
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            with self._said, suppress(ValueError):
                self.last, self.leader = json.loads(line)
                self._said.notify_all()

    def wait_for(self, after: float) -> float:
        """Wait for a line printed after this monotonic time. Return its time."""
        with self._said:
            if not self._said.wait_for(lambda: self.last > after, PATIENCE):
                raise RuntimeError(f"voter {self.name} fell silent")
            return self.last

    def cpu(self) -> float:
        """Return the CPU seconds of all threads. The scheduler's figures are exact, where `stat` has steps of 10 ms."""
        spent = 0
        for thread in os.scandir(f"/proc/{self.process.pid}/task"):
            with open(f"{thread.path}/schedstat") as file:
                spent += int(file.read().split()[0])
        return spent / 1e9

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


# ---------------------------------------------------------------------------------------------- the figures


def failover(rounds: int) -> None:
    """Kill leaders and print the times until the next write."""
    rng, waits = random.Random(1), list[float]()
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT) as directory, segment(3) as hosts:
        voters = {n: Voter(host, n, f"{directory}/{n}", "write") for host, n in zip(hosts, NAMES, strict=True)}
        for _ in range(rounds):
            for voter in voters.values():
                voter.wait_for(time.monotonic())
            time.sleep(rng.uniform(0.2, 0.5))
            leader = voters[voters["A"].leader or "A"]
            survivors = [voter for voter in voters.values() if voter is not leader]
            leader.kill()
            killed = time.monotonic()
            waits.append(min(survivor.wait_for(killed + BUSY) for survivor in survivors) - killed)
            leader.start()
        for voter in voters.values():
            voter.kill()
    waits.sort()
    timeouts = [wait / ELECTION_TIMEOUT for wait in waits]
    print("| failovers | median | p99 | longest | |\n|---|---|---|---|---|")
    for what, values in ((f"s, of {ELECTION_TIMEOUT} s", waits), ("election timeouts", timeouts)):
        quantiles = values[len(values) // 2], values[len(values) * 99 // 100], values[-1]
        print(f"| {rounds} | {' | '.join(f'{value:.2f}' for value in quantiles)} | {what} |")


def idle(seconds: float) -> None:
    """Run idle voters and print their CPU shares."""
    print("| an idle process | of a core |\n|---|---|")
    for task, what in (("bare", "endpoint without a model"), ("idle", "voter")):
        with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT) as directory, segment(3) as hosts:
            voters = [Voter(host, n, f"{directory}/{n}", task) for host, n in zip(hosts, NAMES, strict=True)]
            for voter in voters:
                voter.wait_for(0.0)
            time.sleep(2.0)
            before = [voter.cpu() for voter in voters]
            time.sleep(seconds)
            shares = sorted((voter.cpu() - was) / seconds for voter, was in zip(voters, before, strict=True))
            print(f"| {what} | {', '.join(f'{share:.2%}' for share in shares)} |", flush=True)
            for voter in voters:
                voter.kill()


def recovery(megabytes: int) -> None:
    """Open a long log and print the seconds for loading and applying."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=ROOT) as folder:
        storage = FileStorage(FileDirectory(folder), random.Random(1))
        storage.load()
        index = size = 0
        while size < megabytes << 20:
            index += 1
            commands = [encode_command(Command(0, 0, 0, [Set(f"k{index}/{n}", "x" * 1000)])) for n in range(64)]
            data = encode_entry(0, commands)
            size += len(data)
            storage.write(DurableWrite(index, None, [LogEntry(index, 1, Kind.COMMAND, data)], None, (0, 0)))
        storage.sync()
        storage.close()
        began = time.perf_counter()
        stored = FileStorage(FileDirectory(folder), random.Random(1)).load()
        loaded = time.perf_counter()
        state = State()
        for entry in stored.entries:
            state.apply(entry.index, entry.data)
        applied = time.perf_counter()
        print("| log | entries | loaded | applied |\n|---|---|---|---|")
        print(f"| {size >> 20} MB | {len(stored.entries):,} | {loaded - began:.2f} s | {applied - loaded:.2f} s |")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["failover", "idle", "recovery", "voter"])
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=30, help="leaders killed (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of idleness (default: %(default)g)")
    parser.add_argument("--megabytes", type=int, default=100, help="of log (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.what == "voter":
        asyncio.run(voter(*arguments.rest))
    elif arguments.what == "failover":
        failover(arguments.rounds)
    elif arguments.what == "idle":
        idle(arguments.seconds)
    else:
        recovery(arguments.megabytes)


if __name__ == "__main__":
    main()
