"""Handlers of signals that publish: they come between any two steps of the main thread, where none may wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from glue.contract import Publication
from glue.drivers.interruption import Uninterrupted
from glue.drivers.leader import ThreadDriver
from glue.stack import Identity
from glue.topics import Topics
from tests.support.lan import PATIENCE, Lan
from tests.support.loopback import loopback_environment

PROGRAM = """
import signal, sys, threading
import glue

SIGNALS = 1500
heard = {"stream": [], "signals": []}
publisher = glue.Endpoint("publisher", queue_limit=256 << 10).start()
hearer = glue.Endpoint("hearer").start()
for topic in heard:
    hearer.subscribe(topic, heard[topic].append)
    publisher.wait_for_subscribers(topic, timeout=20)
own = publisher.subscribe("own")
sent = {"stream": 0, "signals": 0}

def publish(topic, size):
    publisher.publish(topic, sent[topic].to_bytes(4, "big").ljust(size))
    sent[topic] += 1

handling = 0
def handle(number, frame):
    global handling
    if handling == 0 and sent["signals"] < SIGNALS:
        handling = 1
        publish("signals", 600)
        handling = 0
    elif handling == 1:  # one interrupts another
        handling = 2
        publisher.publish("nobody's", b"")
        handling = 1

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
while sent["signals"] < SIGNALS:
    publish("stream", 3000)
    if sys.argv[1:] and sent["stream"] % 5 == 0:
        publisher.publish("own", b"")
        own.get(timeout=20)
        publisher.statistics
signal.setitimer(signal.ITIMER_REAL, 0)
publisher.close(timeout=20)
while not all(len(heard[topic]) == sent[topic] for topic in heard):
    pass
numbers = {topic: [int.from_bytes(message.payload[:4], "big") for message in heard[topic]] for topic in heard}
print(all(numbers[topic] == list(range(sent[topic])) for topic in heard))
hearer.close(timeout=0)
"""


STUCK = """
import signal, threading
import glue
from glue.drivers.send_policy import OUTBOX

COUNT = 100
a, b = glue.Endpoint("a").start(), glue.Endpoint("b").start()
got = b.subscribe("t", lambda message: None)
a.subscribe("u", lambda message: None)
a.wait_for_subscribers("t", timeout=20)
b.wait_for_subscribers("u", timeout=20)
core = a._driver._core
published = 0

def handle(number, frame):
    global published
    for _ in range(COUNT):
        a.publish("t", bytes(2 * OUTBOX // COUNT))
        published += 1

class Counts(type(core.statistics)):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if threading.current_thread() is threading.main_thread() and not published:
            b.publish("u", b"")  # a's leader takes it into a turn, and waits there for what this thread holds
            while a.inspected():
                pass
            signal.raise_signal(signal.SIGALRM)

def is_free():
    is_free = a._driver._turn_lock.acquire(blocking=False)
    if is_free:
        a._driver._turn_lock.release()
    return is_free

a.inspected = is_free
signal.signal(signal.SIGALRM, handle)
core.statistics = Counts(core.statistics)
core.settled("expired", 1)
print(published, a.flush(20))
a.close(), b.close()
"""


INTERRUPTED = """
import os, signal, threading, time
import glue

INTERRUPTS = 1000
a, b = glue.Endpoint("a").start(), glue.Endpoint("b").start()
heard = []
a.subscribe("answer", lambda message: (heard.append(message.payload), a.publish("question", message.payload + 1)))
b.subscribe("question", lambda message: b.publish("answer", message.payload))
a.wait_for_subscribers("question", timeout=20)
b.wait_for_subscribers("answer", timeout=20)
interrupts, done, armed = 0, threading.Event(), False

def strike(number, frame):  # as Python's own, but not where this program itself could not bear it
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def interrupt():
    while not done.is_set():
        time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, strike)
interrupter = threading.Thread(target=interrupt)
a.publish("question", 0)
interrupter.start()
while interrupts < INTERRUPTS:
    try:
        armed = True
        while True:
            a.flush(0.001)
            a.statistics
    except KeyboardInterrupt:
        interrupts += 1
done.set()
interrupter.join()
until, count = time.monotonic() + 20, len(heard)
while len(heard) < count + 1000 and time.monotonic() < until:
    time.sleep(0.01)
numbers = heard[:]
print(len(numbers) >= count + 1000, numbers == list(range(len(numbers))))
a.close(timeout=0), b.close(timeout=0)
"""


def test_ctrl_c_may_come_at_any_time_while_the_main_thread_waits_or_looks() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env=loopback_environment(), capture_output=True, text=True, timeout=3 * PATIENCE,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("True True\n", "")


def test_a_handler_that_has_interrupted_what_a_turn_waits_for_comes_to_its_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", STUCK], env=loopback_environment(), capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert (ran.stdout, ran.stderr) == ("100 True\n", "")


@pytest.mark.parametrize("also", [[], ["reads"]])
def test_a_signals_handler_publishes_while_the_main_thread_waits_for_room(also: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *also],
        env=loopback_environment(), capture_output=True, text=True, timeout=3 * PATIENCE,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("True\n", "")


class Struck(Topics):
    """A topics layer in which, if that has a handler, SIGUSR1 comes on the way down of what the main thread moves."""

    def send(self, now: float, items: list[Any]) -> Any:
        is_main = threading.current_thread() is threading.main_thread()
        if items and is_main and callable(signal.getsignal(signal.SIGUSR1)):
            signal.raise_signal(signal.SIGUSR1)
        return super().send(now, items)


def struck(who: Identity) -> Struck:
    return Struck(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name)


def test_what_a_handler_says_in_a_turn_is_heard(lan: Lan) -> None:
    endpoint = lan.start("a", topics=struck)
    said: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not said:
            said.append(number)
            endpoint.publish("t", b"from the handler")

    subscription = endpoint.subscribe("t")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        published = 0
        while not said:  # the leader may be in a turn, and takes what is published into that
            endpoint.publish("t", b"interrupted")
            published += 1
        payloads = [subscription.get(PATIENCE).payload for _ in range(published + 1)]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(payloads) == [b"from the handler"] + [b"interrupted"] * published


def test_a_handler_that_publishes_too_much_is_slowed_down_though_it_has_interrupted_a_wait(lan: Lan) -> None:
    limit, stuck = 1 << 20, threading.Event()
    endpoint, deaf = lan.start("a", queue_limit=limit), lan.start("b", receive_limit=limit)
    deaf.subscribe(
        "t", lambda message: None if stuck.wait(3) else stuck.set()
    )  # a signal that comes last may wait for it
    endpoint.wait_for_subscribers("t", timeout=PATIENCE)
    published = begun = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal published, begun
        if begun == published:  # else it has interrupted itself
            begun += 1
            endpoint.publish("t", bytes(100_000))
            published += 1

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with pytest.raises(TimeoutError):
            endpoint.subscribe("nothing").get(timeout=1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stuck.set()
    assert limit < published * 100_000 < 15 * limit  # of some 900 signals; the window lets 6 MB go


def test_a_call_that_looks_like_a_handler_s_is_slowed_down_as_well(lan: Lan, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a program that wraps what it watches: its own code stands between two calls of glue's."""
    gathered: list[int] = []
    publish = ThreadDriver.publish

    def watched(driver: ThreadDriver, publications: Sequence[Publication], block: bool) -> None:
        publish(driver, publications, block)
        gathered.append(driver._core.outbox.size)

    monkeypatch.setattr(ThreadDriver, "publish", watched)
    publisher, subscriber = lan.start("a"), lan.start("b")
    subscriber.subscribe("t", lambda message: None)
    publisher.wait_for_subscribers("t", timeout=PATIENCE)
    large = bytes(1 << 20)
    for _ in range(200):
        publisher.publish("t", large)
    assert max(gathered) < 20 * len(large)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_is_heard_though_another_signal_comes_when_it_is_put_off(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directly before, or after, the handler of SIGINT is exchanged, at the beginning and at the end of a turn."""
    heard: list[int] = []
    quiet = False

    class Exchange:
        getsignal = staticmethod(signal.getsignal)

        @staticmethod
        def signal(number: int, handler: Any) -> None:
            nonlocal quiet
            quiet, was_quiet = True, quiet
            if not was_quiet and moment == "before":
                signal.raise_signal(signal.SIGUSR1)
            signal.signal(number, handler)
            if not was_quiet and moment == "after":
                signal.raise_signal(signal.SIGUSR1)
            quiet = was_quiet

    def turn(action: Callable[[], object]) -> None:
        with uninterrupted:
            action()

    uninterrupted = Uninterrupted(turn.__code__)
    handlers: dict[int, Any] = {
        signal.SIGINT: lambda number, frame: heard.append(number),
        signal.SIGUSR1: lambda number, frame: turn(lambda: None),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    monkeypatch.setattr("glue.drivers.interruption._signal", Exchange)
    try:
        turn(lambda: signal.raise_signal(signal.SIGINT))
        assert heard == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handlers[signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_ctrl_c_waits_for_the_end_of_a_turn_in_which_another_signal_came() -> None:
    heard: list[int] = []

    def turn(*actions: Callable[[], object]) -> None:
        with uninterrupted:
            for action in actions:
                action()

    uninterrupted = Uninterrupted(turn.__code__)
    handlers = {
        signal.SIGINT: lambda number, frame: heard.append(number),
        signal.SIGUSR1: lambda number, frame: turn(lambda: heard.append(number)),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        turn(
            lambda: signal.raise_signal(signal.SIGUSR1),
            lambda: signal.raise_signal(signal.SIGINT),
            lambda: heard.append(0),
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGUSR1, 0, signal.SIGINT]
