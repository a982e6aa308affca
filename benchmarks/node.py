"""One endpoint in its own process. Commands are JSON lines on stdin; each answer is a JSON line on stdout.

A command is an object: `do` names a method of `Node`, and the other keys are its arguments. A payload begins with a
number and its time of sending, so that the receiver checks completeness and order, and measures latency. All processes
share one machine's clock. Memory and traffic are read from /proc (Linux).
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

BEGAN = time.monotonic()

import glue  # noqa: E402 # the import is measured
from glue.endpoint.options import Priority  # noqa: E402

IMPORTED = time.monotonic()
HEAD = struct.Struct("<qq")  # number, monotonic nanoseconds; this is the smallest payload, 16 bytes
BEGIN, END = -1, -2  # numbers of the messages before and after a stream
POOL = 4 << 20  # bytes of prepared payloads that a stream repeats
FLUSH = 30.0  # seconds to wait for the last acknowledgements of a stream
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

Answer = dict[str, Any]


def pool_size(size: int) -> int:
    """Return the number of prepared payloads of `size` bytes in a stream."""
    return max(4, min(4096, POOL // size))


def payload(number: int, size: int) -> bytes:
    """Return a payload of `size` bytes with the present time."""
    return HEAD.pack(number, time.monotonic_ns()) + bytes(size - HEAD.size)


def percentiles(values: list[float]) -> Answer:
    """Return the percentiles of these values; empty without values."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in PERCENTILES.items() if ordered}


class Sink:
    """Receives consecutive streams on one topic, counts messages, and notes missing and repeated ones."""

    def __init__(self, size: int) -> None:
        self.gaps = 0
        self.began = self.ended = 0.0
        self.first_heard = 0.0
        self.finished = threading.Event()
        self.latencies: list[float] = []
        self._before = 0  # messages before the present pass through the pool
        self._pool = pool_size(size)

    def counting(self) -> Callable[[glue.Message], None]:
        """Return a handler for streams at full speed, whose numbers restart with each pass through the pool."""
        unpack, expected = HEAD.unpack_from, 0

        def on_message(message: glue.Message) -> None:
            nonlocal expected
            number = unpack(message.payload)[0]
            if number != expected:
                number = self._on_unexpected(number, expected)
            expected = number + 1

        return on_message

    def _on_unexpected(self, number: int, expected: int) -> int:
        if number == BEGIN:
            self._begin()
            return -1
        self._before += expected - max(number, 0)
        if number == END:
            self._end()
            return -1
        if number or expected != self._pool:
            self.gaps += 1
        return number

    def stamped(self, message: glue.Message) -> None:
        """Handle a message and note its latency."""
        now = time.monotonic_ns()
        self.first_heard = self.first_heard or now / 1e9
        number, sent = HEAD.unpack_from(message.payload)
        if number == BEGIN:
            self._begin()
        elif number == END:
            self._end()
        else:
            self._before += 1
            self.latencies.append((now - sent) / 1e9)

    def _begin(self) -> None:
        self._before = self.gaps = 0
        self.latencies = []
        self.began = time.monotonic()

    def _end(self) -> None:
        self.ended = time.monotonic()
        self.finished.set()

    def result(self) -> Answer:
        """Return the result of the latest stream. Times are seconds of the machine's monotonic clock."""
        return {
            "count": self._before,
            "gaps": self.gaps,
            "complete": self.finished.is_set(),
            "began": self.began,
            "ended": self.ended,
            "first_heard": self.first_heard,
            **percentiles(self.latencies),
        }


class Node:
    """The commands. Each returns its answer."""

    def __init__(self) -> None:
        self._endpoint: glue.Endpoint
        self._interface = ""
        self._sinks: dict[str, Sink] = {}
        self._beside: threading.Thread | None = None
        self._beside_result: Answer = {}

    def open(self, name: str, interface: str, **settings: Any) -> Answer:
        """Start the endpoint. The answer has the seconds for import and start."""
        began = time.monotonic()
        self._interface = interface
        self._endpoint = glue.Endpoint(name, interface=interface, **settings).start()
        return {"import": IMPORTED - BEGAN, "start": time.monotonic() - began}

    def subscribe(self, topic: str, size: int, stamped: bool = False) -> Answer:
        """Receive streams on a topic."""
        sink = self._sinks[topic] = Sink(size)
        self._endpoint.subscribe(topic, sink.stamped if stamped else sink.counting())
        return {}

    def ready(self, topic: str, count: int) -> Answer:
        """Wait up to 20 s for `count` subscribers to the topic."""
        return {"ready": self._endpoint.wait_for_subscribers(topic, count, timeout=20)}

    def finished(self, topic: str, timeout: float) -> Answer:
        """Wait up to `timeout` seconds for the end of the stream, and answer with its result."""
        sink = self._sinks[topic]
        sink.finished.wait(timeout)
        result = sink.result()
        sink.finished.clear()
        return result

    def usage(self) -> Answer:
        """Answer with CPU seconds, memory, and the interface's traffic.

        "resident" is the present memory in bytes, and "peak" the highest since the last call.
        """
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        counters = dict(line.split(":", 1) for line in Path("/proc/self/net/dev").read_text().splitlines()[2:])
        sent = {name.strip(): fields.split()[8:10] for name, fields in counters.items()}[self._interface]
        return {
            "now": time.monotonic(),
            "cpu": time.process_time(),
            "resident": int(status["VmRSS"].split()[0]) * 1024,
            "peak": int(status["VmHWM"].split()[0]) * 1024,
            "sent_bytes": int(sent[0]),
            "sent_packets": int(sent[1]),
        }

    def stream(
        self, topic: str, size: int, seconds: float, count: int = sys.maxsize, priority: Priority = "normal"
    ) -> Answer:
        """Publish at full speed for `seconds`, or about `count` messages, and wait for all acknowledgements."""
        pool = [payload(number, size) for number in range(pool_size(size))]
        step = max(1, min(64, len(pool), (1 << 20) // size))
        sent = 0

        def chunks() -> Iterator[list[bytes]]:
            nonlocal sent
            end = time.monotonic() + seconds
            while time.monotonic() < end and sent < count:
                at = sent % len(pool)
                chunk = pool[at : at + step]
                sent += len(chunk)
                yield chunk

        self._endpoint.publish(topic, payload(BEGIN, size), priority=priority)
        self._endpoint.publish_many(topic, chain.from_iterable(chunks()), priority=priority)
        self._endpoint.publish(topic, payload(END, size), priority=priority)
        return {"count": sent, "flushed": self._endpoint.flush(FLUSH)}

    def stream_beside(self, **arguments: Any) -> Answer:
        """Run `stream` in a thread, and accept other commands meanwhile."""

        def run() -> None:
            self._beside_result = self.stream(**arguments)

        self._beside = threading.Thread(target=run, daemon=True)
        self._beside.start()
        return {}

    def join(self) -> Answer:
        """Wait for the end of `stream_beside` and answer with its result."""
        assert self._beside is not None
        self._beside.join()
        return self._beside_result

    def pace(self, topic: str, size: int, rate: float, count: int, priority: Priority = "normal") -> Answer:
        """Publish `count` messages at `rate` per second."""
        self._endpoint.publish(topic, payload(BEGIN, size), priority=priority)
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            self._endpoint.publish(topic, payload(number, size), priority=priority)
        self._endpoint.publish(topic, payload(END, size), priority=priority)
        return {"count": count, "flushed": self._endpoint.flush(FLUSH)}

    def greet(self, topic: str, size: int) -> Answer:
        """Publish one message as soon as there is a subscriber."""
        self._endpoint.wait_for_subscribers(topic, 1, timeout=20)
        self._endpoint.publish(topic, payload(0, size))
        return {}

    def echo(self, topic: str, reply: str) -> Answer:
        """Answer each later message on `topic` with a copy on `reply`."""
        publish = self._endpoint.publish
        self._endpoint.subscribe(topic, lambda message: publish(reply, message.payload))
        return {}

    def ping(self, topic: str, reply: str, size: int, count: int, ignored: int) -> Answer:
        """Make `count` round trips, where each reply's handler starts the next. The first `ignored` do not count.

        The answer has percentiles of the round trips in seconds.
        """
        publish, clock, done = self._endpoint.publish, time.perf_counter, threading.Event()
        body, began, trips = payload(0, size), 0.0, list[float]()

        def on_reply(message: glue.Message) -> None:
            nonlocal began
            now = clock()
            trips.append(now - began)
            if len(trips) < count + ignored:
                began = clock()
                publish(topic, body)
            else:
                done.set()

        self._endpoint.subscribe(reply, on_reply)
        self._endpoint.wait_for_subscribers(topic, 1, timeout=20)
        began = clock()
        publish(topic, body)
        return {"complete": done.wait(60), **percentiles(trips[ignored:])}

    def close(self) -> Answer:
        """Leave the network."""
        self._endpoint.close()
        return {}


def main() -> None:
    """Run commands until stdin ends."""
    node = Node()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps other output out of the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(node, request.pop("do"))(**request)
        except Exception as error:  # reported to the caller
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
