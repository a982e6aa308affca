"""One host of the soak run: publishes, asks, counts and checks, by its duties; see `benchmarks.soak`.

    python -m benchmarks.soak_node NAME DIRECTORY DUTY...

Each acknowledged message is a line in a file of `DIRECTORY`, written after the acknowledgement, so that `kill -9`
forgets none that counted. At SIGTERM the host writes what it has found, and ends.
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import glue

COUNTERS = 16
"""Receivers that count."""
CONSUMER = "billing"


class Counting(glue.Receiver):
    """Counts the messages that it gets; its state is in the model."""

    idle = 20.0

    def receive(self, context: glue.Context, message: Any) -> Any:
        """Count one, or tell the count."""
        if message == "one":
            context.state["count"] = context.state.get("count", 0) + 1
        return context.state.get("count", 0)


class Seen:
    """Which numbers of one life of a publisher were seen: a bit each."""

    def __init__(self) -> None:
        self.bits = bytearray()
        self.last = -1

    def add(self, number: int) -> bool:
        """Note a number; returns whether it is new."""
        place, bit = divmod(number, 8)
        if place >= len(self.bits):
            self.bits.extend(bytes(place + 64 - len(self.bits)))
        is_new = not self.bits[place] & 1 << bit
        self.bits[place] |= 1 << bit
        return is_new

    def numbers(self) -> set[int]:
        """Return all that were seen."""
        return {8 * place + bit for place, byte in enumerate(self.bits) for bit in range(8) if byte & 1 << bit}


class Host:
    """The duties of a host, each in a thread of its own, and what they found."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.life = f"{time.time():.3f}"
        self.ended = threading.Event()
        self.counts: Counter[str] = Counter()
        self.faults: deque[str] = deque(maxlen=50)
        self.streams: dict[tuple[str, str, str], Seen] = {}
        self.logged: dict[str, Seen] = {}
        self.endpoint = glue.Endpoint(name, interface="eth0")
        self.endpoint.on_gap = self._gap
        self._ledger = (directory / f"ledger-{name}").open("a")
        self._lock = threading.Lock()

    def _gap(self, gap: glue.Gap) -> None:
        self.counts[f"told missing: {gap.cause}"] += gap.count

    def acknowledged(self, kind: str, text: str) -> None:
        """Write a line of the ledger."""
        with self._lock:
            self._ledger.write(f"{kind} {text}\n")
            self._ledger.flush()
        self.counts[f"acknowledged {kind}"] += 1

    def every(self, seconds: float, work: Callable[[int], None]) -> threading.Thread:
        """Do something again and again until the end; what it raises of glue's errors is counted."""

        def run() -> None:
            number = 0
            while not self.ended.wait(seconds):
                try:
                    work(number)
                except (glue.GlueError, OSError) as error:
                    self.counts[f"{work.__name__}: {type(error).__name__}"] += 1
                number += 1

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    # ------------------------------------------------------------------------------------------------- duties

    def publish(self) -> None:
        """Publish a stream, retained values, blocks, and messages for the keeper."""

        def stream(number: int) -> None:
            self.endpoint.publish(f"stream/{self.name}", {"life": self.life, "n": number})

        def state(number: int) -> None:
            self.endpoint.publish(f"state/{self.name}/{number % 20}", number, retain=True)

        def block(number: int) -> None:
            body = number.to_bytes(4, "big") * 25_000
            self.endpoint.publish(f"block/{self.name}", hashlib.sha256(body).digest() + body)

        def log(number: int) -> None:
            receipt = self.endpoint.publish(
                f"log/{self.name}", {"life": self.life, "n": number}, receipt=True, acks="disk"
            )
            if receipt.wait(10.0):
                self.acknowledged("log", f"{self.life} {number}")
            else:
                self.counts["log: not acknowledged"] += 1

        for seconds, work in ((0.02, stream), (0.2, state), (5.0, block), (0.1, log)):
            self.every(seconds, work)

    def ask(self) -> None:
        """Ask the responders, and count with the receivers."""

        def double(number: int) -> None:
            if self.endpoint.request("double", number, timeout=5.0) != 2 * number:
                self.faults.append(f"a wrong answer to {number}")
            self.counts["answers"] += 1

        def count(number: int) -> None:
            self.counts["count: asked"] += 1
            self.endpoint.ask(f"counting/{number % COUNTERS}", "one", timeout=10.0)
            self.acknowledged("count", str(number % COUNTERS))

        self.every(0.2, double)
        self.every(0.2, count)

    def answer(self) -> None:
        """Answer requests, and host receivers."""
        self.endpoint.respond("double", lambda request: 2 * request.payload)
        model = self.endpoint.model("plant", voters=3, data_dir=self.directory / f"model-{self.name}")
        self.endpoint.receivers("counting", Counting, model=model)

    def keep(self) -> None:
        """Keep the log."""
        self.endpoint.keep("log/#", data_dir=self.directory / f"log-{self.name}", age="1h", size="100MB")

    def read(self) -> None:
        """Read everything, and check order and content."""

        def stream(message: glue.Message) -> None:
            life, number = message.payload["life"], message.payload["n"]
            seen = self.streams.setdefault((message.publisher, life, message.topic), Seen())
            if number <= seen.last:
                self.faults.append(f"{message.topic} {life}: {number} after {seen.last}")
            elif number != seen.last + 1 and seen.last >= 0:
                self.counts[f"missing of {message.publisher}"] += number - seen.last - 1
            seen.last = number
            self.counts["stream"] += 1

        def block(message: glue.Message) -> None:
            if hashlib.sha256(message.payload[32:]).digest() != message.payload[:32]:
                self.faults.append("a damaged block")
            self.counts["blocks"] += 1

        def log(message: glue.Message) -> None:
            seen = self.logged.setdefault(message.payload["life"], Seen())
            self.counts["log" if seen.add(message.payload["n"]) else "log again"] += 1

        self.endpoint.subscribe("stream/#", stream)
        self.endpoint.subscribe("state/#", lambda message: self.counts.update(["state"]))
        self.endpoint.subscribe("block/#", block)
        self.endpoint.subscribe("log/#", log, consumer=CONSUMER)

    # ---------------------------------------------------------------------------------------------------- end

    def totals(self) -> dict[str, int]:
        """Return what each counting receiver has counted."""
        found: dict[str, int] = {}
        ends = time.monotonic() + 120.0  # a host that was just killed or cut off takes a while
        while len(found) < COUNTERS and time.monotonic() < ends:
            for number in range(COUNTERS):
                if str(number) not in found:
                    with suppress(glue.GlueError):
                        found[str(number)] = self.endpoint.ask(f"counting/{number}", "tell", timeout=20.0)
        return found

    def report(self) -> None:
        """Write what was found."""
        logged = {life: sorted(seen.numbers()) for life, seen in self.logged.items()}
        found = {"counts": self.counts, "faults": [*self.faults], "logged": logged}
        (self.directory / f"report-{self.name}").write_text(json.dumps(found))


def main() -> None:
    """Run the duties until SIGTERM; SIGUSR1 writes the totals of the receivers."""
    name, directory, *duties = sys.argv[1:]
    host = Host(name, Path(directory))
    signal.signal(signal.SIGTERM, lambda *_: host.ended.set())
    with host.endpoint:
        for duty in duties:
            getattr(host, duty)()
        host.ended.wait()
        if "ask" in duties:
            (Path(directory) / f"totals-{name}").write_text(json.dumps(host.totals()))
        time.sleep(5.0)  # what is on its way
        host.report()


if __name__ == "__main__":
    main()
