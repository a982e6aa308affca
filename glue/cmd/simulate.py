"""`glue simulate`: runs a layer in virtual time under random faults, and checks what must never happen.

Each seed is one run, and repeating a seed repeats its run to the last event. After a failed run the command line for
its repetition is printed. A second command line has the fewest kinds of faults and the shortest storm that still fail.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.simulation.consensus import FAULTS, STORM, RunResult, run_seed, shrunk

LAYERS: dict[str, Callable[..., RunResult]] = {"model": run_seed}
SHARE = 25
"""Seeds given to a process at a time: about a second of work."""


def parser() -> common.Parser:
    """Return the parser of this command."""
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
    made.add_argument("--forged", action="store_true", help="send forged messages, too, with numbers that cannot be")
    made.add_argument("--trace", action="store_true", help="print every event")
    made.add_argument("--json", action="store_true", help="print one JSON object a line")
    return made


def kinds(text: str) -> list[str]:
    """Parse kinds of faults, as the command line has them."""
    found = [kind.replace("-", " ") for kind in text.split(",")]
    for kind in found:
        if kind not in FAULTS:
            known = ",".join(FAULTS).replace(" ", "-")
            raise argparse.ArgumentTypeError(f"{kind!r} is no kind of fault; there are {known}")
    return found


def results(
    layer: str, seeds: range, jobs: int, without: Collection[str] = (), storm: float = STORM, forged: bool = False
) -> Iterator[RunResult]:
    """Yield the results of all runs, in order."""
    run_one = partial(LAYERS[layer], without=without, storm=storm, forged=forged)
    if jobs == 1:
        yield from map(run_one, seeds)
        return
    # Ctrl-C in a terminal reaches all processes; the parent ends the workers.
    ignoring = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(jobs, get_context("spawn"), signal.signal, ignoring) as pool:
        yield from pool.map(run_one, seeds, chunksize=SHARE)


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Run the seeds and sum up."""
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    conditions = arguments.without, arguments.storm, arguments.forged
    if arguments.trace:
        for seed in seeds:
            with common.waiting():
                output.event("seed", f"seed {seed}", seed=seed)
                result = run_seed(seed, lambda line: output.event("trace", line, line=line), *conditions)
                output.event("result", text(result), **fields(result))
        return common.SUCCESS
    start, failed, sums = time.monotonic(), 0, Counter[str]()
    try:
        with output.progress("running") as progress, common.waiting():
            for done, result in enumerate(results(arguments.layer, seeds, arguments.jobs, *conditions), start=1):
                progress.tell(f"{done:,} of {len(seeds):,} runs, {failed} failed", done / len(seeds))
                sums["elections"] += result.elections
                sums["entries committed"] += result.commit_index
                sums.update({f"{outcome.value} outcomes": count for outcome, count in result.outcomes.items()})
                sums.update({f"faults: {kind}": count for kind, count in result.faults.items()})
                if result.violation:
                    failed += 1
                    tell_failure(arguments, result, output)
    except common.Ended:
        return common.ended_early("simulate")
    for name, count in sums.items():
        output.event("sum", f"{count:12,} {name}", name=name, count=count)
    seconds = time.monotonic() - start
    ended = f"{len(seeds)} runs in {seconds:.1f} s, {failed} failed"
    output.event("ended", ended, runs=len(seeds), seconds=round(seconds, 3), failed=failed)
    return common.FAILURE if failed else common.SUCCESS


def tell_failure(arguments: argparse.Namespace, result: RunResult, output: CommandOutput) -> None:
    """Report a failed run, and how to repeat it."""
    output.event("failed", text(result), **fields(result))
    conditions = [options(arguments.without, arguments.storm, arguments.forged)]
    if not arguments.without and arguments.storm == STORM:
        conditions.append(options(*shrunk(result, arguments.forged), arguments.forged))
    for these in conditions:
        again = f"python -m glue.cmd.simulate --layer {arguments.layer} --first {result.seed} --seeds 1{these} --trace"
        output.event("again", f"  {again}", command=again)


def options(without: Collection[str], storm: float, forged: bool) -> str:
    """Return these conditions as options of a command line."""
    left_out = f" --without {','.join(without).replace(' ', '-')}" if without else ""
    return left_out + (f" --storm {storm:g}" if storm != STORM else "") + (" --forged" if forged else "")


def fields(result: RunResult) -> dict[str, Any]:
    """Return a result for programs."""
    return {"seed": result.seed, "violation": result.violation, "trace_hash": result.trace_hash}


def text(result: RunResult) -> str:
    """Format a result as one line."""
    return f"seed {result.seed}: {result.violation or 'well'} (trace {result.trace_hash})"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
