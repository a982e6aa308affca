"""Synthetic captures of any length with known truth: streams with loss, resends, duplicates and ACKs.

Each sender has one receiver. Frames are captured at `left`, next to the senders, and at `right`, next to the receivers.
The clock of `right` is ahead. Headers follow docs/wire-format.md. The same arguments give the same files.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path

LOSS, DUPLICATES = 0.01, 0.001
"""Shares of frames that are lost, and that arrive twice, between left and right."""
ACK_EVERY = 8
DELAY_NS, JITTER_NS = 400_000, 200_000
OFFSET_NS = 1_234_567
RESEND_AFTER_NS = 5_000_000
BODY = 480
START_NS = 1_700_000_000_000_000_000

_RECORD = struct.Struct("<IIII")
_HEADERS = struct.Struct(">12sHBBHHHBBHIIHHHH")


@dataclass
class Truth:
    """Known facts about one stream. `host` sends it."""

    host: str
    messages: int = 0
    resends: int = 0
    lost: int = 0
    duplicates: int = 0


class Capture:
    """One capture file: Ethernet frames with timestamps in nanoseconds."""

    def __init__(self, path: Path) -> None:
        self.frames = 0
        self._rows: list[tuple[int, bytes]] = []
        self._path = path

    def add(self, time_ns: int, frame: bytes) -> None:
        """Add a frame. The times may come in any order."""
        self._rows.append((time_ns, frame))

    def write(self) -> None:
        """Write all frames in the order of time."""
        self._rows.sort(key=lambda row: row[0])
        with self._path.open("wb", buffering=1 << 20) as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
            for time_ns, frame in self._rows:
                seconds, rest = divmod(time_ns, 1_000_000_000)
                file.write(_RECORD.pack(seconds, rest, len(frame), len(frame)) + frame)
        self.frames = len(self._rows)


def framed(source: int, destination: int, datagram: bytes) -> bytes:
    """Return a datagram as an Ethernet frame between hosts of 10.0.0.0/8, both on port 40000."""
    size = len(datagram)
    addresses = (10 << 24 | source, 10 << 24 | destination)
    ip = (0x45, 0, 28 + size, 0, 0, 1, 17, 0, *addresses)
    return _HEADERS.pack(bytes(12), 0x0800, *ip, 40_000, 40_000, 8 + size, 0) + datagram


def make(directory: Path, frames: int, streams: int = 8, seed: int = 1) -> dict[str, Truth]:
    """Write left.pcap and right.pcap with about `frames` frames in all. Return the truth by sender's id."""
    rng = random.Random(seed)
    left, right = Capture(directory / "left.pcap"), Capture(directory / "right.pcap")
    truth = {}
    per_stream = int(frames / streams / (2 * (1 + LOSS) + 2 / ACK_EVERY))
    for stream in range(streams):
        name = f"{stream * 0x1234567 + 0xE367:016x}"
        truth[name] = _stream(rng, left, right, name, stream, per_stream)
    left.write()
    right.write()
    return truth


def _stream(rng: random.Random, left: Capture, right: Capture, name: str, number: int, messages: int) -> Truth:
    sender, receiver = 2 * number + 1, 2 * number + 2
    told = Truth(f"10.0.0.{sender}", messages)
    head = f'{{"glue":[1,1,"{name}",1740800000000000,'
    answer = f'{{"glue":[1,1,"{name[::-1]}",1740800000000001,'
    body = b'{"groups":[{"topic":"bench/%d","sequence":1,"at":1700000000000000,"length":400}]}\n' % number
    body = body.ljust(BODY, b".")
    counter, acks = 0, 0
    for sequence in range(messages):
        now = START_NS + sequence * 100_000 + number * 1000
        arrived_ns, attempt = 0, 0
        while not arrived_ns:
            age = attempt * RESEND_AFTER_NS // 1_000_000
            text = f'{head}{counter}],"transport":["data",{attempt},{age},0,0,0,1,{sequence}]}}\n'
            frame = framed(sender, receiver, text.encode() + body)
            left.add(now, frame)
            counter += 1
            if rng.random() >= LOSS:
                arrived_ns = now + DELAY_NS + rng.randrange(JITTER_NS)
                right.add(arrived_ns + OFFSET_NS, frame)
                if rng.random() < DUPLICATES:
                    right.add(arrived_ns + OFFSET_NS + 1000, frame)
                    told.duplicates += 1
            else:
                told.lost += 1
                told.resends += 1
                attempt += 1
                now += RESEND_AFTER_NS
        if sequence % ACK_EVERY == ACK_EVERY - 1:
            held_us = rng.randrange(100)
            text = f'{answer}{acks}],"transport":["ack",{held_us},4096,1,{sequence + 1}]}}\n[]'
            frame = framed(receiver, sender, text.encode())
            sent_ns = arrived_ns + held_us * 1000
            right.add(sent_ns + OFFSET_NS, frame)
            left.add(sent_ns + DELAY_NS, frame)
            acks += 1
    return told
