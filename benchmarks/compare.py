"""Comparison of glue with other systems. A referee drives all of them in the same way on the same network.

    python -m benchmarks.compare --referee ../peers --python ../venv/bin/python --runs 5 --json compare.json
    python -m benchmarks.compare --rows compare.json --document

The referee's folder holds `bench.py`, and its interpreter has the other systems installed. The referee needs root to
make network namespaces. Each round is one call of the referee, in which the peers take turns. With `--fallback` each
round runs glue once more without UDP_SEGMENT and UDP_GRO. The referee drives glue through `benchmarks.peer_adapter`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import charts, requirements
from benchmarks.requirements import GLUE, RECEIVERS, select
from benchmarks.results import (
    IMAGES,
    PAGE,
    ROOT,
    Column,
    Row,
    bytes_of,
    grouped,
    markdown,
    provenance,
    refresh,
    save,
    spread,
    table,
    values_of,
)

MODULE = "benchmarks.compare"
FALLBACK = "glue without offload"
PEERS = "zmq,zmq-push,zenoh,cyclonedds,lcm"
METRICS = "throughput,fanout,latency,startup"


class Matrix(NamedTuple):
    """A table of one figure of one metric: a line for each peer, a column for each payload size or share of loss."""

    title: str
    metric: str
    field: str
    kind: str | None = None
    column: str = "size"


MATRICES: dict[str, tuple[Matrix, ...]] = {
    "throughput": (
        Matrix("1 → 1, messages/s", "throughput", "msgs_s"),
        Matrix("CPU µs a message, publisher", "throughput", "pub_cpu"),
        Matrix("CPU µs a message, subscriber", "throughput", "sub_cpu"),
    ),
    "fan-out": (
        Matrix(f"1 → {RECEIVERS}, deliveries/s in all", "fanout", "msgs_s"),
        Matrix("CPU µs a message, publisher", "fanout", "pub_cpu"),
        Matrix("CPU µs a message, each subscriber", "fanout", "sub_cpu"),
    ),
    "latency": (Matrix("one way, p50 µs", "latency", "p50"), Matrix("one way, p99 µs", "latency", "p99")),
    "loss": (
        Matrix("1,000 messages/s of 256 B, p50 µs", "loss", "p50", "paced", "loss"),
        Matrix("1,000 messages/s of 256 B, p99 µs", "loss", "p99", "paced", "loss"),
        Matrix("1,000 × 64 kB, MB/s", "loss", "MB_s", "burst", "loss"),
    ),
}
START_UP = (
    Column("import ms", "import_ms"),
    Column("first message after ms", "first_message_ms"),
    Column("idle, % of a core", "cpu_pct"),
    Column("idle, memory MB", "rss_MB"),
    Column("idle, packets sent/s", "tx_packets_s"),
)


# ---------------------------------------------------------------------------------------------------- the measuring


def measure(options: argparse.Namespace) -> list[Row]:
    """Run the rounds of the referee. With `--json`, finished rounds are saved even if a later round fails."""
    rows: list[Row] = []
    for run in range(options.runs):
        rounds: list[tuple[dict[str, str], str]] = [({}, f"{options.peers},{GLUE}")]
        if options.fallback:
            rounds.append(({"GLUE_OFFLOAD": "0"}, GLUE))
        for environment, peers in rounds:
            print(f"# round {run + 1} of {options.runs}: {peers}", file=sys.stderr, flush=True)
            for row in referee(options, peers, environment):
                peer = FALLBACK if environment and row["peer"] == GLUE else row["peer"]
                rows.append({**row, "peer": peer, "run": run, "idle_percent": row["idle_pct"]})
            if options.json:
                save(options.json, sys.argv[1:], rows)
    return rows


def referee(options: argparse.Namespace, peers: str, environment: Mapping[str, str]) -> list[Row]:
    """Call the referee once. Raises CalledProcessError if the whole call fails. A peer's failure is in its row."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GLUE_")}
    with tempfile.TemporaryDirectory(prefix="referee-") as directory:
        out = Path(directory) / "rows.json"
        command = [options.python, "bench.py", "--peers", peers, "--path", str(ROOT), "--json", str(out)]
        command += ["--metrics", options.metrics, "--runs", "1", "--seconds", str(options.seconds)]
        command += ["--idle-wait", str(options.idle_wait)] + (["--sizes", options.sizes] if options.sizes else [])
        environment = {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        subprocess.run(command, cwd=options.referee, env=environment, stdout=subprocess.DEVNULL, check=True)
        rows: list[Row] = json.loads(out.read_text())
        return rows


# -------------------------------------------------------------------------------------------------- what came of it


def sections(rows: Sequence[Row]) -> dict[str, str]:
    """Return the Markdown sections by the names of their markers."""
    made = {}
    if verdicts := requirements.verdicts(rows):
        made["compare verdicts"] = f"{requirements.table(verdicts)}\n\n{losses(rows)}"
    for name, matrices in MATRICES.items():
        tables = [text for matrix in matrices if (text := tabulated(matrix, rows))]
        if tables:
            made[f"compare {name}"] = "\n\n".join(tables)
    if start_up := [row for row in select(rows, metric="startup") if row.get("kind") != "size"]:
        made["compare start-up"] = table(start_up, [Column("peer", "peer")], START_UP)
    return made


def tabulated(matrix: Matrix, rows: Sequence[Row]) -> str | None:
    """Return a matrix as Markdown, or None without rows."""
    rows = [row for row in select(rows, metric=matrix.metric) if row.get(matrix.field) is not None]
    rows = [row for row in rows if row.get("kind") == matrix.kind]
    if not rows:
        return None
    cases = sorted({row[matrix.column] for row in rows})
    lines = []
    for (peer,), group in grouped(rows, ["peer"]).items():
        found = [values_of(select(group, **{matrix.column: case}), matrix.field) for case in cases]
        lines.append([peer, *(spread(values) if values else "–" for values in found)])
    titles = [bytes_of(case) if matrix.column == "size" else f"{case} % lost" for case in cases]
    return f"**{matrix.title}**\n\n{markdown(['peer', *titles], lines)}"


def losses(rows: Sequence[Row]) -> str:
    """Return a sentence about glue's lost and unordered messages at full speed, and about all errors."""
    mine = [row for row in rows if row["peer"].startswith(GLUE) and row["metric"] in ("throughput", "fanout")]
    lost = sum(row.get("lost_pct", 0) * row.get("sent", 0) / 100 for row in mine)
    told = (
        f"Of glue's streams {lost:,.0f} messages were lost and {sum(values_of(mine, 'gaps')):,.0f} were out of order."
    )
    errors = sorted({f"{row['peer']}, {row['metric']}: {row['error']}" for row in rows if "error" in row})
    return f"{told} Errors: {'; '.join(errors)}." if errors else told


def pictures(rows: Sequence[Row]) -> dict[str, str]:
    """Return the charts by file name. glue comes first, so the charts emphasize glue."""
    made: dict[str, str] = {}
    names = sorted({row["peer"] for row in rows}, key=lambda peer: (not peer.startswith(GLUE), peer))
    for metric, title in (("throughput", "1 → 1"), ("fanout", f"1 → {RECEIVERS}")):
        mine = select(rows, metric=metric)
        found = [charts.Series(name, charts.points(select(mine, peer=name), "size", "msgs_s")) for name in names]
        series = [one for one in found if one.points and all(value > 0 for _, value in one.points)]
        if series:
            sizes = {float(row["size"]): bytes_of(row["size"]) for row in mine if "size" in row}
            made[f"{metric}.svg"] = charts.lines(
                f"Throughput {title}, reliable", "payload", "deliveries/s", series, names=sizes, logarithmic=True
            )
    size = requirements.LATENCY_SIZES[0]
    mine = [row for row in select(rows, metric="latency", size=size) if row.get("p50")]
    tails = [
        charts.Tail(peer, *(sorted(values_of(group, field))[len(group) // 2] for field in ("p50", "p99")))
        for (peer,), group in grouped(mine, ["peer"]).items()
    ]
    if tails:
        tails.sort(key=lambda tail: tail.median)
        made[f"latency-{size}.svg"] = charts.tails(
            f"Latency one way, {bytes_of(size)}", "µs: median, and 99th percentile (hollow)", tails, GLUE
        )
    return made


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--referee", type=Path, required=True, help="the folder with bench.py")
    made.add_argument("--python", default=sys.executable, help="the interpreter that has the peers (default: this one)")
    made.add_argument("--peers", default=PEERS, help="beside glue (default: %(default)s)")
    made.add_argument("--metrics", default=METRICS, help="of the referee's (default: %(default)s)")
    made.add_argument("--sizes", help="payloads of the throughput, in bytes (default: the referee's)")
    made.add_argument("--seconds", type=float, default=3.0, help="length of each stream")
    made.add_argument("--runs", type=int, default=5, help="rounds (default: %(default)s)")
    made.add_argument("--idle-wait", type=float, default=60.0, help="longest wait for an idle machine (seconds)")
    made.add_argument("--fallback", action="store_true", help="glue once more in each round, without offload")
    made.add_argument("--json", type=Path, help="write all rows there, after each round")
    made.add_argument("--rows", type=Path, help="measure nothing: take the rows from there, as --json wrote them")
    made.add_argument("--document", action="store_true", help=f"write the tables into {PAGE.name}, and the charts")
    return made


def main() -> None:
    """Measure or read the rows, print the tables, and document them if asked to."""
    options = parser().parse_args()
    options.python = str(Path(options.python).absolute())  # the interpreter runs in the referee's folder
    arguments = sys.argv[1:]
    if options.rows:
        read: dict[str, Any] = json.loads(options.rows.read_text())
        rows: list[Row] = read["rows"]
        arguments = read["arguments"]
    else:
        rows = measure(options)
    made = sections(rows)
    for name, text in made.items():
        print(f"\n{name}\n\n{text}")
    if options.document:
        footnote = provenance(MODULE, arguments, rows)
        refresh({name: f"{text}\n\n{footnote}" for name, text in made.items()})
        charts.write(IMAGES, pictures(rows))


if __name__ == "__main__":
    main()
