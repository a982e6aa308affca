"""Sends damaged packets to a door over TCP. It must close each connection with the reason, and stay alive and small.

    python -m benchmarks.mqtt_damaged --packets 1000000 --seed 1

Ctrl-C ends a run early, and shows its result. Another seed then sends other packets.

A client connects well, unless its damaged packet is a CONNECT, and sends damaged packets until the door's own decoder,
run beside it, refuses one or waits for more. Then the door has to close, with the same reason in MQTT 5. Retained
messages and sessions that stay are left out, as far as damage does not make them: the door would have to keep them.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random

from benchmarks.mqtt_codec_packets import Maker
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.packets import Auth, Disconnect
from tests.support import mqtt

HOST = "127.0.0.1"
AT_ONCE = 32
PATIENCE = 60.0
FAILURES = ("not closed", "closed without a reason", "DISCONNECT to a client of 3.1.1")


class PassingMaker(Maker):
    """Makes packets that leave nothing at a door."""

    def chosen(self, kind: int, share: float = 0.25) -> dict[str, object]:
        """Some properties of a packet, but no session expiry."""
        return {name: value for name, value in super().chosen(kind, share).items() if name != "session_expiry_interval"}

    def packet(self, version: int) -> bytes:
        """A packet without retain; a CONNECT begins anew."""
        data = bytearray(super().packet(version))
        if data[0] >> 4 == codes.PUBLISH:
            data[0] &= ~1
        elif data[0] >> 4 == codes.CONNECT:
            flags = 9 + (data[1] > 127)
            data[flags] = (data[flags] | 2) & ~0x20
        return bytes(data)


class Visit:
    """A connection, with what it sends and what has to come of it."""

    def __init__(self, maker: Maker, port: int) -> None:
        self.count = 0
        self.decoder = Decoder()
        self.code: int | None = None
        self.says_goodbye = False
        version = maker.random.choice((codes.V311, codes.V5))
        out = b""
        while self.code is None and not self.says_goodbye and not self.decoder.has_part:
            data = maker.damage(maker.packet(version))
            if not out and data[0] >> 4 != codes.CONNECT:
                out = mqtt.connect(f"c{maker.random.randrange(64)}", version)
                list(self.decoder.feed(out))
            out += data
            self.count += 1
            self._expect(data)
        self.socket = socket.create_connection((HOST, port))
        self.socket.settimeout(PATIENCE)
        with suppress(ConnectionError):
            self.socket.sendall(out)

    def _expect(self, data: bytes) -> None:
        try:
            for packet in self.decoder.feed(data):
                self.says_goodbye = self.says_goodbye or isinstance(packet, Disconnect | Auth)
        except ProtocolError as error:
            self.code = error.code

    def outcome(self) -> str:
        """Return how the connection ended, or that it did not."""
        with self.socket:
            if self.code is None and not self.says_goodbye:
                return "waits for the rest of a packet"
            received = b""
            try:
                while data := self.socket.recv(65_536):
                    received += data
            except TimeoutError:
                return "not closed"
            except ConnectionError:
                return "reset"
        sent = list(mqtt.split(received))
        goodbye = sent[-1] if sent and sent[-1].kind == codes.DISCONNECT else None
        if self.says_goodbye:
            return "closed after a DISCONNECT or AUTH of the client"
        if self.decoder.version != codes.V5:
            return "DISCONNECT to a client of 3.1.1" if goodbye else "closed, 3.1.1 or no CONNECT"
        if goodbye is not None:
            return f"closed with {'the' if goodbye.body[0] == self.code else 'an earlier'} reason"
        refused = sent and sent[-1].kind == codes.CONNACK and sent[-1].body[1] >= 0x80
        return "CONNECT refused with a reason" if refused else "closed without a reason"


def resident(process: int) -> float:
    """Memory of a process in MB."""
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def started(port: int) -> subprocess.Popen[bytes]:
    """A door in a process of its own that listens."""
    options = ["--interface", "lo", "--network-id", str(port), "--host", HOST, "--port", str(port), "--anonymous"]
    command = [sys.executable, "-m", "glue.cmd.main", "mqtt", *options]
    door = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(ConnectionError):
            socket.create_connection((HOST, port)).close()
            break
        time.sleep(0.05)
    return door


def main() -> int:
    """Run; returns 1 if the door did something else than it should."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mqtt_damaged", description="Damaged packets over TCP.")
    parser.add_argument("--packets", type=int, default=20_000, help="how many (default 20,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the packets (default 1)")
    options = parser.parse_args()
    with socket.create_server((HOST, 0)) as free:
        port = int(free.getsockname()[1])
    door, maker = started(port), PassingMaker(Random(options.seed))
    outcomes: Counter[str] = Counter()
    count = shown = 0
    try:
        with suppress(KeyboardInterrupt), socket.create_connection((HOST, port)) as honest:
            honest.settimeout(PATIENCE)
            honest.sendall(mqtt.connect("honest"))
            honest.recv(4)
            while count < options.packets:
                visits = [Visit(maker, port) for _ in range(AT_ONCE)]
                outcomes.update(visit.outcome() for visit in visits)
                count += sum(visit.count for visit in visits)
                if count >= shown:
                    honest.sendall(mqtt.PING)
                    assert honest.recv(2) == b"\xd0\0", "a client that does nothing wrong is served"
                    print(f"{count:>9,} packets, {resident(door.pid):.1f} MB", flush=True)
                    shown = count + options.packets // 20
        print(f"{count:>9,} packets, {resident(door.pid):.1f} MB")
        for name, number in outcomes.most_common():
            print(f"{number:>9,} {name}")
    finally:
        door.terminate()
        code = door.wait(PATIENCE)
    return int(code != 0 or any(outcomes[name] for name in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
