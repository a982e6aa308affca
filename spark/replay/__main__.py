"""`python -m spark.replay trace.pcapng --endpoint hall`: run the datagrams that reached hall through glue's layers.

The replay is immediate (`--speed 0`), at the original speed (1) or N times as fast. With `--what-if
lease_intervals=2,3,5` Spark's executors replay the trace once for each value, and each value gives a row. Without
`--endpoint` all endpoints are simulated, senders too, over the losses and delays of the trace.
"""

from __future__ import annotations

import spark.needed  # noqa: F401  (before all that may be missing)

# isort: split
import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from glue.settings import effective
from spark import command
from spark.analyze.verdict import clock
from spark.read import check
from spark.replay.engine import Replayed, replay
from spark.replay.offered import offered
from spark.replay.options import combinations
from spark.replay.trace import inbound
from spark.replay.what_if import what_if, what_if_all
from spark.report.trade_off import page

BAR = 40  # characters of the longest bar


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(
        prog="python -m spark.replay", description="Run a trace through glue's layers again."
    )
    made.add_argument("captures", nargs="+", help="pcap or pcapng files, directories or patterns")
    made.add_argument("--endpoint", metavar="NAME", help="the endpoint whose view is replayed (default: simulate all)")
    made.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="times as fast as it was (default 0: at once)"
    )
    made.add_argument(
        "--what-if", action="append", default=[], metavar="SETTING=V,V", help="other settings; all combinations are run"
    )
    made.add_argument("--output", metavar="FILE", help="a page with table and chart of --what-if without --endpoint")
    made.add_argument("--master", metavar="URL", help="Spark's master, for --what-if (default: this machine)")
    return made


def pace(speed: float) -> Callable[[int], object]:
    """Return a function that waits until a captured time (nanoseconds) is due at this speed."""
    if not speed:
        return lambda captured: None
    began: list[tuple[int, float]] = []

    def wait(captured: int) -> None:
        if not began:
            began.append((captured, time.monotonic()))
        zero, start = began[0]
        time.sleep(max(0.0, start + (captured - zero) / 1e9 / speed - time.monotonic()))

    return wait


def summary(told: Replayed) -> list[str]:
    """Return lines for a terminal: peers that came and went, delivered messages, and dropped input."""
    lines = [f"{clock(at)}  {name}: {what}" for at, name, what in told.peers]
    counts: Counter[tuple[str, str]] = Counter()
    for _, topic, publisher, _, count in told.messages:
        counts[topic, publisher] += count
    lines += [
        f"{count:>9,} messages on {topic} from {publisher}" for (topic, publisher), count in sorted(counts.items())
    ]
    for layer, statistics in told.statistics.items():
        lines += [f"{count:>9,} {cause} ({layer})" for cause, count in sorted(statistics.items()) if count]
    return lines


def trade_off(rows: Sequence[dict[str, object]], column: str) -> list[str]:
    """Return a bar for each row."""
    values = [int(str(row[column])) for row in rows]
    longest = max([*values, 1])
    names = [", ".join(f"{name} {value}" for name, value in row.items() if isinstance(value, str)) for row in rows]
    width = max(map(len, names))
    bars = zip(names, values, strict=True)
    return [f"{name:{width}}  {value:>7,} {column}  {'█' * round(BAR * value / longest)}" for name, value in bars]


def lines_of(rows: Sequence[dict[str, object]]) -> list[str]:
    """Return the outcomes of all sets as a table for a terminal."""
    cells = [list(rows[0]), *[[_told(value) for value in row.values()] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]


def _told(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def explore(connect: Callable[[], SparkSession], options: argparse.Namespace) -> list[str]:
    """Run the sets of other settings, and return the lines to print."""
    sets = combinations(options.what_if, settings_only=options.endpoint is not None)
    if options.endpoint is not None:
        rows = what_if(connect(), options.endpoint, inbound(options.captures, options.endpoint), sets)
        return [*trade_off(rows, "expired"), *trade_off(rows, "messages")]
    spark = connect()
    rows = what_if_all(spark, offered(spark, options.captures), sets)
    if options.output:
        Path(options.output).write_text(page(rows), "utf-8")
    return lines_of(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = parser().parse_args(argv)

    def work(connect: Callable[[], SparkSession]) -> list[str]:
        check(options.captures)  # reports mistakes before Java starts
        if options.what_if or options.endpoint is None:
            return explore(connect, options)
        settings = effective({"name": options.endpoint}, {})
        return summary(replay(inbound(options.captures, options.endpoint), settings, pace(options.speed)))

    return command.run("replay", options.master, work, "nothing was written")


if __name__ == "__main__":
    sys.exit(main())
