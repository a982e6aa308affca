"""Endurance: all features at once for hours, with loss, kills, stops and pulled cables; ledgers must balance.

    python -m benchmarks.soak --hours 8        # as root: it makes network namespaces, and removes them

Six hosts are on one segment, each behind a cable that loses 1 % of the frames each way. Two of them stay: one
publishes, asks and counts, the other reads. The others keep, answer and publish; each half minute one of them is
killed and started again, stopped for some seconds, or cut off. An MQTT door and an HTTP door run beside them, with
clients. At the end the command tells, and exits with 1 if a ledger does not balance or something has grown:

* Each message that a publisher was told is on disk has reached the durable consumer.
* Streams are in order, without a gap between the hosts that stay.
* Each receiver has counted what was acknowledged, and no more than was asked.
* Memory, threads and descriptors of the processes that stay are those of the first quarter.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.results import ROOT
from tests.support.cable import Cable
from tests.support.namespaces import MULTICAST_ROUTE, Host, ip, segment

LOSS = 0.01
CHURN = 30.0
"""Seconds between two faults."""
SAMPLE = 10.0
"""Seconds between two looks at memory, threads and descriptors."""
GROWTH = 1.05
"""Growth of memory that is still flat; and 4 MB more, as an allocator takes arenas one by one."""
SPARE = 4 << 20
DUTIES = {
    "steady": ["publish", "ask"], "reader": ["read"], "keeper": ["keep", "answer"], "hall": ["answer", "publish"],
    "attic": ["answer", "publish"],
}  # fmt: skip
STEADY = ("steady", "reader", "mqtt", "http", "clients")


class Process:
    """A process on a host."""

    def __init__(self, host: Host, module: str, *arguments: str, log: Path) -> None:
        self.host = host
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log.open("ab")
        self.start()

    def start(self) -> None:
        """Start it."""
        self.process = self.host.popen(self._command, stdout=self._log, stderr=self._log, cwd=ROOT)

    def usage(self) -> tuple[int, int, int]:
        """Return bytes of memory, threads and descriptors. Raises psutil.Error if it has died."""
        found = psutil.Process(self.process.pid)
        return found.memory_info().rss, found.num_threads(), found.num_fds()

    def end(self) -> None:
        """End it well."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(400)


class Soak:
    """A run: hosts, faults, samples, and the judgement."""

    def __init__(self, hosts: list[Host], directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.faults: Counter[str] = Counter()
        self.samples: dict[str, list[tuple[int, int, int]]] = {name: [] for name in STEADY}
        self.problems: list[str] = []
        self.processes = {
            name: self._started(name, host, "benchmarks.soak_node", name, str(directory), *duties)
            for (name, duties), host in zip(DUTIES.items(), hosts, strict=False)
        }
        for door in ("mqtt", "http"):
            options = ["--interface", "eth0", "--anonymous", "--data-dir", str(directory / door)]
            self.processes[door] = self._started(door, hosts[-1], f"glue.cmd.{door}", *options)
        self.processes["clients"] = self._started("clients", hosts[-1], "benchmarks.soak_clients", str(directory))

    def _started(self, name: str, host: Host, module: str, *arguments: str) -> Process:
        return Process(host, module, *arguments, log=self.directory / f"output-{name}")

    def run(self, seconds: float) -> None:
        """Make faults and take samples for some time."""
        ends, fault_at = time.monotonic() + seconds, time.monotonic() + CHURN
        while time.monotonic() < ends:
            time.sleep(SAMPLE)
            for name in STEADY:
                try:
                    self.samples[name].append(self.processes[name].usage())
                except psutil.Error:
                    self.problems.append(f"{name} has died")
                    return
            if time.monotonic() >= fault_at:
                self.make_fault()
                fault_at = time.monotonic() + CHURN

    def make_fault(self) -> None:
        """Do something bad to one of the hosts that do not stay."""
        name = self.random.choice(["keeper", "hall", "attic"])
        process, seconds = self.processes[name], self.random.uniform(1.0, 8.0)
        kind = self.random.choice(["kill", "stop", "cut"])
        self.faults[f"{kind} {name}"] += 1
        if kind == "kill":
            process.process.kill()
            process.process.wait()
            time.sleep(seconds)
            process.start()
        elif kind == "stop":
            process.process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.process.send_signal(signal.SIGCONT)
        else:
            ip([f"link set {process.host.port} down"], process.host.switch)
            time.sleep(seconds)
            ip([f"link set {process.host.port} up"], process.host.switch)

    def end(self) -> None:
        """End all processes: publishers first, then who reads; what answers ends last."""
        time.sleep(30.0)  # after the last fault all hosts run again
        for name in ("clients", "steady"):
            self.processes[name].end()
        time.sleep(20.0)  # the consumer catches up
        for name in ("hall", "attic", "reader", "http", "mqtt", "keeper"):
            self.processes[name].end()

    # ----------------------------------------------------------------------------------------------- judgement

    def judge(self) -> list[str]:
        """Return lines about what was found; what is wrong goes to `problems`."""
        reports = {name: json.loads(self._read(f"report-{name}", "{}")) for name in DUTIES}
        lines = [f"faults: {', '.join(f'{count} {kind}' for kind, count in sorted(self.faults.items()))}"]
        for name, report in reports.items():
            self.problems += [f"{name}: {fault}" for fault in report.get("faults", [])]
            lines.append(f"{name}: {report.get('counts')}")
        lines += [self._judge_log(reports["reader"]), self._judge_counts(reports["steady"])]
        missing = reports["reader"]["counts"].get("missing of steady", 0)
        if missing:
            self.problems.append(f"{missing} messages of the steady publisher are missing at the reader")
        clients = json.loads(self._read("report-clients", '{"faults": ["no report"]}'))
        self.problems += [f"clients: {fault}" for fault in clients.pop("faults")]
        lines.append(f"clients: {clients}")
        return lines + [self._judge_growth(name, found) for name, found in self.samples.items()]

    def _read(self, name: str, default: str) -> str:
        path = self.directory / name
        return path.read_text() if path.exists() else default

    def _ledger(self) -> list[list[str]]:
        return [line.split() for path in self.directory.glob("ledger-*") for line in path.read_text().splitlines()]

    def _judge_log(self, reader: dict[str, Any]) -> str:
        logged = {life: set(numbers) for life, numbers in reader["logged"].items()}
        promised = [(life, int(number)) for kind, life, number in (line for line in self._ledger() if len(line) == 3)]
        lost = [one for one in promised if one[1] not in logged.get(one[0], ())]
        if lost:
            self.problems.append(
                f"{len(lost)} messages were on disk and did not reach the consumer, such as {lost[:3]}"
            )
        return f"on disk: {len(promised)} acknowledged, {len(lost)} lost"

    def _judge_counts(self, steady: dict[str, Any]) -> str:
        totals = json.loads(self._read("totals-steady", "{}"))
        promised = Counter(line[1] for line in self._ledger() if line[0] == "count")
        total, asked = sum(totals.values()), steady["counts"]["count: asked"]
        for number, count in promised.items():
            if totals.get(number, 0) < count:
                self.problems.append(f"receiver {number} counted {totals.get(number)}, acknowledged were {count}")
        if total > asked:
            self.problems.append(f"the receivers counted {total}, and {asked} were asked")
        return f"receivers: {asked} asked, {promised.total()} acknowledged, {total} counted"

    def _judge_growth(self, name: str, samples: list[tuple[int, int, int]]) -> str:
        quarter = len(samples) // 4
        if not quarter:
            return f"{name}: too few samples"
        first, last = samples[quarter : 2 * quarter], samples[-quarter:]
        memory = [median(one[0] for one in part) for part in (first, last)]
        threads, files = ([max(one[place] for one in part) for part in (first, last)] for place in (1, 2))
        if memory[1] > GROWTH * memory[0] + SPARE or threads[1] > threads[0] + 2 or files[1] > files[0] + 8:
            self.problems.append(f"{name} has grown")
        return (
            f"{name}: memory {memory[0] / 1e6:.1f} to {memory[1] / 1e6:.1f} MB, "
            f"threads {threads[0]} to {threads[1]}, descriptors {files[0]} to {files[1]}"
        )


def main() -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="keep ledgers and outputs here")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = arguments.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(exist_ok=True)
        hosts = stack.enter_context(segment(len(DUTIES) + 1))
        for host in hosts:
            host.remove_interface()
            stack.enter_context(
                Cable(host.switch, host.port, host.namespace, "eth0", loss=LOSS, seed=arguments.seed + host.number)
            )
            ip([f"link set {host.port} master br0 up"], host.switch)
            host.ip(f"addr add {host.address}/24 dev eth0", "link set eth0 up", MULTICAST_ROUTE)
        time.sleep(2.0)  # until the bridge forwards
        soak = Soak(hosts, directory, arguments.seed)
        began = time.monotonic()
        soak.run(3600 * arguments.hours)
        soak.end()
        print(f"{(time.monotonic() - began) / 60:.0f} minutes, seed {arguments.seed}")
        print("\n".join(soak.judge()))
    print("\n".join(f"PROBLEM: {problem}" for problem in soak.problems) or "all ledgers balance, nothing has grown")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
