"""What a slow disk costs other traffic: round trips at an endpoint that keeps a topic meanwhile.

    python -m benchmarks.slow_disk --rounds 10

An endpoint keeps a topic and answers requests. Another one publishes messages of 256 bytes there, 2,000 a second, with
a receipt each that is true once they are on disk. A third one asks 200 times a second, which leaves the processor time:
in turns with the disk as it is and with one that writes a megabyte a second. The ratio of each pair tells what the slow
disk costs.
"""

from __future__ import annotations

import argparse
import select
import statistics
import sys
import tempfile
import time

import glue
from benchmarks.healing import NETWORK, process, slow_down

MODULE = "benchmarks.slow_disk"
SIZE = 256
"""Bytes of a message that is kept."""
PACE = 0.005
"""Seconds between two groups of messages, and between two requests."""


def keep(folder: str, is_slow: bool) -> None:
    """Keep and answer until told to end: a process of its own."""
    if is_slow:
        slow_down()
    with glue.Endpoint("keeping", **NETWORK) as endpoint:
        endpoint.respond("echo", lambda asking: asking.payload)
        endpoint.keep("log", data_dir=folder)
        print("ready", flush=True)
        sys.stdin.read()


def publish(rate: int) -> None:
    """Publish at a pace until told to end, and tell how many are on disk: a process of its own."""
    with glue.Endpoint("publishing", **NETWORK) as endpoint:
        log = endpoint.topic("log", qos=glue.LOG)
        endpoint.wait_for_subscribers("log", timeout=10)
        print("ready", flush=True)
        receipts, due, end = [], time.monotonic(), False
        while not end:
            receipts += [log.publish(bytes(SIZE)) for _ in range(int(rate * PACE))]
            due += PACE
            time.sleep(max(due - time.monotonic(), 0.0))
            end = len(receipts) >= rate * 3600 or _told_to_end()
        began = time.monotonic()
        done = sum(receipt is not None and receipt.wait(20) for receipt in receipts)
        print(len(receipts), done, time.monotonic() - began, flush=True)


def trips(endpoint: glue.Endpoint, seconds: float) -> list[float]:
    """How long each round trip took, in microseconds; they begin at a pace."""
    took, due, end = [], time.monotonic(), time.monotonic() + seconds
    while due < end:
        due += PACE
        time.sleep(max(due - time.monotonic(), 0.0))
        began = time.perf_counter()
        endpoint.request("echo", b"x" * 100)
        took.append((time.perf_counter() - began) * 1e6)
    return took


def _told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def one_turn(asking: glue.Endpoint, seconds: float, rate: int, is_slow: bool) -> tuple[float, float, str]:
    """The median round trip, the longest of a hundred, in microseconds, and what was stored meanwhile."""
    with (
        tempfile.TemporaryDirectory(prefix="glue-slow-disk-") as folder,
        process(MODULE, "--keep", folder, *(["--slow"] if is_slow else [])),
    ):
        asking.wait_for_responders("echo", 1, 10)
        with process(MODULE, "--publish", str(rate)) as (asked, said):
            trips(asking, 1.0)
            hundredths = statistics.quantiles(trips(asking, seconds), n=100)
            asked.close()
            sent, done, late = said.read().split()
    return hundredths[49], hundredths[98], f"{done} of {sent}, the last {float(late):.2f} s after its publication"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each half of a round")
    parser.add_argument("--rate", type=int, default=2000, help="messages a second that are kept")
    parser.add_argument("--keep", help=argparse.SUPPRESS)
    parser.add_argument("--slow", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--publish", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.keep:
        keep(arguments.keep, arguments.slow)
        return
    if arguments.publish:
        publish(arguments.publish)
        return
    middles, tails = [], []
    with glue.Endpoint("asking", **NETWORK) as asking:
        for number in range(arguments.rounds):
            order = (False, True) if number % 2 else (True, False)
            found = {is_slow: one_turn(asking, arguments.seconds, arguments.rate, is_slow) for is_slow in order}
            for is_slow in (False, True):
                middle, longest, stored = found[is_slow]
                disk = "1 MB/s" if is_slow else "as it is"
                print(f"{disk:9} p50 {middle:6.0f}  p99 {longest:6.0f} µs  on disk: {stored}", flush=True)
            middles.append(found[True][0] / found[False][0])
            tails.append(found[True][1] / found[False][1])
    print(f"slow / as it is, medians: p50 {statistics.median(middles):.3f}, p99 {statistics.median(tails):.2f}")


if __name__ == "__main__":
    main()
