"""What a stuck door costs the clients of the other doors of its cluster: delays of paced messages, in turns.

    python -m benchmarks.mqtt_stuck --rounds 6

Three doors are a cluster. A client of the first door publishes to a client of the second, with QoS 0 and QoS 1. In each
round the third door runs at first, and is stopped then (SIGSTOP): its sockets stay open, and it takes nothing. The
first seconds after the stop are a row of their own: if the third door leads the cluster, QoS 1 waits for the election.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.mqtt_takeover import HOST, NAMES, Door

TURN, AFTER, REST = 8.0, 4.0, 3.0
"""Seconds of a turn, of the time after the stop that counts apart, and of the rest after the door goes on."""
PAUSE = 0.005
"""Seconds between two messages of a QoS."""

Delays = dict[tuple[int, str], list[list[float]]]


class Pair:
    """A publisher at one door, and a subscriber at another."""

    def __init__(self, sender: Door, receiver: Door) -> None:
        self.phase = ""
        self.delays: dict[tuple[int, str], list[float]] = defaultdict(list)
        self._sender, self._receiver = (self._client(door) for door in (sender, receiver))
        self._receiver.on_message = self._on_message
        for qos in (0, 1):
            self._receiver.subscribe(f"paced/{qos}", qos)
        time.sleep(1.0)

    @staticmethod
    def _client(door: Door) -> paho.Client:
        made = paho.Client(CallbackAPIVersion.VERSION2)
        made.max_inflight_messages_set(10_000)
        made.connect(HOST, door.port)
        made.loop_start()
        return made

    def _on_message(self, client: paho.Client, data: Any, message: Any) -> None:
        phase, _, sent = message.payload.rpartition(b" ")
        self.delays[message.qos, phase.decode()].append(time.monotonic() - float(sent))

    def publish(self, phase: str, seconds: float) -> None:
        """Publish with both QoS."""
        due = time.monotonic()
        until = due + seconds
        while due < until:
            for qos in (0, 1):
                self._sender.publish(f"paced/{qos}", f"{phase} {time.monotonic():.6f}", qos)
            due += PAUSE
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        """Disconnect."""
        for one in (self._sender, self._receiver):
            one.disconnect()
            one.loop_stop()


def percentile(delays: list[float], which: int) -> float:
    """Return a percentile in milliseconds."""
    return 1e3 * quantiles(delays, n=100)[which - 1]


def main() -> int:
    """Run the rounds, and print a row for each QoS and phase."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=6)
    rounds: Delays = defaultdict(list)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        network = random.randrange(1, 1 << 16)
        doors = [Door(Path(path) / name, name, network) for name in NAMES]
        try:
            for door in doors:
                door.launch()
            for door in doors:
                door.wait()
            for _ in range(arguments.rounds):
                pair = Pair(doors[0], doors[1])
                pair.publish("all run", TURN)
                doors[2].send(signal.SIGSTOP)
                pair.publish("just stopped", AFTER)
                pair.publish("one is stuck", TURN)
                doors[2].send(signal.SIGCONT)
                time.sleep(REST)
                pair.end()
                for key, delays in pair.delays.items():
                    rounds[key].append(delays)
        finally:
            for door in doors:
                door.send(signal.SIGCONT)
                door.end()
    print(f"load {os.getloadavg()[0]:.1f}, medians of {arguments.rounds} rounds, of {TURN / PAUSE:.0f} messages a turn")
    for (qos, phase), found in sorted(rounds.items()):
        p50, p99 = (median(percentile(delays, which) for delays in found) for which in (50, 99))
        print(
            f"QoS {qos}, {phase:12}: p50 {p50:6.2f} ms, p99 {p99:6.2f} ms, longest {1e3 * max(map(max, found)):7.1f} ms"
        )
    for qos in (0, 1):
        ratios = [
            percentile(stuck, 99) / percentile(running, 99)
            for stuck, running in zip(rounds[qos, "one is stuck"], rounds[qos, "all run"], strict=True)
        ]
        print(f"QoS {qos}: p99 beside a stuck door is {median(ratios):.2f} of that beside one that runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
