"""Cases of `benchmarks.end_to_end`. docs/benchmarks.md explains the meaning of each case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from benchmarks.places import PLACES, Node, Place, lossy_cable
from benchmarks.results import Row

SIZES = (16, 256, 1024, 8192, 65536, 1 << 20)
SCALING_SIZES = (256, 65536)  # sizes for more than one receiver
RECEIVERS = (1, 2, 4, 8)
LATENCY_SIZES = (64, 1024)
BULK = 1 << 20  # bytes of a bulk message
BESIDE_RATE = 200.0  # messages per second next to the bulk stream
CLASSES = (("normal", "normal"), ("bulk", "urgent"))  # priorities of the bulk stream and of the small messages
SLOW_LINK = {"delay": 0.001, "rate": 50e6 / 8, "queue": 0.1}  # see glue.simulation.Conditions
SLOW_RATE = 100.0  # messages per second next to the bulk stream
SLOW_SECONDS = 4  # factor on the duration
LOSSES = (0.01, 0.05, 0.1)
LOSS_DELAY = 0.002  # seconds in each direction
LOSS_RATE = 1000.0  # messages per second
LOSS_SIZE, BURST_SIZE, BURST_COUNT = 256, 65536, 1000
STEADY_RATES = (100, 500, 2500)  # single messages per second
STEADY_RECEIVERS = (1, 4)
STEADY_SIZE = 64
IDLE_ENDPOINTS, IDLE_TOPICS = 5, 10
SETTLE = 2.0  # seconds between discovery and rest
BATCH_LIMIT = 4 << 30  # most bytes of one stream


@dataclass
class Bench:
    """Extent and place of the measurements."""

    sizes: list[int]
    receivers: list[int]
    seconds: float
    pings: int
    losses: Sequence[float] = LOSSES
    place: str = "loopback"
    offload: bool = True

    def at(self, hosts: int) -> AbstractContextManager[Place]:
        """Return the place for this number of hosts."""
        return PLACES[self.place](hosts)

    def open(self, place: Place, count: int) -> list[Node]:
        """Open endpoints with the settings to measure."""
        return place.open(count, offload=self.offload)


Case = Callable[[Bench], Iterator[Row]]


# ------------------------------------------------------------------------------------------------------- the cases


def throughput(bench: Bench) -> Iterator[Row]:
    """Stream at full speed from one publisher to each number of receivers, by size. All must arrive in order."""
    for receivers in bench.receivers:
        with bench.at(1 + receivers) as place:
            publisher, *subscribers = bench.open(place, 1 + receivers)
            for size in bench.sizes if receivers == 1 else [s for s in bench.sizes if s in SCALING_SIZES]:
                yield {"receivers": receivers, "size": size, **stream(bench, publisher, subscribers, size)}


def stream(bench: Bench, publisher: Node, subscribers: list[Node], size: int) -> Row:
    """Send one stream. Return deliveries per second, CPU seconds per message and peak memory in bytes."""
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
    """Send a message and its answer, both published by handlers. Figures are half of the round trip."""
    for size in LATENCY_SIZES:
        with bench.at(2) as place:
            one, other = bench.open(place, 2)
            other.call("echo", topic="ping", reply="pong")
            answer = one.call(
                "ping", topic="ping", reply="pong", size=size, count=bench.pings, ignored=bench.pings // 10
            )
            yield {"size": size, **{name: value / 2 for name, value in answer.items() if name != "complete"}}


def beside_bulk(bench: Bench) -> Iterator[Row]:
    """Measure the latency of 64 B messages while the same publisher streams 1 MB messages to the same subscriber."""
    for classes in CLASSES:
        with bench.at(2) as place:
            yield beside(bench.open(place, 2), classes, bench.seconds, BESIDE_RATE)


def slow_link(bench: Bench) -> Iterator[Row]:
    """Measure `beside` over a cable of 50 Mb/s that queues for 100 ms."""
    for classes in CLASSES:
        with lossy_cable(0.0, **SLOW_LINK) as place:
            yield beside(bench.open(place, 2), classes, SLOW_SECONDS * bench.seconds, SLOW_RATE)


def beside(nodes: list[Node], classes: tuple[str, str], seconds: float, rate: float) -> Row:
    """Send 64 B messages at a rate next to a stream of 1 MB messages. Return latency and the stream's speed."""
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
    """Return the percentiles of an answer."""
    return {name: answer[name] for name in ("p50", "p90", "p99", "max") if name in answer}


def steady(bench: Bench) -> Iterator[Row]:
    """Send single messages at a rate, like a sensor. Yields CPU of each process and latency."""
    for receivers in [count for count in bench.receivers if count in STEADY_RECEIVERS]:
        with bench.at(1 + receivers) as place:
            nodes = bench.open(place, 1 + receivers)
            for rate in STEADY_RATES:
                yield {"receivers": receivers, "rate": rate, **paced(nodes, rate, max(1, int(bench.seconds * rate)))}


def paced(nodes: list[Node], rate: float, count: int) -> Row:
    """Send `count` messages at `rate` per second from the first node to the others."""
    publisher, *subscribers = nodes
    topic = f"steady/{rate}"
    for node in subscribers:
        node.call("subscribe", topic=topic, size=STEADY_SIZE, stamped=True)
    publisher.call("ready", topic=topic, count=len(subscribers))
    time.sleep(SETTLE / 4)
    before = [node.call("usage") for node in nodes]
    publisher.call("pace", topic=topic, size=STEADY_SIZE, rate=rate, count=count)
    heard = [node.call("finished", topic=topic, timeout=10) for node in subscribers]
    after = [node.call("usage") for node in nodes]
    shares = [
        (later["cpu"] - earlier["cpu"]) / (later["now"] - earlier["now"])
        for earlier, later in zip(before, after, strict=True)
    ]
    return {
        "publisher_cpu": shares[0],
        "subscriber_cpu": sum(shares[1:]) / len(subscribers),
        "lost": count * len(subscribers) - sum(one["count"] for one in heard),
        **latencies(heard[0]),
    }


def loss(bench: Bench) -> Iterator[Row]:
    """Use a cable that loses frames both ways. Yields the latency of paced messages and the speed of a burst of large
    ones.
    """
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
    """Measure the time from the start of two processes to the first message between them."""
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
    """Measure endpoints that know each other and subscribe to ten topics each, without messages."""
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
            # on loopback all endpoints share the interface's counters
            sharing = IDLE_ENDPOINTS if bench.place == "loopback" else 1
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
    "steady": steady,
    "loss": loss,
    "start-up": start_up,
    "idle": idle,
}
