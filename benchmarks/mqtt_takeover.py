"""Kills one after the other of three MQTT doors, which are a cluster, under load of paho's clients.

    python -m benchmarks.mqtt_takeover 20
    python -m benchmarks.mqtt_takeover 20 --stages 2
    python -m benchmarks.mqtt_takeover split

Publishers and subscribers of MQTT 3.1.1 and 5 have sessions that stay, with QoS 1 and 2. A client whose door dies
connects to another one by itself. At each kill a client with a will dies together with its door. Three figures are
told at the end: the time from a kill to the first later message at the subscribers of the killed door; the time until
the killed door serves again; and the acknowledged messages that were lost or came twice.

`--stages` tells for each kill that took longer what happened at the doors and at the clients meanwhile.

`split` stops two of the doors for some seconds, so that the third one is a minority, and tells what its clients get.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

HOST = "127.0.0.1"
NAMES = ("one", "two", "three")
PACE = 0.01
"""Seconds between two publications of a publisher."""
DOWN, UP = 2.5, 2.0
"""Seconds for which a door is dead, and for which all live."""


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


class Door:
    """`glue mqtt` on loopback, one of a cluster."""

    def __init__(
        self, directory: Path, name: str, network: int, options: Sequence[str] = ("--shared", "doors")
    ) -> None:
        directory.mkdir()
        self.name = name
        self.port = free_port()
        self.is_alive = False
        self._directory = directory
        self._network = network
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.module = "glue.cmd.mqtt"
        self.stages: list[str] = []

    def launch(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, "--interface", "lo", "--network-id", str(self._network),
             "--port", str(self.port), "--host", HOST, "--anonymous", "--endpoint-name", self.name, "--data-dir",
             str(self._directory / "data"), *self._options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        threading.Thread(target=self._log, args=(self._process.stderr,), daemon=True).start()

    def _log(self, stream: IO[bytes]) -> None:
        """Write down what it logs, with the time."""
        with stream, (self._directory / "errors").open("ab", buffering=0) as errors:
            for line in stream:
                if line.split()[1:2] == [b"stage"]:
                    at, _, text = line.decode().strip().split(" ", 2)
                    self.stages.append(f"{at} {self.name} {text}")
                errors.write(b"%.3f %s" % (time.monotonic(), line))

    def wait(self) -> None:
        """Wait until it lets in a client with a session that stays."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError):
                made, code = connect(self, b"probe-" + self.name.encode())
                made.close()
                if code == 0:
                    self.is_alive = True
                    return
            time.sleep(0.02)
        raise TimeoutError(f"{self.name} does not serve: {(self._directory / 'errors').read_text()[-2000:]}")

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    def send(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        assert self._process is not None
        self.is_alive = False
        self._process.send_signal(number)
        self._process.wait()


class Paho(paho.Client):
    """A client of paho without its mistake: after two tries to connect it publishes anew what has a PUBREC already."""

    def _messages_reconnect_reset_out(self) -> None:
        released = [one for one in self._out_messages.values() if one.state == MessageState.MQTT_MS_RESEND_PUBREL]
        super()._messages_reconnect_reset_out()
        for one in released:
            one.state = MessageState.MQTT_MS_RESEND_PUBREL


class Client:
    """A client with a session that stays; it looks for another door when its own is gone."""

    def __init__(self, name: str, doors: list[Door], version: int, qos: int) -> None:
        self.name, self.qos = name, qos
        self.door = doors[0]
        self.got: Counter[bytes] = Counter()
        self.places: dict[bytes, list[str]] = {}  # where each message of QoS 2 came
        self.newest = 0.0
        self.acknowledged: set[bytes] = set()
        self._doors = doors
        self._waiting: dict[int, bytes] = {}
        self._done: deque[int] = deque()  # filled by the thread of paho, which holds locks of its own meanwhile
        self._made = 0
        self.stages: list[str] = []
        self._is_new = False
        more: dict[str, Any] = {} if version == 5 else {"clean_session": False}
        self.paho = Paho(
            CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5 if version == 5 else paho.MQTTv311, **more
        )
        self.paho.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        self.paho.max_inflight_messages_set(100)
        self.paho.on_message = self._on_message
        self.paho.on_publish = lambda _client, _data, number, *_: self._done.append(number)
        self.paho.on_disconnect = lambda *_: self._look_elsewhere("has lost")
        self.paho.on_connect_fail = lambda *_: self._look_elsewhere("does not reach")
        self.paho.on_connect = self._on_connect
        self._version = version

    def start(self) -> None:
        """Connect, and subscribe if it is a subscriber."""
        self._go_to(self.door)
        self.paho.loop_start()

    def _go_to(self, door: Door) -> None:
        self.door = door
        more: dict[str, Any] = {}
        if self._version == 5:
            more["properties"] = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            more["properties"].SessionExpiryInterval = 3600
            more["clean_start"] = False
        self.paho.connect_async(HOST, door.port, **more)

    def note(self, text: str) -> None:
        """Note a stage."""
        self.stages.append(f"{time.monotonic():.3f} {self.name} {text}")

    def _look_elsewhere(self, what: str) -> None:
        self.note(f"{what} {self.door.name}")
        others = [door for door in self._doors if door.is_alive and door is not self.door]
        self._go_to(random.choice(others or [self.door]))

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.note(f"is answered by {self.door.name}: {reason}")
        self._is_new = True
        if self.name.startswith("sub"):
            self.paho.subscribe("t/#", self.qos)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        self.got[message.payload] += 1
        if self._is_new:
            self._is_new = False
            self.note("gets a message")
        if self.qos == 2:
            place = f"{self.door.name} {time.monotonic():.3f} (id {message.mid}{', again' * message.dup})"
            self.places.setdefault(message.payload, []).append(place)
        if message.topic == "t/x":
            self.newest = max(self.newest, float(message.payload.split()[2]))

    def publish(self) -> None:
        """Publish a message."""
        self._made += 1
        payload = f"{self.name} {self._made} {time.monotonic():.6f}".encode()
        self._waiting[self.paho.publish("t/x", payload, self.qos).mid] = payload

    def still_waiting(self) -> int:
        """Look how many publications are not acknowledged."""
        while self._done:
            self.acknowledged.add(self._waiting.pop(self._done.popleft()))
        return len(self._waiting)


def mortal(door: Door, number: int) -> socket.socket:
    """A client with a will, on a plain socket."""
    will = b"will %d" % number
    body = b"\x00\x04MQTT\x04\x16\x00\x00" + _text(b"mortal") + _text(b"t/will") + _text(will)
    until = time.monotonic() + 30
    while True:
        made = socket.create_connection((HOST, door.port), timeout=10)
        made.sendall(bytes((0x10, len(body))) + body)
        answer = made.recv(4)
        if answer[3:] == b"\x00":
            return made
        made.close()
        print(f"a client with a will was refused: {answer.hex()}")
        if time.monotonic() > until:
            raise TimeoutError("a client with a will is not let in")
        time.sleep(0.5)


def _text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def tell_stages(since: float, those: Sequence[Door | Client]) -> None:
    """Tell what happened since then, in order."""
    for line in sorted(line for one in those for line in one.stages):
        at, _, text = line.partition(" ")
        if float(at) > since - 0.3:
            print(f"    {float(at) - since:+.3f} s {text}")


def run(doors: list[Door], kills: int, told_above: float) -> None:
    """Kill doors, and tell what became of the messages; and the stages of each kill that took longer than that."""
    publishers = [Client(f"pub-{version}-{qos}", doors, version, qos) for version in (4, 5) for qos in (1, 2)]
    subscribers = [Client(f"sub-{version}-{qos}", doors, version, qos) for version in (4, 5) for qos in (1, 2)]
    clients = [*subscribers, *publishers]
    for place, client in enumerate(clients):
        client.door = doors[place % len(doors)]
        client.start()
    time.sleep(2.0)
    is_ended = threading.Event()
    pacing = [threading.Thread(target=_publish, args=(one, is_ended), daemon=True) for one in publishers]
    for thread in pacing:
        thread.start()
    gaps: list[float] = []
    starts: list[float] = []
    for number in range(kills):
        time.sleep(UP)
        door = subscribers[number % len(subscribers)].door
        connection = mortal(door, number)
        time.sleep(0.2)
        affected = [one for one in subscribers if one.door is door]
        door.end(signal.SIGKILL)
        connection.close()
        at = killed_at = time.monotonic()
        while any(one.newest < at for one in affected) and time.monotonic() < at + 30:
            time.sleep(0.005)
        gaps.append(time.monotonic() - at)
        if gaps[-1] > told_above:
            tell_stages(at, [*doors, *clients])
        time.sleep(max(0.0, at + DOWN - time.monotonic()))
        at = time.monotonic()
        door.launch()
        door.wait()
        starts.append(time.monotonic() - at)
        print(f"{number + 1}: {len(affected)} subscribers went on after {gaps[-1]:.2f} s, {door.name} was killed at "
              f"{killed_at:.3f} and served {starts[-1]:.2f} s after its start", flush=True)  # fmt: skip
    is_ended.set()
    for thread in pacing:
        thread.join()
    until = time.monotonic() + 20
    while time.monotonic() < until and [one for one in publishers if one.still_waiting()]:
        time.sleep(0.1)
    acknowledged = [payload for one in publishers for payload in one.acknowledged]
    while time.monotonic() < until and any(one.got[payload] == 0 for one in subscribers for payload in acknowledged):
        time.sleep(0.1)
    time.sleep(8.0)  # for the last will
    tell(kills, publishers, subscribers, acknowledged)
    late = sum(gap > 3 for gap in gaps)
    print(f"subscribers of a killed door went on after {median(gaps):.2f} s ({min(gaps):.2f} to {max(gaps):.2f}), "
          f"95 % within {quantiles(gaps, n=20)[-1]:.2f} s, {late} later than 3 s")  # fmt: skip
    print(f"a killed door served {median(starts):.2f} s after its start (at most {max(starts):.2f})")
    for client in clients:
        client.paho.on_disconnect = None
        client.paho.disconnect()
        client.paho.loop_stop()


def tell(kills: int, publishers: list[Client], subscribers: list[Client], acknowledged: list[bytes]) -> None:
    """Tell what was lost of the acknowledged messages, and what came twice."""
    lost = sum(one.got[payload] == 0 for one in subscribers for payload in acknowledged)
    twice = Counter[str]()
    for one in subscribers:
        for payload, count in one.got.items():
            qos = 2 if payload.startswith(b"will") else min(one.qos, int(payload[6:7]))
            twice[f"QoS {qos}"] += count > 1
            if qos == 2 and count > 1:
                print(f"{one.name} got {payload!r} {count} times, at {', '.join(one.places[payload])}")
    wills = Counter(one.got[b"will %d" % number] for one in subscribers if one.qos == 2 for number in range(kills))
    never = sum(one.still_waiting() for one in publishers)
    print(f"{kills} kills: {len(acknowledged)} acknowledged, {never} never; lost at the four subscribers: {lost}")
    print(f"came twice: {dict(twice)}; wills by how often they came: {dict(wills)}")


def connect(door: Door, client_id: bytes) -> tuple[socket.socket, int]:
    """Connect a client of MQTT 5 with a session that stays; returns the reason code of the CONNACK, -1 for none."""
    body = b"\x00\x04MQTT\x05\x00\x00\x00\x05\x11\x00\x00\x0e\x10" + _text(client_id)
    made = socket.create_connection((HOST, door.port), timeout=30)
    made.sendall(bytes((0x10, len(body))) + body)
    answer = made.recv(1_000)
    return made, answer[3] if len(answer) > 3 else -1


def split(doors: list[Door]) -> None:
    """Stop two doors, and tell what clients of the third one get, and when it serves again."""
    alone, *others = doors
    for number in range(5):
        connected, code = connect(alone, b"stays")
        assert code == 0, f"{code:#04x}"
        for door in others:
            door.send(signal.SIGSTOP)
        at = time.monotonic()
        goodbye = connected.recv(1_000)
        closed = time.monotonic() - at
        refused, code = connect(alone, b"new")
        refused.close()
        for door in others:
            door.send(signal.SIGCONT)
        at = time.monotonic()
        back = -1
        while back and time.monotonic() < at + 30:
            made, back = connect(alone, b"stays")
            made.close()
        served = time.monotonic() - at
        print(f"{number + 1}: closed after {closed:.2f} s with {goodbye[2]:#04x}; a new one got {code:#04x}; "
              f"served {served:.2f} s after the end")  # fmt: skip
        connected.close()
        time.sleep(2)


def _publish(client: Client, is_ended: threading.Event) -> None:
    while not is_ended.is_set():
        if client.still_waiting() < 50:
            client.publish()
        time.sleep(PACE)


def main() -> None:
    """Start the doors, and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kills", nargs="?", default="20", help="how many, or `split`")
    parser.add_argument("--stages", type=float, metavar="SECONDS", help="tell the stages of a kill that took longer")
    arguments = parser.parse_args()
    network = random.randrange(1_000, 60_000)
    with tempfile.TemporaryDirectory() as path:
        doors = [Door(Path(path) / name, name, network) for name in NAMES]
        try:
            for door in doors:
                door.module = "glue.cmd.mqtt" if arguments.stages is None else "benchmarks.mqtt_stages"
            for door in doors:  # none is ready before the voters have found each other
                door.launch()
            for door in doors:
                door.wait()
            if arguments.kills == "split":
                split(doors)
            else:
                run(doors, int(arguments.kills), inf if arguments.stages is None else arguments.stages)
        finally:
            for door in doors:
                with suppress(ProcessLookupError):
                    door.end()
            if os.environ.get("SHOW_ERRORS"):
                for name in NAMES:
                    print(name, (Path(path) / name / "errors").read_text())


if __name__ == "__main__":
    main()
