"""A capture that begins late and ends early, by a clock that is hours off: what it did not see is not lost."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from spark.analyze.job import analyze
from spark.convert import frames
from tests.spark.truth import Outcome, Taps

NS = 10**9
BEGINS, ENDS, STOPS = 2.0, 5.0, 8.0
HOURS = 3.0
DELAY = 0.002


class Found(NamedTuple):
    """By sender and receiver: what was found, what became of the datagrams; and the delays that were found."""

    pairs: dict[tuple[str, str], dict[str, Any]]
    outcomes: list[Outcome]
    delays: list[float]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Found:
    world = World(11)
    a, b = world.endpoint("a", parity=0.0), world.endpoint("b")
    taps = Taps(world, {"a": a.host, "b": b.host}, {"a": Clock(), "b": Clock(HOURS * 3600)})
    b.subscribe("t")
    world.run(1.0)
    world.network.set_conditions(Conditions(loss=0.05, delay=DELAY))
    for number in range(600):
        world.after(0.01 * number, partial(a.publish, "t", b"%d" % number))
    world.run(STOPS - world.time)
    begins, ends = (taps.stamp("b", time) for time in (BEGINS, ENDS))
    taps.captured["b"] = [frame for frame in taps.captured["b"] if begins <= frame.time < ends]
    directory = tmp_path_factory.mktemp("early")
    taps.write(directory)
    analysis = analyze(frames(spark, [str(directory)], None), interval=3600)
    names = {life.sender: life.name for life in analysis.lives}
    points = analysis.points
    rows = [row for row in analysis.tables["pairs"].toArrow().to_pylist() if row["receiver"] is not None]
    told = {(names[row["sender"]], points[row["receiver"]]): row for row in rows}
    deliveries = analysis.tables["deliveries"].toArrow().to_pylist()
    delays = [row["under_way_ns"] / NS for row in deliveries if row["under_way_ns"] is not None]
    analysis.close()
    return Found(told, taps.outcomes, delays)


def between(found: Found, source: str, receiver: str) -> list[Outcome]:
    return [outcome for outcome in found.outcomes if (outcome.source, outcome.receiver) == (source, receiver)]


def test_what_left_while_nobody_captured_at_the_receiver_is_unobserved_and_not_lost(found: Found) -> None:
    told, sent = found.pairs["a", "b"], between(found, "a", "b")
    seen = [outcome for outcome in sent if BEGINS <= outcome.sent_at < ENDS]
    lost = sum(not outcome.arrived_at for outcome in seen)
    assert lost > 10
    # What was under way when the capture began or ended may be taken for either.
    assert told["lost"] == pytest.approx(lost, abs=2)
    assert told["arrived"] == pytest.approx(len(seen) - lost, abs=2)
    assert told["unobserved"] == pytest.approx(len(sent) - len(seen), abs=3)
    assert told["unobserved"] > 250


def test_the_way_back_is_judged_for_the_time_in_which_its_sender_captured(found: Found) -> None:
    told, sent = found.pairs["b", "a"], between(found, "b", "a")
    seen = [outcome for outcome in sent if BEGINS <= outcome.sent_at < ENDS]
    assert told["lost"] == pytest.approx(sum(not outcome.arrived_at for outcome in seen), abs=2)


def test_delays_are_those_of_the_network_though_clocks_are_hours_apart(found: Found) -> None:
    assert len(found.delays) > 250
    assert min(found.delays) > 0
    assert max(found.delays) < DELAY * 2
