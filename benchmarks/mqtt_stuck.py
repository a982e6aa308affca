"""What a stuck door costs the clients of the other doors of its cluster: delays of paced messages, in turns.

    python -m benchmarks.mqtt_stuck --rounds 6
    python -m benchmarks.mqtt_stuck --rounds 6 --what leader
    python -m benchmarks.mqtt_stuck --rounds 6 --what disk

Three doors are a cluster. A client of one door publishes to a client of a second one, with QoS 0 and QoS 1. In each
round the third door runs at first, and gets stuck then: it is stopped (SIGSTOP), so its sockets stay open, and it takes
nothing. The first seconds after that are a row of their own. It is a door that does not lead the model of the cluster,
or the leader (`leader`), or the leader whose disk takes no more (`disk`: each sync waits until the turn is over).

Beside this, two clients connect at once to a door that runs: a new one with a session that stays, and one whose session
is at the stuck door. The time until each is let in is told, and how long a publication of QoS 1 waits for its PUBACK.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from math import inf
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

import glue
from benchmarks.mqtt_takeover import HOST, NAMES, Door, connect

TURN, AFTER, REST = 8.0, 4.0, 4.0
"""Seconds of a turn, of the time after the stop that counts apart, and of that after the door goes on."""
PAUSE = 0.005
"""Seconds between two messages of a QoS."""

Delays = dict[tuple[int, str], list[list[float]]]


class Pair:
    """A publisher at one door, and a subscriber at another."""

    def __init__(self, sender: Door, receiver: Door) -> None:
        self.phase = ""
        self.delays: dict[tuple[int, str], list[float]] = defaultdict(list)
        self.acknowledged = 0.0  # the longest wait for a PUBACK
        self._waiting: dict[int, float] = {}
        self._sender, self._receiver = (self._client(door) for door in (sender, receiver))
        self._receiver.on_message = self._on_message
        self._sender.on_publish = self._on_publish
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

    def _on_publish(self, client: paho.Client, data: Any, number: int, *_: Any) -> None:
        self.acknowledged = max(self.acknowledged, time.monotonic() - self._waiting.pop(number, inf))

    def publish(self, phase: str, seconds: float) -> None:
        """Publish with both QoS."""
        due = time.monotonic()
        until = due + seconds
        while due < until:
            for qos in (0, 1):
                sent = time.monotonic()
                number = self._sender.publish(f"paced/{qos}", f"{phase} {sent:.6f}", qos).mid
                if qos:
                    self._waiting[number] = sent
            due += PAUSE
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        """Disconnect."""
        for one in (self._sender, self._receiver):
            one.disconnect()
            one.loop_stop()


class Waits:
    """How long clients wait that connect just after a door got stuck."""

    def __init__(self) -> None:
        self.new: list[float] = []
        self.moved: list[float] = []
        self.published: list[float] = []

    def connect(self, door: Door, client_id: bytes, found: list[float]) -> None:
        """Connect until it is let in, and note how long that took."""
        begun = time.monotonic()
        code = -1
        while code:
            made, code = connect(door, client_id)
            made.close()
        found.append(time.monotonic() - begun)


class Trouble:
    """How a door gets stuck, and which."""

    def __init__(self, what: str, path: Path, doors: list[Door], network: int) -> None:
        self._what, self._flag = what, path / "stuck"
        self._doors = doors
        self._watcher = glue.Endpoint("watcher", interface="lo", network_id=network)
        self._watcher.start()
        self._model = self._watcher.model("doors", observer=True)

    def victim(self) -> Door:
        """The door to get stuck: the leader of the model, or the last of the others."""
        while (leader := self._model.leader) is None:
            time.sleep(0.05)
        return next(door for door in reversed(self._doors) if (door.name == leader) != (self._what == "peer"))

    def begin(self, door: Door) -> None:
        """Let it get stuck."""
        if self._what == "disk":
            self._flag.with_name(f"stuck-{door.name}").touch()
        else:
            door.send(signal.SIGSTOP)

    def end(self) -> None:
        """Let all doors go on."""
        for door in self._doors:
            self._flag.with_name(f"stuck-{door.name}").unlink(missing_ok=True)
            door.send(signal.SIGCONT)

    def close(self) -> None:
        """Let the watcher go."""
        self._watcher.close()


def play(trouble: Trouble, doors: list[Door], waits: Waits, number: int) -> Pair:
    """Play one round."""
    victim = trouble.victim()
    one, other = (door for door in doors if door is not victim)
    moving = b"moving-%d" % number
    connect(victim, moving)[0].close()
    pair = Pair(one, other)
    pair.publish("all run", TURN)
    trouble.begin(victim)
    clients = [
        threading.Thread(target=waits.connect, args=(one, b"new-%d" % number, waits.new)),
        threading.Thread(target=waits.connect, args=(other, moving, waits.moved)),
    ]
    for client in clients:
        client.start()
    pair.acknowledged = 0.0
    pair.publish("just stuck", AFTER)
    waits.published.append(pair.acknowledged)
    pair.publish("one is stuck", TURN)
    for client in clients:
        client.join()
    trouble.end()
    pair.publish("it goes on", REST)
    return pair


def percentile(delays: list[float], which: int) -> float:
    """Return a percentile in milliseconds."""
    return 1e3 * quantiles(delays, n=100)[which - 1]


def tell(rounds: Delays, waits: Waits) -> None:
    """Print a row for each QoS and phase, and what clients waited for."""
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
    for name, waited in (
        ("a new session", waits.new),
        ("a session of the stuck door", waits.moved),
        ("a publication", waits.published),
    ):
        print(f"{name} waited {median(waited):.2f} s, at most {max(waited):.2f} s")


def main() -> int:
    """Run the rounds, and tell what they gave."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--what", choices=("peer", "leader", "disk"), default="peer", help="(default: %(default)s)")
    rounds: Delays = defaultdict(list)
    arguments = parser.parse_args()
    waits = Waits()
    with tempfile.TemporaryDirectory() as path:
        network = random.randrange(1, 1 << 16)
        doors = [Door(Path(path) / name, name, network) for name in NAMES]
        trouble = Trouble(arguments.what, Path(path), doors, network)
        os.environ["STUCK_DISK"] = path
        try:
            for door in doors:
                if arguments.what == "disk":
                    door.module = "benchmarks.mqtt_stuck_disk"
                door.launch()
            for door in doors:
                door.wait()
            for number in range(arguments.rounds):
                pair = play(trouble, doors, waits, number)
                pair.end()
                for key, delays in pair.delays.items():
                    rounds[key].append(delays)
        finally:
            trouble.close()
            trouble.end()
            for door in doors:
                door.end()
    print(f"load {os.getloadavg()[0]:.1f}, medians of {arguments.rounds} rounds, of {TURN / PAUSE:.0f} messages a turn")
    tell(rounds, waits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
