"""Benchmark of bad links and stopped receivers, between processes in network namespaces.

    python -m benchmarks.bad_links
    python -m benchmarks.bad_links --only stopped

The command prints a line for each case, and exits with 1 if a promise of docs/reliability.md is broken: those about
loss, and about one stopped receiver of eight. `tests/promises/test_robustness.py` proves the same exactly, in virtual
time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.places import lossy_cable, namespaces

SMALL, SMALL_RATE, SMALL_COUNT = 1024, 30.0, 450
LARGE, LARGE_COUNT = 512 << 10, 40
WIFI = {"delay": 0.002, "rate": 54e6 / 8}
P99_BOUNDS = {0.0: 0.1, 0.1: 0.1, 0.2: 0.2, 0.3: 0.4, 0.4: 10.0}  # seconds, by share of loss in each direction
RATE_BOUNDS = {0.1: 0.5, 0.2: 0.3}  # shares of the rate without loss
OTHERS = 0.9  # share of their rate that the other receivers keep
STREAM, STREAM_SECONDS = 65536, 3.0

Line = tuple[str, str, bool]
"""What was measured, the figures, and whether the promise is kept."""


def small() -> Iterator[Line]:
    """Measure 1 kB messages at 30 Hz: all arrive in order, and p99 of the latency."""
    for loss, bound in P99_BOUNDS.items():
        with lossy_cable(loss, 0.002) as place:
            publisher, subscriber = place.open(2)
            subscriber.call("subscribe", topic="small", size=SMALL, stamped=True)
            publisher.call("ready", topic="small", count=1)
            publisher.call("pace", topic="small", size=SMALL, rate=SMALL_RATE, count=SMALL_COUNT)
            got = subscriber.call("finished", topic="small", timeout=20)
        good = got["complete"] and not got["gaps"] and got["count"] == SMALL_COUNT and got["p99"] <= bound
        figures = f"{got['count']} of {SMALL_COUNT}, p99 {got['p99'] * 1e3:.1f} ms, most {got['max'] * 1e3:.1f} ms"
        yield f"1 kB at 30 Hz, {loss:.0%} loss", f"{figures} (p99 at most {bound * 1e3:.0f})", good


def large() -> Iterator[Line]:
    """Measure 512 kB messages over 54 Mb/s: all arrive, and the rate relative to a link without loss."""
    whole = 0.0
    for loss in (0.0, *RATE_BOUNDS):
        with lossy_cable(loss, **WIFI) as place:
            publisher, subscriber = place.open(2)
            subscriber.call("subscribe", topic="large", size=LARGE)
            publisher.call("ready", topic="large", count=1)
            sent = publisher.call("stream", topic="large", size=LARGE, seconds=60, count=LARGE_COUNT)["count"]
            got = subscriber.call("finished", topic="large", timeout=60)
        rate = got["count"] * LARGE / (got["ended"] - got["began"])
        whole = whole or rate
        bound = RATE_BOUNDS.get(loss, 1.0)
        good = got["complete"] and not got["gaps"] and got["count"] == sent and rate >= bound * whole
        figures = f"{got['count']} of {sent}, {rate / 1e6:.2f} MB/s, {rate / whole:.0%} (at least {bound:.0%})"
        yield f"512 kB over 54 Mb/s, {loss:.0%} loss", figures, good


def stopped() -> Iterator[Line]:
    """Measure a stream to eight receivers, one of which stops in its middle."""
    rates = []
    with namespaces(9) as place:
        publisher, victim, *others = place.open(9)
        for number in range(2):
            topic = f"stream/{number}"
            for node in (victim, *others):
                node.call("subscribe", topic=topic, size=STREAM)
            publisher.call("ready", topic=topic, count=8)
            publisher.call("stream_beside", topic=topic, size=STREAM, seconds=STREAM_SECONDS)
            if number:
                time.sleep(STREAM_SECONDS / 10)
                victim.stop()
            got = [node.call("finished", topic=topic, timeout=20) for node in others]
            victim.go_on()
            publisher.call("join")
            assert all(one["complete"] and not one["gaps"] for one in got), "the others lost something"
            rates.append(min(one["count"] * STREAM / (one["ended"] - one["began"]) for one in got))
    before, during = rates
    figures = (
        f"{before / 1e6:.0f} MB/s to each before, {during / 1e6:.0f} MB/s ({during / before:.0%}) while it is stopped"
    )
    yield "one of eight receivers stopped", f"{figures} (at least {OTHERS:.0%})", during >= OTHERS * before


CASES: dict[str, Callable[[], Iterator[Line]]] = {"small": small, "large": large, "stopped": stopped}


def main() -> int:
    """Measure, and return the exit code: 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="of: %(default)s")
    good = True
    for name in parser.parse_args().only.split(","):
        for what, figures, kept in CASES[name]():
            print(f"{what}: {figures}{'' if kept else '  BROKEN'}", flush=True)
            good = good and kept
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
