"""The background thread: who waits for something is told of it, over a network that brings nothing."""

from __future__ import annotations

import threading

import pytest

import glue
from glue.contract import Train
from tests.drivers.calm import EmptyNetwork
from tests.support.lan import Lan

OVERSLEPT = 2.0  # seconds until the test fails; what it waits for comes at once


class Silence(EmptyNetwork):
    """Its first wait ends when the test has `begun`; once all is `heard`, one waits for `released`."""

    def __init__(self, heard: list[glue.Message]) -> None:
        super().__init__()
        self.begun, self.released = threading.Event(), threading.Event()
        self.overslept = False
        self._heard = heard
        self._woken = threading.Event()

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        self.begun.wait(OVERSLEPT)
        if len(self._heard) == 2 and not self.released.is_set():
            self.overslept |= not self.released.wait(OVERSLEPT)
        self._woken.wait(timeout)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()


def test_who_waits_until_all_is_handled_is_told_before_the_leader_sleeps() -> None:
    heard: list[glue.Message] = []
    seen = threading.Event()
    network = Silence(heard)

    def handler(message: glue.Message) -> None:
        seen.wait(OVERSLEPT)
        heard.append(message)

    with glue.Endpoint("a", network=lambda settings: network) as a:
        driver = a._driver
        assert driver is not None
        a.subscribe("t/#", handler)
        for topic in ("t/1", "t/2"):
            a.publish(topic, 1, reliability="best-effort")

        def is_done() -> bool:
            network.begun.set()  # the leader's turn comes once this thread waits
            if driver._events:  # the second message, while the first is being handled
                seen.set()
            return seen.is_set() and not driver._events

        assert driver.wait_until(is_done, 2 * OVERSLEPT)
        assert {thread.daemon for thread in driver._threads} == {True}  # they keep no program from ending
        network.released.set()
    assert len(heard) == 2
    assert not network.overslept


def test_what_is_published_while_another_thread_closes_is_refused_rather_than_lost_in_silence() -> None:
    network = Silence([])
    endpoint = glue.Endpoint("a", network=lambda settings: network).start()
    network.begun.set()
    driver = endpoint._driver
    assert driver is not None

    class Closing:
        """In the place of what a publisher enters before it waits for its turn: until then another was quicker."""

        def __enter__(self) -> None:
            closer = threading.Thread(target=endpoint.close, args=(0,))
            closer.start()
            closer.join()

        def __exit__(self, *_: object) -> None:
            pass

    driver._uninterrupted = Closing()  # type: ignore[assignment]
    with pytest.raises(glue.ClosedError):
        endpoint.publish("t", 1, priority="high")


class Resting(Silence):
    """One that waits, in its first `receive`, for the rest of a stream that does not come."""

    def __init__(self) -> None:
        super().__init__([])
        self.begun.set()
        self.rests = threading.Event()
        self.is_over: list[bool] = []

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        if self.rests.is_set():
            super().wait(timeout, patient)

    def receive(self) -> list[Train]:
        if not self.rests.is_set():
            self.rests.set()
            self.is_over.append(self._woken.wait(OVERSLEPT))
        return []


def test_a_leader_who_waits_for_the_rest_of_a_stream_is_woken_by_who_publishes() -> None:
    network = Resting()
    with glue.Endpoint("a", network=lambda settings: network) as a:
        assert network.rests.wait(OVERSLEPT)
        a.publish("t", 1, reliability="best-effort")
        a.wait_for_peers(0)  # as soon as the turn is over
        assert network.is_over == [True]


def test_closing_while_a_thread_is_about_to_start_is_no_error(lan: Lan) -> None:
    endpoint = lan.start("a")
    driver = endpoint._running()
    late = driver._thread(driver._stand_by, "glue standby")
    endpoint.close()
    late.start()
    late.join(10)
    assert not late.is_alive()
