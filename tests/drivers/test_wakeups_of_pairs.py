"""Two endpoints on an ether of queues, with no timer that would run a turn by chance: each is woken in time.

As in `test_wakeups`, what is waited for comes at once or not within a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import glue
from glue.contract import Address, Train
from tests.drivers.calm import LONG, Calm, ends, started
from tests.support.lan import PATIENCE, Ear


class Wire(Calm):
    """A network that hands datagrams to others; one that is `cut` hands on nothing."""

    def __init__(self, number: int, wires: list[Wire]) -> None:
        super().__init__()
        self.unicast_address: Address = (f"10.0.0.{number}", 1)
        self.cut = False
        self.came = 0  # trains, so far
        self._wires = wires
        self._inbox: list[Train] = []
        wires.append(self)

    def send(self, trains: Sequence[Train]) -> None:
        for train in trains:
            data = bytes(train.data)
            for wire in self._wires:
                if not self.cut and wire is not self and train.address in (None, (), wire.unicast_address):
                    with wire.changed:
                        wire._inbox.append(Train(self.unicast_address, data, train.segment))
                        wire.came += 1
                        wire.wake()

    def receive(self) -> list[Train]:
        with self.changed:
            inbox, self._inbox = self._inbox, []
        return inbox


class Pair:
    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self.endpoints: list[glue.Endpoint] = []

    def start(self, name: str) -> tuple[glue.Endpoint, Wire]:
        wire = Wire(len(self.wires) + 1, self.wires)
        settings: dict[str, Any] = {"announce_interval": 600.0, "receive_limit": 1000, "queue_limit": 1 << 20}
        endpoint = glue.Endpoint(name, network=lambda _: wire, **settings).start()
        self.endpoints.append(endpoint)
        return endpoint, wire


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    for endpoint in made.endpoints:
        endpoint.close(timeout=0)


@pytest.mark.parametrize("what", ["peers", "subscribers"])
def test_who_waits_for_others_is_told_by_the_turn_in_which_they_come(pair: Pair, what: str) -> None:
    a, wire = pair.start("a")
    wire.until_asleep()
    found: list[bool] = []
    if what == "peers":
        waiter = started(lambda: found.append(a.wait_for_peers(1, LONG)))
    else:
        waiter = started(lambda: found.append(a.wait_for_subscribers("t", 1, LONG)))
    wire.until_asleep()
    b, _ = pair.start("b")
    b.subscribe("t")
    assert ends(waiter)
    assert found == [True]


def test_who_flushes_is_told_by_the_turn_in_which_all_is_acknowledged(pair: Pair) -> None:
    (a, wire), (b, other) = pair.start("a"), pair.start("b")
    ear = Ear()
    b.subscribe("t", ear)
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for number in range(1, 4):
        for each in (wire, other):
            each.until_asleep()
        a.publish("t", number)
        waiter = started(lambda: a.flush(LONG))
        ear.wait(number)
        assert ends(waiter)


def test_who_reads_lets_the_sender_go_on_though_nothing_of_the_sender_comes_any_more(pair: Pair) -> None:
    """The sender has stopped for want of a window; that there is one again is told unasked."""
    (a, wire), (b, other) = pair.start("a"), pair.start("b")
    subscription = b.subscribe("t")
    assert a.wait_for_subscribers("t", 1, PATIENCE)
    for _ in range(2):  # from the first four on nothing more is promised, so the others use up some of what was
        for _ in range(4):
            a.publish("t", bytes(500))
        assert a.flush(PATIENCE)
        for each in (wire, other):
            each.until_asleep()
    wire.cut = True
    before = wire.came
    for _ in range(8):
        subscription.get(PATIENCE)
    with wire.changed:
        assert wire.changed.wait_for(lambda: wire.came > before, PATIENCE)
