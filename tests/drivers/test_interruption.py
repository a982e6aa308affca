"""Ctrl-C while the main thread is in a turn: the program goes on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

import glue
from glue.drivers.interruption import Uninterrupted
from glue.stack import Identity
from glue.topics import Topics
from tests.support.lan import PATIENCE, Ear, Lan


class Interrupted(Topics):
    """A topics layer in which, once `armed`, SIGINT comes on the way up, or down, of what the main thread moves."""

    armed = ""

    def _interrupt(self, where: str, items: object) -> None:
        if items and self.armed == where and threading.current_thread() is threading.main_thread():
            self.armed = ""
            signal.raise_signal(signal.SIGINT)

    def receive(self, now: float, items: list[Any]) -> Any:
        result = super().receive(now, items)
        self._interrupt("up", result[0])
        return result

    def send(self, now: float, items: list[Any]) -> Any:
        self._interrupt("down", items)
        return super().send(now, items)


MOST = 2000  # messages until a signal is heard, which takes two or three


def talk(a: glue.Endpoint, b: glue.Endpoint, counts: dict[glue.Endpoint, int]) -> None:
    """Let them publish to each other until Ctrl-C; what that interrupts was published, unless it waited for room."""
    for _ in range(MOST // 2):
        for endpoint, size in ((b, 8), (a, 100_000)):
            topic, number = f"from {endpoint.name}", counts[endpoint] + 1
            waited = True
            try:
                endpoint.publish(topic, number.to_bytes(8, "big").ljust(size))
                waited = False
            except KeyboardInterrupt as interrupt:
                waited = any(level.name == "_wait_for_room" for level in traceback.extract_tb(interrupt.__traceback__))
                raise
            finally:
                counts[endpoint] += not waited


@pytest.mark.parametrize("where", ["up", "down"])
def test_who_goes_on_after_ctrl_c_has_lost_nothing_that_came_or_went_in_that_turn(lan: Lan, where: str) -> None:
    layers: list[Interrupted] = []

    def make(who: Identity) -> Interrupted:
        layers.append(Interrupted(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name))
        return layers[-1]

    a, b = lan.start("a", topics=make), lan.start("b")
    counts, ears = {a: 0, b: 0}, {a: Ear(), b: Ear()}
    for one, other in ((a, b), (b, a)):
        one.subscribe(f"from {other.name}", ears[other])
        assert other.wait_for_subscribers(f"from {other.name}", 1, PATIENCE)
    for _ in range(10):
        layers[0].armed = where
        with pytest.raises(KeyboardInterrupt):
            talk(a, b, counts)
    for endpoint, ear in ears.items():
        heard = [int.from_bytes(message.payload[:8], "big") for message in ear.wait(counts[endpoint])]
        assert heard == list(range(1, counts[endpoint] + 1))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """The calls of a program's own handler of SIGINT."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGINT, before)


def in_a_turn(action: Any) -> None:
    """Do something while Ctrl-C has to wait."""
    with Uninterrupted(in_a_turn.__code__):
        action()


def test_a_programs_own_handler_is_called_once_and_may_ask_the_endpoint(lan: Lan, calls: list[int]) -> None:
    layers: list[Interrupted] = []

    def make(who: Identity) -> Interrupted:
        layers.append(Interrupted(endpoint_id=who.endpoint_id, incarnation=who.incarnation, name=who.name))
        return layers[-1]

    a = lan.start("a", topics=make)
    counted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: counted.append(a.statistics["topics"]["messages published"]))
    layers[0].armed = "down"
    published = 0
    while not counted and published < MOST:
        a.publish("t", published)
        published += 1
    assert counted == [published]


def test_a_loop_that_is_woken_by_signals_is_woken_once(calls: list[int]) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    try:
        in_a_turn(lambda: signal.raise_signal(signal.SIGINT))
        assert os.read(reader, 10) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
    assert calls == [signal.SIGINT]


def test_what_another_signals_handler_makes_of_ctrl_c_stays(calls: list[int]) -> None:
    in_a_turn(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_works_although_another_signal_has_broken_off_the_end_of_a_turn(calls: list[int]) -> None:
    def alarm(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is Uninterrupted.__exit__.__code__:
            sys.setprofile(None)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        in_a_turn(lambda: sys.setprofile(alarm))
    signal.raise_signal(signal.SIGINT)
    assert calls == [signal.SIGINT]
    in_a_turn(lambda: signal.raise_signal(signal.SIGINT))
    assert calls == [signal.SIGINT] * 2


def test_a_thread_that_is_taken_for_the_main_one_may_publish() -> None:
    program = """
import _thread
done = _thread.allocate_lock()
done.acquire()
def work():
    from glue.drivers.interruption import Uninterrupted  # the first to import threading: it is its main thread
    with Uninterrupted(work.__code__):
        print("in a turn")
    done.release()
_thread.start_new_thread(work, ())
done.acquire(timeout=20)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "in a turn\n", ran.stderr
