"""One endpoint in a process of its own, told what to do by JSON lines on stdin; each is answered by one on stdout.

A command is an object whose key `do` names a method of `Node` and whose other keys are its arguments. Payloads
begin with a number and the time at which they were sent, so that the receiving end can check that all arrive in
order and how long they took. Clocks are those of one machine. Memory and traffic are read from /proc (Linux).
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

import glue  # noqa: E402  # how long this takes is one of the figures
from glue.endpoint.options import Priority  # noqa: E402

IMPORTED = time.monotonic()
HEAD = struct.Struct("<qq")  # number, monotonic nanoseconds; the smallest payload has 16 bytes
BEGIN, END = -1, -2  # numbers of the messages around a stream
POOL = 4 << 20  # bytes of ready-made payloads that a stream goes through again and again
FLUSH = 30.0  # seconds for the last acknowledgements of a stream
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

Answer = dict[str, Any]


def pool_size(size: int) -> int:
    """How many ready-made payloads of `size` bytes a stream has."""
    return max(4, min(4096, POOL // size))


def payload(number: int, size: int) -> bytes:
    """A payload of `size` bytes that is sent now."""
    return HEAD.pack(number, time.monotonic_ns()) + bytes(size - HEAD.size)


def percentiles(values: list[float]) -> Answer:
    """The percentiles of the field's reports; empty without values."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {name: ordered[min(last, int(share * len(ordered)))] for name, share in PERCENTILES.items() if ordered}


class Sink:
    """Receives streams on one topic, one after the other: counts, and checks that nothing is missing or doubled."""

    def __init__(self, size: int) -> None:
        self.gaps = 0
        self.began = self.ended = 0.0
        self.first_heard = 0.0
        self.finished = threading.Event()
        self.latencies: list[float] = []
        self._before = 0  # messages before the present lap through the pool
        self._pool = pool_size(size)

    def counting(self) -> Callable[[glue.Message], None]:
        """The handler for streams at full speed, where the numbers start again with each lap."""
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
        """The handler that notes how long each message took."""
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
        """What came of the latest stream: times in seconds of the machine's monotonic clock."""
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
    """The commands."""

    def __init__(self) -> None:
        self._endpoint: glue.Endpoint
        self._interface = ""
        self._sinks: dict[str, Sink] = {}
        self._beside: threading.Thread | None = None
        self._beside_result: Answer = {}

    def open(self, name: str, interface: str, **settings: Any) -> Answer:
        """Start the endpoint; how long importing and starting took."""
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
        """Wait until so many subscribe to the topic."""
        return {"ready": self._endpoint.wait_for_subscribers(topic, count, timeout=20)}

    def finished(self, topic: str, timeout: float) -> Answer:
        """Wait for the end of the stream on the topic; what came of it."""
        sink = self._sinks[topic]
        sink.finished.wait(timeout)
        result = sink.result()
        sink.finished.clear()
        return result

    def usage(self) -> Answer:
        """CPU seconds so far; resident bytes now and at most since the last call; what the interface has sent."""
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        Path("/proc/self/clear_refs").write_text("5")  # start anew with the peak
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
        """Publish as fast as it goes for `seconds`, or about `count` messages, and have all acknowledged."""
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
        """The same in a thread, while other commands are obeyed."""

        def run() -> None:
            self._beside_result = self.stream(**arguments)

        self._beside = threading.Thread(target=run, daemon=True)
        self._beside.start()
        return {}

    def join(self) -> Answer:
        """Wait for `stream_beside` to end; its answer."""
        assert self._beside is not None
        self._beside.join()
        return self._beside_result

    def pace(self, topic: str, size: int, rate: float, count: int, priority: Priority = "normal") -> Answer:
        """Publish `count` messages at `rate` a second."""
        self._endpoint.publish(topic, payload(BEGIN, size), priority=priority)
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            self._endpoint.publish(topic, payload(number, size), priority=priority)
        self._endpoint.publish(topic, payload(END, size), priority=priority)
        return {"count": count, "flushed": self._endpoint.flush(FLUSH)}

    def greet(self, topic: str, size: int) -> Answer:
        """Publish one message once there is a subscriber."""
        self._endpoint.wait_for_subscribers(topic, 1, timeout=20)
        self._endpoint.publish(topic, payload(0, size))
        return {}

    def echo(self, topic: str, reply: str) -> Answer:
        """From now on answer each message on `topic` with the same on `reply`."""
        publish = self._endpoint.publish
        self._endpoint.subscribe(topic, lambda message: publish(reply, message.payload))
        return {}

    def ping(self, topic: str, reply: str, size: int, count: int, ignored: int) -> Answer:
        """So many round trips, each begun by the handler of the one before; seconds each, the first `ignored` not.

        The answer has percentiles of the round trips.
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
    """Obey until stdin ends."""
    node = Node()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing else may stand between the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(node, request.pop("do"))(**request)
        except Exception as error:  # told to whoever asked
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
