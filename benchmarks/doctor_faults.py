"""Does `glue doctor` name each fault, and stay silent where there is none?

    python -m benchmarks.doctor_faults                  all faults, each in network namespaces of its own
    python -m benchmarks.doctor_faults --only mtu       those with this word in their name
    python -m benchmarks.doctor_faults --healthy 100    so many healthy networks of several kinds
    python -m benchmarks.doctor_faults --record FOLDER  keep what the doctor saw, for tests/doctor/recorded

Prints a line for each: whether the verdict came from the expected rule, the seconds that it took, and the sentence.
The exit code is 1 if a fault was not named or a healthy network gave an alarm. Needs root. The doctor runs on the first
host.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.doctor_places import HEALTHY, Place, place
from benchmarks.doctor_scenes import FAULTS, Fault
from benchmarks.results import ROOT

AT_ONCE = 4  # cases that run at the same time: each mostly waits


class Outcome(NamedTuple):
    """The answer of the doctor to one case."""

    name: str
    good: bool
    seconds: float
    rule: str
    verdict: str
    alarms: list[str]

    def line(self) -> str:
        """The outcome in a line."""
        return f"{'ok ' if self.good else 'BAD'} {self.name:34} {self.seconds:4.1f} s  {self.rule:22} {self.verdict}"


def examine(scene: Place, options: list[str], file: Path | None) -> tuple[dict[str, Any], list[dict[str, Any]], float]:
    """Run the doctor on the first host; returns the verdict, the findings and the seconds."""
    keep = [] if file is None else ["--save", str(file)]
    command = [sys.executable, "-m", "glue.cmd.doctor", "--json", *options, *keep]
    began = time.monotonic()
    done = scene.hosts[0].run(command, timeout=60, check=False, cwd=ROOT)
    took = time.monotonic() - began
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if not events:
        raise RuntimeError(f"the doctor said nothing: {done.stderr.strip()}")
    verdict = next(one for one in events if one["event"] == "verdict")
    assert done.returncode == (0 if verdict["healthy"] else 1), done
    return verdict, [one for one in events if one["event"] == "finding"], took


def run_fault(fault: Fault, folder: Path | None) -> Outcome:
    """Make the fault, ask the doctor."""
    with ExitStack() as stack:
        scene = stack.enter_context(place(fault.hosts))
        options = fault.make(scene, stack)
        file = None if folder is None else folder / f"{fault.name.replace(' ', '-')}.json"
        verdict, findings, took = examine(scene, options, file)
    grave = [one for one in findings if one["level"] != "note"]
    first = verdict["rule"]
    return Outcome(fault.name, first in fault.rules, took, first, verdict["verdict"], [one["rule"] for one in grave])


def run_healthy(number: int) -> Outcome:
    """Make a healthy network, ask the doctor."""
    kind, hosts, make = HEALTHY[number % len(HEALTHY)]
    with ExitStack() as stack:
        scene = stack.enter_context(place(hosts))
        options = make(scene, stack)
        verdict, findings, took = examine(scene, options, None)
    grave = [one["rule"] for one in findings if one["level"] != "note"]
    answered = f"{kind} {number}"
    return Outcome(answered, verdict["healthy"] and not grave, took, " ".join(grave), verdict["verdict"], grave)


def report(found: Iterable[Outcome], is_quiet: bool = False) -> bool:
    """Print each as it comes, and their sum; returns whether all are good."""
    outcomes = []
    for one in found:
        outcomes.append(one)
        if not is_quiet or not one.good:
            print(one.line(), flush=True)
    good = sum(one.good for one in outcomes)
    times = sorted(one.seconds for one in outcomes)
    print(f"{good} of {len(outcomes)} as expected; seconds: median {times[len(times) // 2]:.1f}, most {times[-1]:.1f}")
    return good == len(outcomes)


def attempted(run: Callable[[Any], Outcome], name: str, case: Any) -> Outcome:
    """Run one case; a failure of its surroundings is an outcome, too."""
    try:
        return run(case)
    except Exception as error:
        return Outcome(name, False, 0.0, "", f"{type(error).__name__}: {error}"[:300], [])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults with this word in their name")
    parser.add_argument("--healthy", type=int, metavar="N", help="healthy networks instead of faults")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="keep what the doctor saw")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="cases at the same time")
    arguments = parser.parse_args()
    if arguments.record is not None:
        arguments.record.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(arguments.at_once) as pool:
        if arguments.healthy is not None:
            found = pool.map(lambda n: attempted(run_healthy, f"healthy {n}", n), range(arguments.healthy))
            return 0 if report(found, is_quiet=True) else 1
        chosen = [fault for fault in FAULTS if arguments.only in fault.name]
        found = pool.map(lambda one: attempted(lambda f: run_fault(f, arguments.record), one.name, one), chosen)
        return 0 if report(found) else 1


if __name__ == "__main__":
    sys.exit(main())
