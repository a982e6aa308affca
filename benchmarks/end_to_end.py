"""Benchmark of whole endpoints, each in its own process, over loopback and network namespaces.

    python -m benchmarks.end_to_end --runs 3 --json end_to_end.json
    python -m benchmarks.end_to_end --cases throughput --places loopback --sizes 16,65536 --offload both

A *case* measures one thing and yields rows. Each run goes through all cases, places and offload settings, so a slow
change of the machine affects all of them alike. The cases are in `benchmarks.end_to_end_cases`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks import charts
from benchmarks.end_to_end_cases import CASES, RECEIVERS, SIZES, Bench
from benchmarks.places import NodeError
from benchmarks.results import (
    IMAGES,
    PAGE,
    Column,
    Row,
    bytes_of,
    grouped,
    provenance,
    refresh,
    save,
    table,
    wait_until_idle,
)
from tests.support.namespaces import unavailable

MODULE = "benchmarks.end_to_end"
# ------------------------------------------------------------------------------------------------------- the tables

WHERE = (Column("place", "place"), Column("offload", "offload"))
PERCENTILES = {"p50": "p50", "p90": "p90", "p99": "p99", "most": "max"}
LATENCIES_US = [Column(f"{title} µs", field, 1e6) for title, field in PERCENTILES.items()]
LATENCIES_MS = [Column(f"{title} ms", field, 1e3) for title, field in PERCENTILES.items()]
LOST = Column("lost", "lost")
BESIDE = (Column("1 MB", "bulk_class"), Column("64 B", "small_class"))

TABLES: dict[str, tuple[Sequence[Column], Sequence[Column]]] = {
    "throughput": (
        [*WHERE, Column("receivers", "receivers"), Column("payload", "size")],
        [
            Column("deliveries/s", "messages_per_second"),
            Column("MB/s", "bytes_per_second", 1e-6),
            Column("CPU µs a message, publisher", "publisher_cpu", 1e6),
            Column("each subscriber", "subscriber_cpu", 1e6),
            Column("peak memory MB, publisher", "publisher_peak", 1e-6),
            Column("subscriber", "subscriber_peak", 1e-6),
            LOST,
        ],
    ),
    "round-trip": ([*WHERE, Column("payload", "size")], LATENCIES_US),
    "beside-bulk": ([*WHERE, *BESIDE], [*LATENCIES_MS, Column("bulk MB/s", "bytes_per_second", 1e-6), LOST]),
    "slow-link": (
        [Column("offload", "offload"), *BESIDE],
        [*LATENCIES_MS, Column("bulk MB/s", "bytes_per_second", 1e-6), LOST],
    ),
    "steady": (
        [*WHERE, Column("receivers", "receivers"), Column("messages/s", "rate")],
        [
            Column("CPU % of a core, publisher", "publisher_cpu", 100),
            Column("each subscriber", "subscriber_cpu", 100),
            *LATENCIES_US[::2],
            LOST,
        ],
    ),
    "loss": (
        [Column("offload", "offload"), Column("loss each way", "loss")],
        [*LATENCIES_MS, Column("1,000 × 64 kB: MB/s", "bytes_per_second", 1e-6), LOST],
    ),
    "start-up": (
        WHERE,
        [
            Column("import ms", "import", 1e3),
            Column("start ms", "start", 1e3),
            Column("first message ms", "first_message", 1e3),
        ],
    ),
    "idle": (
        WHERE,
        [
            Column("CPU % of a core", "cpu", 100),
            Column("memory MB", "resident", 1e-6),
            Column("packets sent/s", "packets_per_second"),
            Column("bytes sent/s", "sent_per_second"),
        ],
    ),
}


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Return a Markdown table for each measured case, by name."""
    return {case: table(group, *TABLES[case]) for (case,), group in grouped(rows, ["case"]).items()}


def receiver_charts(rows: Sequence[Row]) -> dict[str, str]:
    """Return charts of throughput and CPU over the number of receivers, by file name.

    The charts use the rows from namespaces with offload.
    """
    rows = [row for row in rows if (row["case"], row["place"], row["offload"]) == ("throughput", "namespaces", "on")]
    figures = {
        "receivers-throughput.svg": ("Deliveries by number of receivers", "MB/s in all", "bytes_per_second", 1e-6),
        "receivers-cpu.svg": ("CPU of the publisher by number of receivers", "µs a message", "publisher_cpu", 1e6),
    }
    made = {}
    for name, (title, unit, field, scale) in figures.items():
        series = []
        for (size,), group in grouped(rows, ["size"]).items():
            points = charts.points(group, "receivers", field, scale)
            if len(points) > 1:
                series.append(charts.Series(bytes_of(size), points))
        if series:
            made[name] = charts.lines(title, "receivers", unit, series)
    return made


# ------------------------------------------------------------------------------------------------------ the command


def measure(bench: Bench, options: argparse.Namespace, places: Sequence[str]) -> list[Row]:
    """Run all cases. A failed case adds a row with its error, and the other cases still run."""
    rows: list[Row] = []
    offloads = {"both": ["on", "off"]}.get(options.offload, [options.offload])
    for run, case, place, offload in product(range(options.runs), options.cases.split(","), places, offloads):
        if case in ("loss", "slow-link") and place != "namespaces":
            continue
        idle_percent = wait_until_idle(options.idle_wait)
        print(f"run {run + 1}: {case}, {place}, offload {offload}", file=sys.stderr, flush=True)
        bench.place, bench.offload = place, offload == "on"
        about: Row = {"case": case, "place": place, "offload": offload, "run": run, "idle_percent": idle_percent}
        try:
            for row in CASES[case](bench):
                rows.append(about | row)  # noqa: PERF401 # rows before an error count
        except (NodeError, RuntimeError) as error:
            rows.append({**about, "error": str(error)})
    return rows


def numbers(text: str) -> list[int]:
    """Parse numbers separated by commas."""
    return [int(word) for word in text.split(",")]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", default=",".join(CASES), help="of: %(default)s")
    made.add_argument("--places", default=None, help="loopback, namespaces or both (default: what can be had)")
    made.add_argument("--offload", choices=("on", "off", "both"), default="on", help="use UDP_SEGMENT and UDP_GRO")
    made.add_argument("--sizes", type=numbers, default=list(SIZES), help="payloads of the throughput, in bytes")
    made.add_argument("--receivers", type=numbers, default=list(RECEIVERS), help="how many, of streams")
    made.add_argument("--seconds", type=float, default=2.0, help="length of each stream")
    made.add_argument("--pings", type=int, default=5000, help="round trips of each size")
    made.add_argument("--runs", type=int, default=1)
    made.add_argument("--idle-wait", type=float, default=30.0, help="longest wait for an idle machine (seconds)")
    made.add_argument("--json", type=Path, help="write all rows there")
    made.add_argument("--document", action="store_true", help=f"write the tables into {PAGE.name}, and the charts")
    return made


def main() -> None:
    """Measure and print."""
    options = parser().parse_args()
    possible = "loopback" if unavailable() else "loopback,namespaces"
    places = (options.places or possible).split(",")
    bench = Bench(options.sizes, options.receivers, options.seconds, options.pings)
    rows = measure(bench, options, places)
    made = tables(rows)
    for case, text in made.items():
        print(f"\n{case}\n\n{text}")
    if options.json:
        save(options.json, sys.argv[1:], rows)
    if options.document:
        footnote = provenance(MODULE, sys.argv[1:], rows)
        refresh({f"end-to-end {case}": f"{text}\n\n{footnote}" for case, text in made.items()})
        charts.write(IMAGES, receiver_charts(rows))


if __name__ == "__main__":
    main()
