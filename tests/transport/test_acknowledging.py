"""When it is acknowledged: seldom, as each time costs both sides a turn; and when asked, as none can be relied upon."""

from __future__ import annotations

from random import Random

import pytest

from glue.contract import Accept
from glue.contract.counters import Counters
from glue.transport.acknowledger import MOST, MOST_OF_GROUP, Acknowledger
from glue.transport.incoming import GapBudget, IncomingChannel
from glue.transport.round_trip import ACK_DELAY, MAX_PROBE
from glue.transport.wire import WINDOW
from tests.transport.network import Wire


@pytest.mark.parametrize(("receivers", "apart"), [([1], MOST), ([1, 2], MOST_OF_GROUP)], ids=["one", "several"])
def test_in_a_long_stream_so_many_frames_are_acknowledged_at_once(receivers: list[int], apart: int) -> None:
    wire = Wire(3)
    counts = []
    for _ in range(2):
        for _ in range(300):
            wire.publish(0, receivers, b"frame", 64)
            wire.run(0.0001)
        counts.append(wire.transports[wire.ids[1]].statistics["acknowledgements sent"])
    wire.run(1)
    assert counts[1] - counts[0] == pytest.approx(300 * 64 / apart, abs=2)
    assert wire.backlog == 0


def stopped(receivers: list[int], messages: int, frames: int) -> Wire:
    """The first of these receivers takes no more than it has promised, and so many messages are published to all."""
    wire = Wire(3)
    wire.send(wire.ids[1], Accept(False))
    for _ in range(messages):
        wire.publish(0, receivers, b"frame", frames)
    return wire


def goes_on_unheard(wire: Wire) -> None:
    """It takes more again; what says so is lost, and a second later nothing is lost any more."""
    wire.cut = {(wire.ids[1], wire.ids[0])}
    wire.send(wire.ids[1], Accept(True))
    wire.run(1)
    wire.cut.clear()


@pytest.mark.parametrize("receivers", [[1], [1, 2]], ids=["one", "several"])
def test_who_was_stopped_goes_on_though_the_acknowledgement_that_says_so_is_lost(receivers: list[int]) -> None:
    wire = stopped(receivers, messages=100, frames=100)
    wire.run(10)
    assert 0 < len(wire.heard[wire.ids[1]]) < 10_000
    asked = wire.transports[wire.ids[0]].statistics["window probes"]
    assert 10 / MAX_PROBE <= asked < 10 / MAX_PROBE + 10
    goes_on_unheard(wire)
    wire.run(2)
    assert [len(wire.heard[wire.ids[number]]) for number in receivers] == [10_000] * len(receivers)
    assert wire.backlog == 0


@pytest.mark.parametrize("receivers", [[1], [1, 2]], ids=["one", "several"])
def test_what_is_published_while_nothing_may_come_goes_on_its_way_too(receivers: list[int]) -> None:
    wire = stopped(receivers, messages=WINDOW // 64, frames=64)
    wire.run(1)
    assert wire.backlog == 0
    wire.publish(0, receivers, b"last")
    goes_on_unheard(wire)
    wire.run(1)
    assert wire.heard[wire.ids[1]][-1] == (wire.ids[0], b"last")
    assert wire.backlog == 0


def test_of_the_acknowledgements_owed_the_first_is_due_first() -> None:
    acknowledger = Acknowledger(Counters(), Random(1))
    budget = GapBudget()
    late, early = IncomingChannel("a" * 16, 1, budget), IncomingChannel("b" * 16, 1, budget)
    acknowledger.taken(5.0, late, 1, False)
    acknowledger.owe(4.999, early)
    assert acknowledger.deadline == 4.999 + ACK_DELAY
    assert [answer.peers for answer in acknowledger.due(4.9995 + ACK_DELAY)] == [("b" * 16,)]
    assert acknowledger.deadline == 5.0 + ACK_DELAY


def test_what_is_owed_since_long_takes_its_place_before_all_that_is_later() -> None:
    acknowledger, budget = Acknowledger(Counters(), Random(1)), GapBudget()
    for number, since in enumerate((5.0, 5.0002, 4.9999, 5.0001)):
        acknowledger.owe(since, IncomingChannel(f"{number}" * 16, 1, budget))
    order = [acknowledger.due(since + ACK_DELAY)[0].peers[0][0] for since in (4.9999, 5.0, 5.0001, 5.0002)]
    assert order == ["2", "0", "3", "1"]


def test_what_was_acknowledged_meanwhile_is_not_acknowledged_again_before_its_new_time() -> None:
    acknowledger, half = Acknowledger(Counters(), Random(1)), ACK_DELAY / 2
    incoming = IncomingChannel("a" * 16, 1, GapBudget())
    acknowledger.taken(5.0, incoming, 1, False)
    acknowledger.now(incoming)
    assert len(acknowledger.due(5.0)) == 1
    acknowledger.taken(5.0 + half, incoming, 1, False)
    assert acknowledger.due(5.0 + ACK_DELAY) == []
    assert len(acknowledger.due(5.0 + half + ACK_DELAY)) == 1
