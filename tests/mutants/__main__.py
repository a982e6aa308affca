"""Mutation testing: `make mutants` plants a sample of bugs, one at a time, and shows those that no test found.

`operators.py` finds places and plants bugs, `probes.py` marks which code ran, `reach.py` records which test reaches
what, `naming.py` finds the tests that name a constant, `copies.py` makes the copies all this runs in, `running.py` runs
tests there within limits, `forks.py` in children of a pytest that waits, `planting.py` puts the bug into such a child,
`trial.py` tries one mutant.

An interrupted run goes on where it was when the same command is given again: results and what the tests reach are
kept in `.mutants/`. The working tree is only read.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.mutants.copies import ROOT, Copy, digest, files_of, sources_of
from tests.mutants.operators import Mutant, is_a_program, mutants_of
from tests.mutants.reach import LEFT_OUT, Place, Places, Reach, Recorder
from tests.mutants.running import end_all
from tests.mutants.trial import Bench, Result

KEPT = ".mutants"


def sample(sources: dict[str, str], paths: list[str], seed: str, count: int) -> list[Mutant]:
    """Return `count` mutants of the sources under `paths`; all places are as likely, the same seed gives the same."""
    mutants = [
        mutant
        for name, source in sorted(sources.items())
        if any(f"{name}/".startswith(f"{path.rstrip('/')}/") for path in paths)
        for mutant in mutants_of(name, source, Random(f"{seed} {name}"))
    ]
    Random(seed).shuffle(mutants)
    chosen: list[Mutant] = []
    for mutant in mutants:
        if len(chosen) == count:
            break
        if is_a_program(mutant, sources[mutant.path]):
            chosen.append(mutant)
    return chosen


class Run:
    """One run over a sample: what is known already, and the workers that find out the rest."""

    def __init__(self, arguments: argparse.Namespace, root: Path = ROOT) -> None:
        self._arguments = arguments
        self._root = root
        self.files = files_of(root)
        self.sources = sources_of(self.files, root)
        self.digests = {name: digest(source) for name, source in self.sources.items()}
        self.mutants = sample(self.sources, arguments.paths, arguments.seed, arguments.count)
        self._kept = root / KEPT
        self._kept.mkdir(exist_ok=True)
        self._log = (
            self._kept / f"results-{digest(' '.join([arguments.seed, *arguments.paths, *arguments.tests]))}.jsonl"
        )
        self.results: dict[Mutant, Result] = {}
        self._lock = threading.Lock()
        self._problem: BaseException | None = None
        if arguments.again:
            self._log.unlink(missing_ok=True)
        if self._log.exists():
            for line in self._log.read_text().splitlines():
                result = Result.from_json(json.loads(line))
                if self.digests.get(result.mutant.path) == result.digest:
                    self.results[result.mutant] = result

    def tests(self) -> list[str]:
        """Return the test files that may be run."""
        names = [n for n in self.files if Path(n).name.startswith("test_") and n.endswith(".py")]
        wanted = tuple(self._arguments.tests)
        return [n for n in names if n.startswith(wanted) and not n.startswith(LEFT_OUT)]

    def go(self, home: Path) -> None:
        """Try all mutants that have no result, in copies under `home`."""
        workers = self._arguments.workers
        recorder = Recorder(self.files, self.sources, self._kept / "reach.jsonl", self._arguments.older)
        copies = [Copy(home / f"reach-{i}", self.files, self._root) for i in range(workers)]
        recorder.prepare(copies[0])
        imported = recorder.imported(copies[0], home / "work")
        reach = recorder.record(self._root, [] if self._arguments.known else copies, self.tests(), home / "work", tell)
        for name, problem in sorted(reach.failing.items()):
            tell(f"not used, as it fails without a bug: {name} {problem.strip()[-300:]}")
        tell(f"{len(reach.hits)} tests, {sum(reach.seconds.values()):.0f} s of them; {len(self.mutants)} mutants")
        places = Places(self.sources, recorder.stretches)
        retry = self._arguments.retry
        tried = [m for m in self.mutants if m not in self.results or (retry and not self.results[m].found)]
        workers = min(workers, len(tried))
        threads = [
            threading.Thread(target=self._work, args=(home, i, tried[i::workers], reach, places, imported), daemon=True)
            for i in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._problem is not None:
            raise self._problem

    def _work(
        self, home: Path, number: int, tried: list[Mutant], reach: Reach, places: Places, imported: set[Place]
    ) -> None:
        try:
            copy = Copy(home / f"mutants-{number}", self.files, self._root)
            bench = Bench(copy, home / "work" / str(number), reach, places, imported, self._arguments.budget)
            with bench.wait_for(tried):
                for mutant in tried:
                    result = bench.try_out(mutant, self.sources[mutant.path], self.digests[mutant.path])
                    with self._lock:
                        self.results[mutant] = result
                        with self._log.open("a") as file:
                            file.write(json.dumps(result.to_json()) + "\n")
                        tell(f"[{len(self.results)}] {one_line(result)}")
        except BaseException as problem:
            self._problem = problem

    def report(self) -> str:
        """Return the survivors as diffs, and a summary by area."""
        results = [self.results[m] for m in self.mutants if m in self.results]
        parts = [
            f"\n{r.mutant.path}:{r.mutant.line}: {r.mutant.operator}; {met(r)}\n"
            + r.mutant.diff(self.sources[r.mutant.path])
            for r in sorted(results, key=lambda r: (r.mutant.path, r.mutant.line))
            if not r.found
        ]
        areas = Counter(area_of(r.mutant) for r in results)
        found = Counter(area_of(r.mutant) for r in results if r.found)
        parts.append("")
        parts += [f"{area:24} {found[area]:4} of {count:4} found" for area, count in sorted(areas.items())]
        share = 100 * found.total() / max(1, len(results))
        parts.append(f"{'all':24} {found.total():4} of {len(results):4} found: {share:.0f} %")
        return "\n".join(parts)


def tell(line: str) -> None:
    print(line, flush=True)


def area_of(mutant: Mutant) -> str:
    parts = mutant.path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def met(result: Result) -> str:
    tests = f"{result.met} tests met it" if result.met else "no test reaches it"
    return f"{tests}, {result.left} were beyond the budget" if result.left else tests


def one_line(result: Result) -> str:
    mutant = result.mutant
    what = f"found by {result.by}" if result.found else f"SURVIVED, {met(result)}"
    return f"{mutant.path}:{mutant.line} {mutant.operator}: {what} ({result.seconds:.0f} s)"


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="which sample; default: today's date")
    parser.add_argument("--count", type=int, default=100, help="how many bugs; default 100")
    parser.add_argument("--paths", nargs="+", default=["glue", "spark"], help="where bugs are planted")
    parser.add_argument(
        "--tests", nargs="+", default=["tests/"], help="which tests may run, by the beginning of a path"
    )
    parser.add_argument("--workers", type=int, default=2, help="bugs tried side by side; default 2")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds of tests at most for one bug")
    parser.add_argument("--known", action="store_true", help="only tests whose reach was recorded before")
    parser.add_argument(
        "--older",
        action="store_true",
        help="what tests reached in older sources counts, too; with --known also older tests",
    )
    parser.add_argument("--again", action="store_true", help="forget the results of the same sample")
    parser.add_argument("--retry", action="store_true", help="try the survivors of the same sample again")
    return parser.parse_args(words)


def main() -> int:
    """Run, and return 0 if every bug was tried."""
    arguments = parse()
    for number in (signal.SIGTERM, signal.SIGINT):  # the latter is ignored where a shell started this in the background
        signal.signal(number, signal.default_int_handler)
    run = Run(arguments)
    tell(f"seed {arguments.seed}: {len(run.mutants)} mutants, {sum(m in run.results for m in run.mutants)} known")
    with tempfile.TemporaryDirectory(prefix="glue-mutants-") as home:
        try:
            run.go(Path(home))
        except KeyboardInterrupt:
            end_all()
            tell("interrupted: the same command goes on from here")
            return 130
        finally:
            end_all()
            for thread in threading.enumerate():
                if thread is not threading.current_thread():
                    thread.join(10.0)
    tell(run.report())
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
