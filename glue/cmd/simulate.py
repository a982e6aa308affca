"""`glue simulate`: run a layer in virtual time under faults drawn from seeds, and look for what must never happen.

Each seed is one run: the same one gives the same run, to the last event. A seed that fails is told with the command
that repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from glue.cmd import common
from glue.simulation.consensus import Result, run_seed

LAYERS: dict[str, Callable[[int], Result]] = {"model": run_seed}
SHARE = 25
"""Seeds that a process is given at a time: about a second of work."""


def parser() -> common.Parser:
    """The options of this command."""
    made = common.Parser(
        prog="glue simulate",
        description="Run a layer in virtual time under faults drawn from seeds; each seed is one run.",
        allow_abbrev=False,
    )
    made.add_argument("--layer", choices=LAYERS, default="model", help="what to run (default: %(default)s)")
    made.add_argument("--seeds", type=common.count, default=1000, help="how many runs (default: %(default)s)")
    made.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default: %(default)s)")
    made.add_argument("--jobs", type=common.count, default=1, help="processes at a time (default: %(default)s)")
    made.add_argument("--trace", action="store_true", help="print every event")
    return made


def results(layer: str, seeds: range, jobs: int) -> Iterator[Result]:
    """The results of all runs, in order."""
    if jobs == 1:
        yield from map(LAYERS[layer], seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(LAYERS[layer], seeds, chunksize=SHARE)


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds and sum up."""
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.trace:
        for seed in seeds:
            print(f"seed {seed}")
            print(text(run_seed(seed, print)))
        return common.SUCCESS
    start, failed, sums = time.monotonic(), 0, Counter[str]()
    for result in results(arguments.layer, seeds, arguments.jobs):
        sums["elections"] += result.elections
        sums["entries committed"] += result.commit_index
        sums.update({f"{fate.value} outcomes": count for fate, count in result.fates.items()})
        sums.update({f"faults: {kind}": count for kind, count in result.faults.items()})
        if result.violation:
            failed += 1
            print(text(result), flush=True)
            print(f"  python -m glue.cmd.simulate --layer {arguments.layer} --first {result.seed} --seeds 1 --trace")
    for name, count in sums.items():
        print(f"{count:12,} {name}")
    print(f"{len(seeds)} runs in {time.monotonic() - start:.1f} s, {failed} failed")
    return common.FAILURE if failed else common.SUCCESS


def text(result: Result) -> str:
    """One run in a line."""
    return f"seed {result.seed}: {result.violation or 'well'} (trace {result.trace_hash})"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        return run(parser().parse_args(argv))
    except KeyboardInterrupt:
        return common.SUCCESS


if __name__ == "__main__":
    sys.exit(main())
