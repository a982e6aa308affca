"""Whole endpoints, each in a process of its own, over loopback and over network namespaces.

    python -m benchmarks.end_to_end --runs 3 --json end_to_end.json
    python -m benchmarks.end_to_end --cases throughput --places loopback --sizes 16,65536 --offload both

A *case* measures one thing and yields rows. Cases, places and offload on and off take turns within each run, so
that a drift of the machine hits all alike. What each case measures, and its pitfalls, is told in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks import charts
from benchmarks.places import PLACES, Node, NodeError, Place, lossy_cable
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
SIZES = (16, 256, 1024, 8192, 65536, 1 << 20)
SCALING_SIZES = (256, 65536)  # with more than one receiver
RECEIVERS = (1, 2, 4, 8)
LATENCY_SIZES = (64, 1024)
BULK = 1 << 20  # bytes of the messages that stream beside
BESIDE_RATE = 200.0  # messages a second beside the bulk
CLASSES = (("normal", "normal"), ("bulk", "urgent"))  # of the bulk, and of what is beside it
SLOW_LINK = {"delay": 0.001, "rate": 50e6 / 8, "queue": 0.1}  # see glue.simulation.Conditions
SLOW_RATE = 100.0  # messages a second beside the bulk
SLOW_SECONDS = 4  # times as long
LOSSES = (0.01, 0.05, 0.1)
LOSS_DELAY = 0.002  # seconds each way
LOSS_RATE = 1000.0  # messages a second
LOSS_SIZE, BURST_SIZE, BURST_COUNT = 256, 65536, 1000
IDLE_ENDPOINTS, IDLE_TOPICS = 5, 10
SETTLE = 2.0  # seconds from discovery to rest
BATCH_LIMIT = 4 << 30  # bytes of one stream at most


@dataclass
class Bench:
    """What the cases are told: how much to measure, and where."""

    sizes: list[int]
    receivers: list[int]
    seconds: float
    pings: int
    losses: Sequence[float] = LOSSES
    place: str = "loopback"
    offload: bool = True

    def at(self, hosts: int) -> AbstractContextManager[Place]:
        """The place to measure at, for so many endpoints."""
        return PLACES[self.place](hosts)

    def open(self, place: Place, count: int) -> list[Node]:
        """Endpoints with the settings to measure."""
        return place.open(count, offload=self.offload)


Case = Callable[[Bench], Iterator[Row]]


# ------------------------------------------------------------------------------------------------------- the cases


def throughput(bench: Bench) -> Iterator[Row]:
    """A stream at full speed from one publisher to so many receivers, by size; all must arrive, in order."""
    for receivers in bench.receivers:
        with bench.at(1 + receivers) as place:
            publisher, *subscribers = bench.open(place, 1 + receivers)
            for size in bench.sizes if receivers == 1 else [s for s in bench.sizes if s in SCALING_SIZES]:
                yield {"receivers": receivers, "size": size, **stream(bench, publisher, subscribers, size)}


def stream(bench: Bench, publisher: Node, subscribers: list[Node], size: int) -> Row:
    """One stream of messages of a size to subscribers; deliveries a second, CPU seconds a message, peak memory."""
    topic = f"stream/{size}"
    for node in subscribers:
        node.call("subscribe", topic=topic, size=size)
    publisher.call("ready", topic=topic, count=len(subscribers))
    nodes = [publisher, *subscribers]
    before = [node.call("usage")["cpu"] for node in nodes]
    sent = publisher.call("stream", topic=topic, size=size, seconds=bench.seconds, count=BATCH_LIMIT // size)["count"]
    got = [node.call("finished", topic=topic, timeout=10) for node in subscribers]
    after = [node.call("usage") for node in nodes]
    cpu = [usage["cpu"] - earlier for usage, earlier in zip(after, before, strict=True)]
    rates = [one["count"] / (one["ended"] - one["began"]) if one["complete"] else 0.0 for one in got]
    return {
        "messages_per_second": sum(rates),
        "bytes_per_second": sum(rates) * size,
        "lost": sent * len(subscribers) - sum(one["count"] for one in got),
        "gaps": sum(one["gaps"] for one in got),
        "publisher_cpu": cpu[0] / sent,
        "subscriber_cpu": sum(cpu[1:]) / len(subscribers) / sent,
        "publisher_peak": after[0]["peak"],
        "subscriber_peak": max(usage["peak"] for usage in after[1:]),
    }


def round_trip(bench: Bench) -> Iterator[Row]:
    """A message and its answer, both handlers publishing; half of the way there and back."""
    for size in LATENCY_SIZES:
        with bench.at(2) as place:
            one, other = bench.open(place, 2)
            other.call("echo", topic="ping", reply="pong")
            answer = one.call(
                "ping", topic="ping", reply="pong", size=size, count=bench.pings, ignored=bench.pings // 10
            )
            yield {"size": size, **{name: value / 2 for name, value in answer.items() if name != "complete"}}


def beside_bulk(bench: Bench) -> Iterator[Row]:
    """How late 64 B messages are while the same publisher streams 1 MB messages to the same subscriber."""
    for classes in CLASSES:
        with bench.at(2) as place:
            yield beside(bench.open(place, 2), classes, bench.seconds, BESIDE_RATE)


def slow_link(bench: Bench) -> Iterator[Row]:
    """The same over a cable of 50 Mb/s that queues for 100 ms."""
    for classes in CLASSES:
        with lossy_cable(0.0, **SLOW_LINK) as place:
            yield beside(bench.open(place, 2), classes, SLOW_SECONDS * bench.seconds, SLOW_RATE)


def beside(nodes: list[Node], classes: tuple[str, str], seconds: float, rate: float) -> Row:
    """Messages of 64 B at a rate beside a stream of 1 MB messages for so many seconds: latency, speed of the stream."""
    publisher, subscriber = nodes
    subscriber.call("subscribe", topic="bulk", size=BULK)
    subscriber.call("subscribe", topic="small", size=64, stamped=True)
    for topic in ("bulk", "small"):
        publisher.call("ready", topic=topic, count=1)
    publisher.call("stream_beside", topic="bulk", size=BULK, seconds=seconds, priority=classes[0])
    time.sleep(seconds / 10)
    count = int(seconds * 0.8 * rate)
    publisher.call("pace", topic="small", size=64, rate=rate, count=count, priority=classes[1])
    small = subscriber.call("finished", topic="small", timeout=10)
    publisher.call("join")
    bulk = subscriber.call("finished", topic="bulk", timeout=10)
    speed = bulk["count"] * BULK / (bulk["ended"] - bulk["began"]) if bulk["complete"] else 0.0
    named = dict(zip(("bulk_class", "small_class"), classes, strict=True))
    return {"size": 64, **named, "lost": count - small["count"], "bytes_per_second": speed, **latencies(small)}


def latencies(answer: Row) -> Row:
    """The percentiles of an answer."""
    return {name: answer[name] for name in ("p50", "p90", "p99", "max") if name in answer}


def loss(bench: Bench) -> Iterator[Row]:
    """On a cable that loses frames both ways: one-way latency of paced messages, and a burst of large ones."""
    for share in bench.losses:
        with lossy_cable(share, LOSS_DELAY) as place:
            publisher, subscriber = bench.open(place, 2)
            subscriber.call("subscribe", topic="paced", size=LOSS_SIZE, stamped=True)
            publisher.call("ready", topic="paced", count=1)
            count = int(bench.seconds * LOSS_RATE)
            publisher.call("pace", topic="paced", size=LOSS_SIZE, rate=LOSS_RATE, count=count)
            paced = subscriber.call("finished", topic="paced", timeout=20)
            subscriber.call("subscribe", topic="burst", size=BURST_SIZE)
            publisher.call("ready", topic="burst", count=1)
            burst_count = publisher.call(
                "stream", topic="burst", size=BURST_SIZE, seconds=4 * bench.seconds, count=BURST_COUNT
            )["count"]
            burst = subscriber.call("finished", topic="burst", timeout=20)
            seconds = burst["ended"] - burst["began"] if burst["complete"] else float("inf")
            yield {
                "loss": f"{share:.0%}",
                "lost": count + burst_count - paced["count"] - burst["count"],
                "bytes_per_second": burst["count"] * BURST_SIZE / seconds,
                **latencies(paced),
            }


def start_up(bench: Bench) -> Iterator[Row]:
    """From the start of two processes to the first message from one to the other."""
    with bench.at(2) as place:
        began = time.monotonic()
        publisher, subscriber = place.spawn(), place.spawn()
        for node in (publisher, subscriber):
            node.send("open", name=node.name, interface=place.interface, offload=bench.offload)
        subscriber.send("subscribe", topic="first", size=64, stamped=True)
        publisher.send("greet", topic="first", size=64)
        opened = subscriber.receive()
        publisher.receive(), publisher.receive(), subscriber.receive()
        time.sleep(0.1)
        heard = subscriber.call("finished", topic="first", timeout=0)["first_heard"]
        first = heard - began if heard else None
        yield {"import": opened["import"], "start": opened["start"], "first_message": first}


def idle(bench: Bench) -> Iterator[Row]:
    """Endpoints that know each other and subscribe to ten topics each, with nothing to say."""
    with bench.at(IDLE_ENDPOINTS) as place:
        nodes = bench.open(place, IDLE_ENDPOINTS)
        for node in nodes:
            for number in range(IDLE_TOPICS):
                node.call("subscribe", topic=f"idle/{number}", size=64)
        for node in nodes:
            node.call("ready", topic="idle/0", count=IDLE_ENDPOINTS - 1)
        time.sleep(SETTLE)
        before = [node.call("usage") for node in nodes]
        time.sleep(max(bench.seconds, 1.0) * 2)
        after = [node.call("usage") for node in nodes]
        for earlier, later in zip(before, after, strict=True):
            seconds = later["now"] - earlier["now"]
            sharing = IDLE_ENDPOINTS if bench.place == "loopback" else 1  # all count the same interface there
            yield {
                "cpu": (later["cpu"] - earlier["cpu"]) / seconds,
                "resident": later["resident"],
                "packets_per_second": (later["sent_packets"] - earlier["sent_packets"]) / seconds / sharing,
                "sent_per_second": (later["sent_bytes"] - earlier["sent_bytes"]) / seconds / sharing,
            }


CASES: dict[str, Case] = {
    "throughput": throughput,
    "round-trip": round_trip,
    "beside-bulk": beside_bulk,
    "slow-link": slow_link,
    "loss": loss,
    "start-up": start_up,
    "idle": idle,
}

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
    """A Markdown table for each case that was measured, by its name."""
    return {case: table(group, *TABLES[case]) for (case,), group in grouped(rows, ["case"]).items()}


def receiver_charts(rows: Sequence[Row]) -> dict[str, str]:
    """Throughput and CPU against the number of receivers, over namespaces with offload, by file name."""
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
    """Run everything; a case that fails leaves a row with the error, and the others go on."""
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
                rows.append(about | row)  # noqa: PERF401  # what came before an error counts
        except (NodeError, RuntimeError) as error:
            rows.append({**about, "error": str(error)})
    return rows


def numbers(text: str) -> list[int]:
    """Numbers separated by commas."""
    return [int(word) for word in text.split(",")]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", default=",".join(CASES), help="of: %(default)s")
    made.add_argument("--places", default=None, help="loopback, namespaces or both (default: what can be had)")
    made.add_argument("--offload", choices=("on", "off", "both"), default="on", help="use UDP_SEGMENT and UDP_GRO")
    made.add_argument("--sizes", type=numbers, default=list(SIZES), help="payloads of the throughput, in bytes")
    made.add_argument("--receivers", type=numbers, default=list(RECEIVERS), help="how many, of the throughput")
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
