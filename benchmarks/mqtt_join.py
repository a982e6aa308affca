"""How soon a door that comes serves: a cluster of three MQTT doors, each on a host of its own, and one that comes.

    python -m benchmarks.mqtt_join --times 10        # as root: it makes network namespaces, and removes them

The cluster has sessions with waiting messages, and retained messages. Then a fourth door comes, new each time; and one
of the three is killed and comes back. Each time a client connects there as soon as it is let in, and goes on with a
session that was at another door. Told are the times from the start of the process: until the client is let in, until it
has all that waited for it, and until it has all retained messages, too.
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.results import ROOT
from tests.support.namespaces import Host, segment

PORT = 1883
SESSIONS, WAITING, RETAINED = 100, 500, 2_000
TOGETHER = 100
"""Messages that a publisher sends before it waits for their acknowledgements."""
PATIENCE = 60.0


class Door:
    """`glue mqtt` on a host."""

    def __init__(self, host: Host, name: str, directory: Path) -> None:
        self.host, self._name, self._directory = host, name, directory
        self.begin()

    def begin(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "glue.cmd.mqtt", "--interface", "eth0", "--anonymous", "--shared", "doors"]
        command += ["--endpoint-name", self._name, "--data-dir", str(self._directory)]
        self.began_at = time.monotonic()
        self._process = self.host.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)

    def kill(self) -> None:
        """Kill it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


class Client:
    """A client of MQTT 3.1.1 with a session that stays, on a plain socket."""

    def __init__(self, door: Door, name: str) -> None:
        """Connect, again and again until the door lets it in."""
        until = time.monotonic() + PATIENCE
        body = b"\x00\x04MQTT\x04\x00\x00\x00" + _text(name)
        while True:
            with suppress(OSError):
                self._socket = socket.create_connection((door.host.address, PORT), timeout=PATIENCE)
                self._socket.sendall(bytes((0x10, len(body))) + body)
                self._packets: Iterator[tuple[int, bytes]] = self._read()
                kind, answer = next(self._packets, (0, b""))
                if kind == 0x20 and answer[1] == 0:
                    self.was_there = answer[0] == 1
                    return
                self._socket.close()
            if time.monotonic() > until:
                raise TimeoutError(f"{name} is not let in")
            time.sleep(0.01)

    def _read(self) -> Iterator[tuple[int, bytes]]:
        data = bytearray()
        while more := self._socket.recv(1 << 18):
            data += more
            at = 0
            while (found := _packet(data, at)) is not None:
                kind, start, at = found
                yield kind, bytes(data[start:at])
            del data[:at]

    def subscribe(self, topic_filter: str) -> None:
        """Subscribe with QoS 1, and wait for the answer."""
        self._send(0x82, b"\x00\x01" + _text(topic_filter) + b"\x01")
        early: list[tuple[int, bytes]] = []  # retained messages may come before the answer
        while (packet := next(self._packets))[0] != 0x90:
            early.append(packet)
        self._packets = chain(early, self._packets)

    def publish(self, topic: str, count: int, is_retained: bool = False) -> None:
        """Publish messages with QoS 1, and wait until all are acknowledged."""
        for number in range(1, count + 1):
            name = f"{topic}/{number}" if is_retained else topic
            self._send(0x32 | is_retained, _text(name) + number.to_bytes(2, "big") + b"value %d" % number)
            if not number % TOGETHER or number == count:
                for _ in range((number - 1) % TOGETHER + 1):
                    assert next(self._packets)[0] == 0x40

    def receive(self, count: int) -> None:
        """Wait for so many messages with other contents, and acknowledge them."""
        found = set[bytes]()
        while len(found) < count:
            kind, body = next(self._packets)
            if kind & 0xF0 == 0x30:
                end = 2 + int.from_bytes(body[:2], "big")
                if kind & 0x06:
                    self._send(0x40, body[end : end + 2])
                    end += 2
                found.add(body[end:])

    def _send(self, kind: int, body: bytes) -> None:
        assert len(body) < 128
        self._socket.sendall(bytes((kind, len(body))) + body)

    def leave(self) -> None:
        """Disconnect."""
        self._socket.sendall(b"\xe0\x00")
        self._socket.close()


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def _packet(data: bytearray, at: int) -> tuple[int, int, int] | None:
    """The first byte of the packet at a place, where its body starts, and where it ends; None if it is not whole."""
    size = 0
    for place in range(at + 1, min(at + 5, len(data))):
        size |= (data[place] & 0x7F) << 7 * (place - at - 1)
        if data[place] < 0x80:
            return (data[at], place + 1, place + 1 + size) if place + 1 + size <= len(data) else None
    return None


def measure(door: Door, name: str) -> tuple[float, float, float]:
    """Go on with a session at a door that has just begun; returns the three times."""
    client = Client(door, name)
    let_in = time.monotonic()
    assert client.was_there
    client.receive(WAITING)
    had_all = time.monotonic()
    client.subscribe("kept/#")
    client.receive(RETAINED)
    ended = time.monotonic()
    client.leave()
    return let_in - door.began_at, had_all - door.began_at, ended - door.began_at


def run(hosts: list[Host], directory: Path, times: int) -> None:
    """Measure all."""
    *those, last, outside = hosts
    doors = [Door(host, f"door-{host.number}", directory / str(host.number)) for host in those]
    with outside.entered():
        publisher = Client(doors[0], "publisher")
        print(f"three doors served {time.monotonic() - doors[-1].began_at:.2f} s after their start", flush=True)
        names = [f"session-{number}" for number in range(max(SESSIONS, 2 * times))]
        for number, name in enumerate(names):
            client = Client(doors[number % 3], name)
            client.subscribe("waiting")
            client.leave()
        publisher.publish("waiting", WAITING)
        publisher.publish("kept", RETAINED, is_retained=True)
        for what in ("a new door", "a killed door"):
            found: list[tuple[float, float, float]] = []
            for number in range(times):
                if what == "a new door":
                    door = Door(last, "door-new", directory / f"new-{number}")
                else:
                    door = doors[2]
                    door.kill()
                    time.sleep(2.0)
                    door.begin()
                found.append(measure(door, names.pop()))
                print(f"  {what}: {' / '.join(f'{one:.2f}' for one in found[-1])} s", flush=True)
                if what == "a new door":
                    door.kill()
                    time.sleep(2.0)
            told = " / ".join(f"{median(part):.2f} ({max(part):.2f})" for part in zip(*found, strict=True))
            print(f"{what}: let in / all that waited / all retained after, median (longest): {told} s")


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--times", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path, segment(5) as hosts:
        time.sleep(2.0)  # until the bridge forwards
        run(hosts, Path(path), arguments.times)


if __name__ == "__main__":
    main()
