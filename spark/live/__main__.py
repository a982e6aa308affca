"""`python -m spark.live captures/ --output report/`: the report of a directory that a recorder fills, kept fresh."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import PySparkException

from spark.analyze.result import Result, write_tables
from spark.analyze.verdict import clock, verdict
from spark.java import NoJavaError
from spark.live.job import Live
from spark.live.source import SETTLE
from spark.report import page
from spark.session import session


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="python -m spark.live", description="Analyse captures while they are made.")
    made.add_argument("captures", type=Path, help="the directory in which a recorder with rotation leaves its files")
    made.add_argument(
        "--output", required=True, type=Path, metavar="DIRECTORY", help="gets the report, again and again"
    )
    made.add_argument("--state", type=Path, metavar="DIRECTORY", help="of this job's own (default: OUTPUT/state)")
    made.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="length of intervals (default 1)")
    made.add_argument("--delay", type=float, default=30.0, metavar="SECONDS", help="until they are final (default 30)")
    made.add_argument("--keep", type=float, default=3600.0, metavar="SECONDS", help="length of the report (3600)")
    made.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="time between two reports (default 10)"
    )
    made.add_argument(
        "--settle", type=float, default=SETTLE, metavar="SECONDS", help="a file unchanged so long is whole"
    )
    made.add_argument("--once", action="store_true", help="take what is there now, and end")
    made.add_argument("--master", metavar="URL", help="Spark's master (default: this machine, or that of spark-submit)")
    return made


def write(result: Result, output: Path) -> None:
    """Replace the report and its tables, and tell the first sentence of the verdict."""
    write_tables(result, output)
    fresh = output / "report.html.new"
    fresh.write_text(page(result), "utf-8")
    fresh.replace(output / "report.html")
    print(f"until {clock(result['trace']['end_ns'])} UTC: {verdict(result)[0].text}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command until Ctrl-C; returns its exit code."""
    options = parser().parse_args(argv)
    state = options.state or options.output / "state"
    live = Live(
        captures=options.captures, state=state, interval=options.interval, delay=options.delay, keep=options.keep,
        settle=options.settle,
    )  # fmt: skip
    try:
        spark = session("glue live", options.master)
    except NoJavaError as error:
        print(f"spark.live: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        live.start(spark, lambda result: write(result, options.output), options.every, options.once).awaitTermination()
    except KeyboardInterrupt:
        pass
    except (OSError, PySparkException) as error:
        print(f"spark.live: {error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
