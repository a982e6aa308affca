"""Micro benchmark: the cost of one call of a layer, per message and per datagram, measured with pyperf.

    python -m benchmarks.micro
    python -m benchmarks.micro --only transport --fast
    python -m benchmarks.micro -o before.json; ...; python -m benchmarks.micro -o after.json
    python -m pyperf compare_to before.json after.json --table

All options of pyperf's runner work. The defaults for processes and values are lower than pyperf's, because there are
many cases. The cases are in `benchmarks.micro_cases`.
"""

from __future__ import annotations

import argparse
import sys

import pyperf

from benchmarks.micro_cases import CASES, Case
from benchmarks.results import PAGE, Column, Row, provenance, refresh, table
from benchmarks.timers import Timer
from glue.drivers.malloc import keep_freed_memory
from glue.settings import Settings

MODULE = "benchmarks.micro"
PROCESSES, VALUES, MIN_TIME = 5, 3, 0.05
KEYS = (Column("layer", "layer"), Column("one call", "what"))
FIGURES = (Column("µs a call", "seconds", 1e6), Column("ns a datagram or message", "seconds_a_unit", 1e9))


class Measured:
    """A case that prepares its scene at the first call, in the process that measures."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._timer: Timer | None = None

    def __call__(self, calls: int) -> float:
        """Return the seconds that `calls` calls take."""
        if self._timer is None:
            self._timer = self._case.scene()
        return self._timer(calls)


def rows_of(case: Case, benchmark: pyperf.Benchmark) -> list[Row]:
    """Return a row for each value of a benchmark."""
    return [
        {"layer": case.layer, "what": case.what, "seconds": value, "seconds_a_unit": value / case.units}
        for value in benchmark.get_values()
    ]


def pass_on(command: list[str], options: argparse.Namespace) -> None:
    """Add this module's options to the command of pyperf's worker processes."""
    if options.only:
        command += ["--only", options.only]


def main() -> None:
    """Measure, print, and document if asked to."""
    runner = pyperf.Runner(
        values=VALUES,
        processes=PROCESSES,
        min_time=MIN_TIME,
        program_args=("-m", MODULE),
        add_cmdline_args=pass_on,
    )
    runner.argparser.description = __doc__
    runner.argparser.formatter_class = argparse.RawDescriptionHelpFormatter
    runner.argparser.add_argument("--only", default="", help="cases whose name contains this")
    runner.argparser.add_argument("--document", action="store_true", help=f"write the table into {PAGE.name}")
    options = runner.parse_args()
    keep_freed_memory(Settings().malloc_threshold)  # as an endpoint does
    options.quiet = True  # suppresses pyperf's advice for each case
    rows: list[Row] = []
    for case in CASES:
        if options.only in case.name:
            benchmark = runner.bench_time_func(case.name, Measured(case))
            if benchmark is not None and not options.worker:
                rows += rows_of(case, benchmark)
    if rows:
        text = table(rows, KEYS, FIGURES)
        print(f"\n{text}")
        if options.document:
            refresh({"micro": f"{text}\n\n{provenance(MODULE, sys.argv[1:], rows)}"})


if __name__ == "__main__":
    main()
