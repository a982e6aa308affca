"""`python -m spark.live captures/ --output report/`: keep a report of a growing directory of captures up to date."""

from __future__ import annotations

import spark.needed  # noqa: F401  (before all that may be missing)

# isort: split
import argparse
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from spark import command
from spark.analyze.result import Result, replaced, write_tables
from spark.analyze.verdict import clock, verdict
from spark.live.follow import follow
from spark.live.job import Live
from spark.live.source import SETTLE
from spark.read import CaptureError
from spark.report import page


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(prog="python -m spark.live", description="Analyse captures while they are made.")
    made.add_argument("captures", type=Path, help="the directory in which a recorder with rotation leaves its files")
    made.add_argument(
        "--output", required=True, type=Path, metavar="DIRECTORY", help="gets the report, again and again"
    )
    made.add_argument("--state", type=Path, metavar="DIRECTORY", help="of this job's own (default: OUTPUT/state)")
    for name, kind, default, meaning in (
        ("interval", command.period, 1.0, "length of intervals"),
        ("delay", command.seconds, 30.0, "how long after its end an interval is final"),
        ("keep", command.period, 3600.0, "how far back the report goes"),
        ("every", command.period, 10.0, "time between two reports"),
        ("settle", command.seconds, SETTLE, "a file that is unchanged for so long is whole"),
    ):
        meaning += f" (default {default:g})"
        made.add_argument(f"--{name}", type=kind, default=default, metavar="SECONDS", help=meaning)
    made.add_argument("--once", action="store_true", help="take what is there now, and end")
    made.add_argument("--master", metavar="URL", help="Spark's master (default: this machine, or that of spark-submit)")
    return made


def write(result: Result, output: Path) -> None:
    """Replace the report and its tables, and print the first sentence of the verdict."""
    write_tables(result, output)
    with replaced(output / "report.html") as fresh:
        fresh.write_text(page(result), "utf-8")
    told = command.printable(verdict(result)[0].text)
    print(f"until {clock(result['trace']['end_ns'])} UTC: {told}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command until Ctrl-C, and return its exit code."""
    options = parser().parse_args(argv)
    state = options.state or options.output / "state"
    live = Live(
        captures=options.captures, state=state, interval=options.interval, delay=options.delay, keep=options.keep,
        settle=options.settle, every=options.every, once=options.once, said=partial(command.say, "live"),
        told=lambda result: write(result, options.output),
    )  # fmt: skip

    def work(connect: command.Connect) -> list[str]:
        if not options.captures.is_dir():
            raise CaptureError(f"{options.captures}: no such directory; it has to be there, if only empty")
        logging.disable(logging.ERROR)  # hides py4j's errors about an ended Java; `follow` tells what matters
        live.said(
            f"following {options.captures}; a report every {options.every:g} s"
            if not options.once
            else f"taking what is in {options.captures}"
        )
        follow(live, connect, live.said)
        if options.once:
            live.finish(connect())
        return []

    return command.run("live", options.master, work, f"started again, it goes on from {state}")


if __name__ == "__main__":
    sys.exit(main())
