"""MQTT doors under a moderate load for an hour: memory, threads and descriptors must stay as they were.

    python -m benchmarks.mqtt_soak --minutes 60

Three doors are a cluster; a fourth one, in a network of its own, is none. All have a data directory. Each has clients
of its own that publish and subscribe at QoS 0, 1 and 2, and retain. Others come and go: each leaves a session with
waiting messages, which expires, and half of them a will. Once a minute memory, threads and descriptors of each door
are told. It fails if a door has grown, or if a message of QoS 1 or 2 is missing or comes twice.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from benchmarks.mqtt_takeover import HOST, NAMES, Door

GROWTH, SPARE = 1.05, 4 << 20
"""Growth of memory that is still flat; and some bytes more, as an allocator takes arenas one by one."""
RETAINED = 500
"""Topics with a retained message."""
EXPIRY = 20
"""Seconds until the sessions of clients that have gone end."""
MINUTE = 60.0


class Traffic:
    """The clients of a door: one that publishes, one that subscribes, and those that come and go."""

    def __init__(self, door: Door, others: list[Door], rate: float) -> None:
        """`others` have subscribers, too; `rate` is in messages a second."""
        self.door = door
        self.published = Counter[int]()
        self.got = Counter[tuple[int, int]]()
        self.come = 0
        self._pause = 1 / rate
        self._is_ended = threading.Event()
        self._ready = threading.Semaphore(0)
        self._name = f"{door.name}-"
        self._publisher = self._client("pub", door)
        self._subscribers = [self._client(f"sub{place}", one) for place, one in enumerate([door, *others])]
        for place, one in enumerate(self._subscribers):
            one.user_data_set(place)
            one.on_message = self._on_message
            one.on_subscribe = lambda *_: self._ready.release()
            one.subscribe(f"load/{door.name}/#", 2)
        for _ in self._subscribers:
            if not self._ready.acquire(timeout=30):
                raise TimeoutError(f"{door.name} answers no subscription")
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._come_and_go)]

    def _client(self, role: str, door: Door) -> paho.Client:
        made = paho.Client(CallbackAPIVersion.VERSION2, self._name + role, protocol=paho.MQTTv5)
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        lasting.SessionExpiryInterval = 3600
        made.connect(HOST, door.port, clean_start=False, properties=lasting)
        made.loop_start()
        until = time.monotonic() + 30
        while not made.is_connected() and time.monotonic() < until:
            time.sleep(0.01)
        return made

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def _on_message(self, client: paho.Client, place: Any, message: Any) -> None:
        self.got[place, int(message.topic[-1])] += 1

    def _publish(self) -> None:
        due = time.monotonic()
        number = 0
        while not self._is_ended.is_set():
            number += 1
            qos = number % 3
            payload = random.randbytes(random.choice((16, 64, 200, 1_000)))
            self._publisher.publish(f"load/{self.door.name}/{number % 20}/q{qos}", payload, qos)
            self.published[qos] += 1
            if number % 5 == 0:
                topic = f"kept/{self.door.name}/{random.randrange(RETAINED)}"
                self._publisher.publish(topic, payload, number % 3, retain=True)
            due += self._pause
            self._is_ended.wait(max(0.0, due - time.monotonic()))

    def _come_and_go(self) -> None:
        """Connect a client with a new id each second; it subscribes, and its connection breaks."""
        while not self._is_ended.wait(1.0):
            self.come += 1
            name = f"{self._name}guest-{self.come}".encode()
            expiry = b"\x05\x11" + EXPIRY.to_bytes(4, "big")
            body = b"\x00\x04MQTT\x05\x06\x00\x05" + expiry + _text(name)
            body += b"\x00" + _text(b"wills/" + name) + _text(b"gone")
            subscribe = b"\x00\x01\x00" + _text(f"load/{self.door.name}/1/#".encode()) + b"\x01"
            with suppress(OSError), socket.create_connection((HOST, self.door.port), timeout=10) as made:
                made.sendall(b"\x10" + bytes((len(body),)) + body + b"\x82" + bytes((len(subscribe),)) + subscribe)
                made.recv(1_000)
                time.sleep(0.05)
                if self.come % 2:
                    made.sendall(b"\xe0\x00")

    def end(self) -> list[str]:
        """End; returns what is wrong."""
        self._is_ended.set()
        for thread in self._threads:
            thread.join()
        until = time.monotonic() + 30
        while time.monotonic() < until and self._missing():
            time.sleep(0.2)
        missing = self._missing()
        for one in (self._publisher, *self._subscribers):
            one.disconnect()
            one.loop_stop()
        return [f"{self.door.name}: {missing} messages missing or twice"] if missing else []

    def _missing(self) -> int:
        return sum(
            abs(self.published[qos] - self.got[place, qos]) for place in range(len(self._subscribers)) for qos in (1, 2)
        )


def _text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


Sample = tuple[int, int, int, float]


def sample(door: Door) -> Sample:
    """Return bytes of memory, threads, descriptors and seconds of the processor."""
    found = psutil.Process(door.pid)
    times = found.cpu_times()
    return found.memory_info().rss, found.num_threads(), found.num_fds(), times.user + times.system


def judge(name: str, samples: list[Sample]) -> tuple[str, bool]:
    """Compare the second quarter with the last one; returns a line, and whether the door has grown."""
    quarter = max(1, len(samples) // 4)
    parts = samples[quarter : 2 * quarter], samples[-quarter:]
    memory = [median(one[0] for one in part) for part in parts]
    threads, files = ([max(one[place] for one in part) for part in parts] for place in (1, 2))
    is_grown = memory[1] > GROWTH * memory[0] + SPARE or threads[1] > threads[0] + 2 or files[1] > files[0] + 8
    cores = (samples[-1][3] - samples[0][3]) / MINUTE / max(1, len(samples) - 1)
    line = (f"{name}: memory {memory[0] / 1e6:.1f} to {memory[1] / 1e6:.1f} MB, threads {threads[0]} to {threads[1]}, "
            f"descriptors {files[0]} to {files[1]}, {cores:.3f} cores")  # fmt: skip
    return line, is_grown


def main() -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=10.0, help="messages a second at each door of the cluster")
    parser.add_argument("--lone-rate", type=float, default=100.0, help="at the door that stands alone")
    arguments = parser.parse_args()
    network = random.randrange(1_000, 60_000)
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as path:
        cluster = [Door(Path(path) / name, name, network) for name in NAMES]
        lone = Door(Path(path) / "lone", "lone", network + 1, ())
        doors = [*cluster, lone]
        try:
            for door in doors:
                door.launch()
            for door in doors:
                door.wait()
            traffic = [Traffic(door, [one for one in cluster if one is not door], arguments.rate) for door in cluster]
            traffic.append(Traffic(lone, [], arguments.lone_rate))
            for one in traffic:
                one.start()
            samples: dict[Door, list[Sample]] = {door: [] for door in doors}
            for minute in range(arguments.minutes + 1):
                for door in doors:
                    samples[door].append(sample(door))
                told = "  ".join(
                    f"{door.name} {samples[door][-1][0] / 1e6:.1f} MB {samples[door][-1][1:3]}" for door in doors
                )
                print(f"{minute:3} {told}", flush=True)
                if minute < arguments.minutes:
                    time.sleep(MINUTE)
            for one in traffic:
                problems += one.end()
            print(f"published: {sum(one.published.total() for one in traffic)}, "
                  f"received: {sum(one.got.total() for one in traffic)}, "
                  f"clients that came and went: {sum(one.come for one in traffic)}")  # fmt: skip
            for door in doors:
                line, is_grown = judge(door.name, samples[door])
                print(line)
                problems += [f"{door.name} has grown"] * is_grown
        finally:
            for door in doors:
                with suppress(ProcessLookupError):
                    door.end()
    print("\n".join(f"PROBLEM: {problem}" for problem in problems) or "nothing has grown, nothing is missing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
