"""What senders would have done with other settings, over the losses of a trace whose truth is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

import glue.transport.round_trip
from glue.errors import ConfigurationError
from glue.simulation import Burst, Conditions, RecordedOutcomes, World
from glue.simulation.clock import Clock
from spark.replay.offered import Offered, offered
from spark.replay.options import combinations, constants
from spark.replay.senders import simulate
from spark.replay.what_if import what_if_all
from spark.report.trade_off import page
from tests.spark.truth import Taps

COUNT = 400
CLOCKS = {"a": Clock(0.0), "b": Clock(0.3, 10e-6)}


class Recorded(NamedTuple):
    """What truly happened, and what the captures offer to be tried with other settings."""

    offer: Offered
    latencies: list[float]
    losses: int
    resends: int


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A publisher and a subscriber with clocks of their own, between them bursts of loss."""
    world = World(31)
    a, b = (world.endpoint(name) for name in "ab")
    taps = Taps(world, {"a": a.host, "b": b.host}, CLOCKS)
    asked: list[float] = []
    heard: list[float] = []
    b.subscribe("t", lambda message: heard.append(world.time - asked[message.sequence - 1]))
    world.run(1.0)
    burst = Burst(enter=0.02, leave=0.3)
    world.network.set_conditions(Conditions(delay=0.002, burst=burst), source=a.host)

    def publish(number: int) -> None:
        asked.append(world.time)
        a.publish("t", bytes(600))

    for number in range(COUNT):
        world.after(0.005 * number, partial(publish, number))
    world.run(4.0)
    directory = tmp_path_factory.mktemp("recorded")
    taps.write(directory)
    losses = sum(not outcome.arrived_at for outcome in taps.outcomes if outcome.source == "a")
    resends = a.statistics["transport"]["frames resent"]
    return Recorded(offered(spark, [str(directory)]), sorted(heard), losses, resends)


def test_the_traffic_is_offered_as_it_was(recorded: Recorded) -> None:
    offer = recorded.offer
    assert offer.endpoints == ["a", "b"]
    assert [(one.publisher, one.topic, one.size) for one in offer.messages] == [("a", "t", 600)] * COUNT
    assert offer.messages[-1].time - offer.messages[0].time == pytest.approx(0.005 * (COUNT - 1), abs=1e-3)
    assert [interest[1:] for interest in offer.interests] == [("b", "+t")]
    times, delays = offer.links["a", "b"]
    assert delays.count(None) == recorded.losses
    assert times == sorted(times)
    arrived = sorted(delay for delay in delays if delay is not None)
    assert arrived[len(arrived) // 2] == pytest.approx(0.002, abs=0.0011)  # to what the clocks could be related


def test_the_same_settings_do_about_what_was_done(recorded: Recorded) -> None:
    row = simulate(recorded.offer, {})
    assert row["expected"] == row["delivered"] == COUNT
    assert row["p50_ms"] / 1e3 == pytest.approx(recorded.latencies[COUNT // 2], rel=0.3, abs=0.001)
    assert row["resends"] == pytest.approx(recorded.resends, rel=0.4)
    assert simulate(recorded.offer, {}) == row  # virtual time: the same again


def test_later_resends_make_the_latest_messages_later(recorded: Recorded) -> None:
    early, late = (
        simulate(recorded.offer, {"round_trip.MAX_PROBE": text, "round_trip.INITIAL": text})
        for text in ("0.005", "0.25")
    )
    assert early["delivered"] == late["delivered"] == COUNT
    assert late["p99_ms"] >= early["p99_ms"]
    assert glue.transport.round_trip.MAX_PROBE == 0.25  # as it was


def test_sets_are_spread_over_executors_and_told_as_a_page(
    spark: SparkSession, recorded: Recorded, tmp_path: Path
) -> None:
    sets = combinations(["queue_limit=1000,4000000", "window.INITIAL=2,128"])
    rows = what_if_all(spark, recorded.offer, sets)
    assert [(row["queue_limit"], row["window.INITIAL"]) for row in rows] == [
        ("1000", "2"), ("1000", "128"), ("4000000", "2"), ("4000000", "128"),
    ]  # fmt: skip
    assert rows == [simulate(recorded.offer, one) for one in sets]
    text = page(rows)
    assert text.count("<circle") == 4
    assert "window.INITIAL 128" in text


def test_constants_are_exchanged_wherever_they_are_used() -> None:
    from glue.transport import incoming, wire
    from glue.transport.fec import policy

    with constants({"wire.MAX_RANGES": "7", "incoming.STRIDE": "9"}):
        assert (wire.MAX_RANGES, incoming.STRIDE) == (7, 9)
    assert (wire.MAX_RANGES, incoming.STRIDE) == (100, 64)
    with constants({"fec.policy.LEAST": "0.5"}):
        assert policy.LEAST == 0.5
    assert policy.LEAST == 0.005


def test_what_is_no_setting_is_refused() -> None:
    for word in ("nonsense=1", "round_trip.NONE=1", "queue_limit=", "wire.KEY=1"):
        with pytest.raises(ValueError, match="expected a setting and its values"):
            combinations([word])
    with pytest.raises(ConfigurationError, match="announce_interval"):
        combinations(["announce_interval=0"])
    with pytest.raises(ValueError, match="expected a number"):
        combinations(["window.INITIAL=many"])


def test_recorded_outcomes_come_back_in_their_moment() -> None:
    outcomes = RecordedOutcomes([0.01, 0.02, 0.03, 0.25], [0.5, None, 0.001, None])
    assert [outcomes.arrival(now) for now in (0.0, 0.05, 0.06)] == [0.5, None, 0.5]  # the third waits for the first
    assert outcomes.arrival(0.09) == pytest.approx(0.59)  # a fourth one: from the beginning again
    assert outcomes.arrival(0.15) == pytest.approx(0.59)  # nothing then: as the latest before
    assert outcomes.arrival(0.22) is None
    assert outcomes.arrival(9.0) is None
    assert RecordedOutcomes([], []).arrival(1.0) == 1.0
