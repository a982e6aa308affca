"""Benchmark of the capture engines: the frames per second without loss. Run it as root.

    python -m benchmarks.capture_engines

A sender on loopback offers datagrams of glue's size at a given rate. The engines of `glue record` read them, and
nothing is written to disk. The output has the frames taken and dropped, and the recorder's CPU time per frame.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from glue.capture.ring import Ring
from glue.capture.sniffer import Sniffer

PORT = 37399
SENDER = """
import socket, sys, time
count, rate, port = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
datagram = b'{"glue":[1,1,"e36759dea8a54260",1740800000000000,5]}\\n' + bytes(600)
sender, began = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), time.perf_counter()
for number in range(count):
    sender.sendto(datagram, ("127.0.0.1", port))
    if number % 20 == 0:
        time.sleep(max(0, began + number / rate - time.perf_counter()))
"""
ENGINES: dict[str, Callable[[], Ring | Sniffer]] = {
    "ring": lambda: Ring("lo", PORT),
    "scapy": lambda: Sniffer("lo", PORT),
}


def measure(make: Callable[[], Ring | Sniffer], rate: int, seconds: float) -> tuple[int, int, float]:
    """Return frames taken, frames dropped, and CPU seconds per frame taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", PORT))  # otherwise the system answers each datagram with an ICMP error
        source, taken = make(), 0
        command = [sys.executable, "-c", SENDER, str(int(rate * seconds)), str(rate), str(PORT)]
        with subprocess.Popen(command) as sender:
            began = time.process_time()
            while sender.poll() is None:
                taken += source.read(0.2, lambda *_: None)
            while more := source.read(0.2, lambda *_: None):
                taken += more
            cost = time.process_time() - began
        dropped = source.count_drops() or 0
        source.close()
    return taken, dropped, cost / max(1, taken)


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capture_engines")
    parser.add_argument("--rates", default="4000,20000,50000,100000", help="frames a second")
    parser.add_argument("--seconds", type=float, default=1.5)
    arguments = parser.parse_args()
    for name, make in ENGINES.items():
        for rate in map(int, arguments.rates.split(",")):
            taken, dropped, cost = measure(make, rate, arguments.seconds)
            offered = int(rate * arguments.seconds)
            told = f"{taken:>8,} of {offered:>8,} taken  {dropped:>8,} dropped  {cost * 1e6:6.1f} µs a frame"
            print(f"{name:6} {rate:>8,}/s  {told}", flush=True)


if __name__ == "__main__":
    main()
