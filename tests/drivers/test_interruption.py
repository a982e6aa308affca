"""Ctrl-C while the main thread is in a turn: the program goes on, and nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import glue
from glue.stack import Identity
from glue.topics import Topics
from tests.endpoint.lan import PATIENCE, Ear, Lan


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


@pytest.fixture
def lan() -> Iterator[Lan]:
    network = Lan()
    yield network
    network.close()


def talk(a: glue.Endpoint, b: glue.Endpoint, counts: dict[glue.Endpoint, int]) -> None:
    """Let them publish to each other until Ctrl-C; what that interrupts was published."""
    while True:
        for endpoint, size in ((b, 8), (a, 100_000)):
            counts[endpoint] += 1
            endpoint.publish(f"from {endpoint.name}", counts[endpoint].to_bytes(8, "big").ljust(size))


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
