"""Three voters in three namespaces, killed, stopped and cut off while clients ask; the history must be linearizable.

    python -m tests.namespaces.plant --kills 200

Each voter is a process that asks its model at random and says what it saw, a line of JSON each; CLOCK_MONOTONIC is
one for all processes of a machine, so their times can be compared. It also says four times a second what it is, and how
much later than it wanted: so that an answer that took its time can be told from a machine that had none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import glue
from glue.simulation.linearizability import COMPARE_AND_SET, READ, WRITE, Operation, check
from tests.support.namespaces import Host, segment

ROOT = Path(__file__).parents[2]
ELECTION_TIMEOUT = 0.3
KEYS = 20
CLIENTS = 3
"""Threads that ask in each process."""

PATIENCE = 20.0

LOOK_INTERVAL = 0.25
SLOW = 3.0
"""Seconds for ten answers after a kill that are worth a report: ten election timeouts."""


# ---------------------------------------------------------------------------------------------- one voter


def ask(model: glue.Model, client: str, values: Any, rng: random.Random) -> None:
    """Ask for ever, and say what came of it."""
    while True:
        kind = rng.choice([READ, WRITE, WRITE, COMPARE_AND_SET])
        key, value = f"k{rng.randrange(KEYS)}", next(values)
        arguments: list[Any] = {READ: [], WRITE: [value], COMPARE_AND_SET: [value - rng.randrange(1, 30), value]}[kind]
        call = [client, key, kind, arguments, time.monotonic()]
        say("call", *call)
        ending, answer = "done", None
        try:
            if kind == READ:
                answer = model.get(key, timeout=2.0)
            elif kind == WRITE:
                model.set(key, value, timeout=2.0)
            else:
                model.compare_and_set(key, *arguments, timeout=2.0)
                answer = True
        except glue.UnknownOutcomeError:
            ending = "unknown"
        except glue.MinorityError:
            ending = "nothing"
        except glue.RefusedError:
            answer = False
        say(ending, *call, time.monotonic(), answer)
        time.sleep(rng.uniform(0.0, 0.02))


def look(model: glue.Model, endpoint: glue.Endpoint) -> None:
    """Say for ever what this voter is; `late` is how much longer than it should the last sleep was."""
    while True:
        began = time.monotonic()
        time.sleep(LOOK_INTERVAL)
        now = time.monotonic()
        status = model.status
        say(
            "state", f"{endpoint.name} of {os.getpid()}", now, round(now - began - LOOK_INTERVAL, 3), status.role,
            status.term, status.leader, status.commit_index, sorted(peer.name for peer in endpoint.peers),
        )  # fmt: skip


def say(*words: Any) -> None:
    """A line, in one piece although several threads speak."""
    os.write(sys.stdout.fileno(), json.dumps(words).encode() + b"\n")


def numbers(start: int, rng: random.Random) -> Any:
    """Values that nobody else writes; a restarted process begins elsewhere."""
    at = start * 10**12 + rng.randrange(10**6) * 10**6
    while True:
        at += 1
        yield at


def voter(name: str, data_dir: str) -> None:
    """The life of one process."""
    rng = random.Random()
    endpoint = glue.Endpoint(name, interface="eth0", announce_interval=0.2).start()
    model = endpoint.model("plant", voters=3, data_dir=data_dir, election_timeout=ELECTION_TIMEOUT)
    threading.Thread(target=look, args=(model, endpoint), daemon=True).start()
    for client in range(CLIENTS):
        values = numbers(ord(name) * 10 + client, rng)
        threading.Thread(target=ask, args=(model, f"{name}{client} of {os.getpid()}", values, rng), daemon=True).start()
    threading.Event().wait()


# ------------------------------------------------------------------------------------------------ the run


class Voter:
    """A voter's process, which is started again after each kill."""

    def __init__(self, host: Host, name: str, directory: str, history: History) -> None:
        self._host = host
        self.name = name
        self._directory = directory
        self._history = history
        self.start()

    def start(self) -> None:
        """Begin a life."""
        command = [sys.executable, "-m", "tests.namespaces.plant", "--voter", self.name, self._directory]
        self.process = self._host.popen(
            command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        self._reader = threading.Thread(target=self._history.read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """End it without a word, and wait until all it said was read."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)

    def send(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""
        self.process.send_signal(number)


class History:
    """What all clients saw."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._open: dict[tuple[str, float], Operation] = {}
        self._done: list[Operation] = []
        self._recent: deque[tuple[float, str]] = deque(maxlen=2_000)

    def read(self, lines: Any) -> None:
        """Take what one process says, until its end."""
        for line in lines:
            with contextlib.suppress(ValueError), self._lock:  # the last line may be cut
                what, *words = json.loads(line)
                if what != "state":
                    self._take(what, *words)
                if what != "call":
                    self._recent.append((time.monotonic(), line.decode().strip()))

    def since(self, began: float) -> list[str]:
        """What was said since then: how calls ended, and what the voters were."""
        with self._lock:
            return [f"{at - began:7.2f} s  {line}" for at, line in self._recent if at >= began]

    def _take(
        self, what: str, client: str, key: str, kind: str, arguments: list[Any], called: float, *end: Any
    ) -> None:
        mark = (client, called)
        if what == "call":
            self._open[mark] = Operation(client, key, kind, arguments, called)
            return
        operation = self._open.pop(mark)
        self.counts[what] += 1
        if what == "done":
            operation.returned, operation.answer = end
            self._done.append(operation)
        elif what == "unknown" and kind != READ:
            self._done.append(operation)

    def operations(self) -> list[Operation]:
        """Everything; what was under way when its process was killed is unknown."""
        with self._lock:
            return self._done + [operation for operation in self._open.values() if operation.kind != READ]

    def wait_for(self, more: int) -> None:
        """Wait for so many answers."""
        until, goal = time.monotonic() + PATIENCE, self.counts["done"] + more
        while self.counts["done"] < goal:
            if time.monotonic() > until:
                raise AssertionError(f"no progress: {self.counts}")
            time.sleep(0.01)


def run(kills: int, seed: int) -> tuple[History, list[float]]:
    """Kill, stop and cut off voters in turn; returns the history, and how long each kill kept the others waiting."""
    rng, history, gaps = random.Random(seed), History(), list[float]()
    with tempfile.TemporaryDirectory(prefix="plant-") as directory, segment(3) as hosts:
        voters = [Voter(host, name, f"{directory}/{name}", history) for host, name in zip(hosts, "ABC", strict=True)]
        history.wait_for(50)
        for number in range(kills):
            victim = rng.choice(voters)
            victim.kill()
            began = time.monotonic()
            history.wait_for(10)
            gaps.append(time.monotonic() - began)
            if gaps[-1] > SLOW:
                report = "\n".join(history.since(began - SLOW))
                print(f"\nkill {number}, of {victim.name}: {gaps[-1]:.2f} s\n{report}", file=sys.stderr, flush=True)
            if number % 3 == 1:
                other = rng.choice([voter for voter in voters if voter is not victim])
                other.send(signal.SIGSTOP)
                time.sleep(rng.uniform(0.1, 1.0))
                other.send(signal.SIGCONT)
            victim.start()
            if number % 3 == 2:
                host = rng.choice(hosts)
                host.unplug()
                time.sleep(rng.uniform(0.1, 1.5))
                host.plug()
            history.wait_for(20)
            if sys.stdout.isatty():
                print(f"\r{number + 1} kills, {dict(history.counts)}", end="", flush=True)
        for voter in voters:
            voter.kill()
    return history, gaps


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voter", nargs=2, metavar=("NAME", "DIRECTORY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.voter:
        voter(*arguments.voter)
    history, gaps = run(arguments.kills, arguments.seed)
    operations = history.operations()
    verdict = check(operations)
    gaps.sort()
    print(
        f"\n{arguments.kills} kills, {len(operations)} operations, {dict(history.counts)}; ten answers after a kill "
        f"took {gaps[len(gaps) // 2]:.2f} s (median), {gaps[-1]:.2f} s (longest); {verdict}"
    )
    return 0 if verdict.linearizable else 1


if __name__ == "__main__":
    sys.exit(main())
