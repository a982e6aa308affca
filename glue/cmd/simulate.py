"""`glue simulate`: run a layer in virtual time under faults drawn from seeds, and look for what must never happen.

Each seed is one run: the same one gives the same run, to the last event. A seed that fails is told with the command
that repeats it, and with one for as few kinds of faults and as short a storm of them as still make it fail.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from glue.cmd import common
from glue.simulation.consensus import FAULTS, STORM, Result, run_seed, shrunk

LAYERS: dict[str, Callable[..., Result]] = {"model": run_seed}
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
    made.add_argument(
        "--without", type=kinds, default=[], metavar="KINDS", help="leave out these kinds of faults: crash,slow-disk"
    )
    made.add_argument(
        "--storm",
        type=common.positive_number,
        default=STORM,
        metavar="SECONDS",
        help="of faults (default: %(default)g)",
    )
    made.add_argument("--trace", action="store_true", help="print every event")
    return made


def kinds(text: str) -> list[str]:
    """Kinds of faults, as they are written on a command line."""
    found = [kind.replace("-", " ") for kind in text.split(",")]
    for kind in found:
        if kind not in FAULTS:
            known = ",".join(FAULTS).replace(" ", "-")
            raise argparse.ArgumentTypeError(f"{kind!r} is no kind of fault; there are {known}")
    return found


def results(
    layer: str, seeds: range, jobs: int, without: Collection[str] = (), storm: float = STORM
) -> Iterator[Result]:
    """The results of all runs, in order."""
    run_one = partial(LAYERS[layer], without=without, storm=storm)
    if jobs == 1:
        yield from map(run_one, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_one, seeds, chunksize=SHARE)


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds and sum up."""
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.trace:
        for seed in seeds:
            print(f"seed {seed}")
            print(text(run_seed(seed, print, arguments.without, arguments.storm)))
        return common.SUCCESS
    start, failed, sums = time.monotonic(), 0, Counter[str]()
    for result in results(arguments.layer, seeds, arguments.jobs, arguments.without, arguments.storm):
        sums["elections"] += result.elections
        sums["entries committed"] += result.commit_index
        sums.update({f"{fate.value} outcomes": count for fate, count in result.fates.items()})
        sums.update({f"faults: {kind}": count for kind, count in result.faults.items()})
        if result.violation:
            failed += 1
            print(text(result), flush=True)
            again = f"  python -m glue.cmd.simulate --layer {arguments.layer} --first {result.seed} --seeds 1"
            print(f"{again}{options(arguments.without, arguments.storm)} --trace", flush=True)
            if not arguments.without and arguments.storm == STORM:
                print(f"{again}{options(*shrunk(result))} --trace", flush=True)
    for name, count in sums.items():
        print(f"{count:12,} {name}")
    print(f"{len(seeds)} runs in {time.monotonic() - start:.1f} s, {failed} failed")
    return common.FAILURE if failed else common.SUCCESS


def options(without: Collection[str], storm: float) -> str:
    """These conditions on a command line."""
    left_out = f" --without {','.join(without).replace(' ', '-')}" if without else ""
    return left_out + (f" --storm {storm:g}" if storm != STORM else "")


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
