"""Recorded runs of transports alone: what is sent and when under loss, delay, silence and in each class; and windows.

A line has what each endpoint has heard, and what all have counted. A number stands for all that was sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from glue.contract import BULK, NORMAL, URGENT, Downward, Outbound
from glue.transport.window import Window, least_part
from tests.transport.network import Wire
from tests.transport.streams import silence

BODY = bytes(1_000)


class Noted(Wire):
    """A wire whose traffic is written down."""

    traffic = 0

    def _fly(self, source: str, items: list[Downward]) -> None:
        for item in items:
            if isinstance(item, Outbound):
                told = (self.now, source, item.peers, len(item.bodies), sorted(item.header.items()), item.priority)
                self.traffic = crc32(repr(told).encode(), self.traffic)
        super()._fly(source, items)

    def line(self, what: str) -> str:
        """What has happened so far."""
        self.commit()
        counts = Counter[str]()
        for transport in self.transports.values():
            counts.update(transport.statistics)
        heard = ", ".join(str(len(self.heard[id])) for id in self.ids)
        order = crc32(repr([[body[:8] for _, body in self.heard[id]] for id in self.ids]).encode())
        news = Counter(type(one).__name__ for id in self.ids for one in self.news[id])
        told = ", ".join(f"{count} {name}" for name, count in sorted(news.items()))
        counted = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        return f"{what}: heard {heard}; {told}; {counted}; backlog {self.backlog}; {self.traffic:08x} {order:08x}\n"


def streamed(wire: Noted, seconds: float, frames: int = 20, **options: Any) -> None:
    """Messages of some frames to all others every 10 ms, half of them to one more group, and some answers."""
    others = list(range(1, len(wire.ids)))
    until, number = wire.now + seconds, 0
    while wire.now < until:
        number += 1
        body = b"%07d " % number + BODY
        if wire.backlog < 1 << 20:
            wire.publish(0, others, body, frames, **options)
            if number % 2:
                wire.publish(0, others[:1], body, 3, **options)
            if number % 7 == 0:
                wire.publish(1, [0], body)
        wire.run(0.01)


def wires() -> str:
    """Streams under each trouble, and what follows when it is over."""
    lines = []
    plain: dict[str, dict[str, Any]] = {
        "clean": {}, "loss": {"loss": 0.05}, "copies": {"duplicate": 0.2}, "jitter": {"jitter": 0.004, "loss": 0.01},
        "parity": {"loss": 0.02, "parity": 0.05}, "wild": {"loss": 0.2, "duplicate": 0.1, "jitter": 0.02},
    }  # fmt: skip
    for name, given in plain.items():
        for delay in (0.001, 0.03):
            wire = Noted(3, **given)
            wire.delay = delay
            streamed(wire, 0.15, 12)
            wire.run(3.0)
            lines.append(wire.line(f"{name}, {delay} s"))
    for priority in (URGENT, NORMAL, BULK):
        wire = Noted(3, loss=0.03)
        wire.delay = 0.01
        streamed(wire, 0.1, priority=priority)
        streamed(wire, 0.05, priority=NORMAL, reliable=False)
        wire.run(2.0)
        lines.append(wire.line(f"priority {priority}"))
    wire = Noted(3, loss=0.05)
    for _ in range(8):
        wire.publish(0, [1, 2], BODY, 30, expires=wire.now + 0.015)
        wire.run(0.005)
    wire.run(1.0)
    lines.append(wire.line("expired"))
    return "".join(lines)


def receivers() -> str:
    """Receivers that fall silent, are slow, begin anew, go away and sleep."""
    lines = []
    for name, hears in (("silent", False), ("mute", True)):
        wire = Noted(4, loss=0.01)
        streamed(wire, 0.1, 8)
        lines.append(wire.line(f"{name}, before"))
        if hears:
            wire.cut |= {(wire.ids[3], wire.ids[0])}
        else:
            silence(wire, 3)
        streamed(wire, 0.6, 8)
        lines.append(wire.line(f"{name}, without one"))
        wire.cut.clear()
        streamed(wire, 0.3, 8)
        wire.run(5.0)
        lines.append(wire.line(f"{name}, all are back"))
    wire = Noted(3)
    streamed(wire, 0.1, 8)
    wire.restart(0, 2)
    streamed(wire, 0.1, 8)
    wire.remove(wire.ids[0], wire.ids[1], "lease")
    streamed(wire, 0.1, 8)
    wire.run(2.0)
    lines.append(wire.line("another life, and one that is gone"))
    return "".join(lines)


PATHS: dict[str, tuple[tuple[int, float, float, float, float], ...]] = {
    "fast": ((100, 0.0002, 1e9, 0.0, 0.0), (40, 0.0002, 120_000.0, 0.0, 0.001), (40, 0.0002, 1e9, 0.01, 0.0)),
    "slow": ((400, 0.005, 5_000.0, 0.0, 0.0), (200, 0.005, 1_200.0, 0.0, 0.0), (600, 0.01, 11_000.0, 0.0, 0.0)),
    "far": ((60, 0.1, 20_000.0, 0.01, 0.001), (60, 0.1, 4_000.0, 0.01, 0.02), (60, 0.08, 20_000.0, 0.0, 0.0)),
    "radio": ((80, 0.01, 3_000.0, 0.02, 0.004), (80, 0.01, 3_000.0, 0.3, 0.004), (80, 0.01, 3_000.0, 0.05, 0.01)),
    "lossy": ((60, 0.02, 50_000.0, 0.5, 0.0), (60, 0.02, 50_000.0, 0.75, 0.0), (60, 0.02, 50_000.0, 0.08, 0.0)),
    "jitter": ((80, 0.01, 30_000.0, 0.0, 0.03), (80, 0.01, 30_000.0, 0.0, 0.003), (80, 0.001, 60_000.0, 0.0, 0.0)),
}
"""Paths whose ways change: round trips, seconds without a queue, frames a second, share of loss, seconds of jitter."""


def windows() -> str:
    """The window after each round trip: frames and the share of loss, in all classes and on all kinds of paths."""
    lines = []
    for priority in (URGENT, NORMAL, BULK):
        for name, parts_of_path in PATHS.items():
            window, random, now, sent, number, rounds = Window(priority), Random(7), 100.0, 0, 0, list[str]()
            for count, least, frames_a_second, loss, noise in parts_of_path:
                for _ in range(count):
                    number += 1
                    frames = int(window.frames) if number % 50 < 44 else 5
                    full = max(0.0, frames - 2 * least * frames_a_second) / frames  # the queue overflows
                    queue = max(0.0, frames * (1 - full) / frames_a_second - least) + noise * random.random()
                    lost = sum(random.random() < max(loss, full) for _ in range(min(frames, 200)))
                    sent += frames
                    now += least + queue
                    window.lost(lost)
                    trip = math.inf if number % 17 == 16 else least + queue
                    window.acknowledged(now, (frames - lost) // 2, trip, sent - frames - 1, sent)
                    window.acknowledged(now, frames - lost - (frames - lost) // 2, trip, sent, sent)
                    rounds.append(f"{window.frames:.3f} {window.loss:.4f}")
            shown = " ".join(one.partition(" ")[0].partition(".")[0] for one in rounds[:: len(rounds) // 24])
            lines.append(f"{priority}, {name}: {shown}; {crc32(repr(rounds).encode()):08x}\n")
    sizes = (8.0, 127.0, 128.0, 999.0)
    parts = [(left, window, least_part(left, window)) for left in (1, 8, 64, 65, 500) for window in sizes]
    lines.append(f"least parts: {parts}\n")
    return "".join(lines)


TRANSPORTS: dict[str, Callable[[], str]] = {
    "transport-wires": wires, "transport-receivers": receivers, "transport-windows": windows,
}  # fmt: skip
