"""A trace through glue's own layers again tells what the endpoint's application saw."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from glue.settings import effective
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from spark.read import CaptureError
from spark.replay.__main__ import main, trade_off
from spark.replay.engine import replay
from spark.replay.options import combinations
from spark.replay.trace import inbound
from spark.replay.what_if import what_if
from tests.spark.truth import Taps


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[tuple[str, int]], list[str]]:
    """A subscriber behind a lossy link, cut off for 3.5 s: what it got, and the captures."""
    world = World(11)
    a, b = world.endpoint("a"), world.endpoint("b")
    taps = Taps(world, {"a": a.host, "b": b.host}, {"a": Clock(), "b": Clock(5.0, 30e-6)})
    world.network.set_conditions(Conditions(loss=0.1, duplicate=0.05, jitter=0.002))
    subscription = b.subscribe("t/#")
    world.run(1.0)
    for number in range(200):
        world.after(number * 0.01, partial(a.publish, f"t/{number % 2}", bytes(50 * number)))
    world.at(4.0, lambda: world.network.partition([a.host]))
    world.at(7.5, world.network.heal)
    world.at(9.0, lambda: a.publish("t/0", b"last"))
    world.run(10.0)
    directory = tmp_path_factory.mktemp("replay")
    taps.write(directory)
    got = [(message.topic, message.sequence) for message in subscription.received]
    return world, got, [str(directory)]


def test_the_same_messages_are_delivered_in_the_same_order(
    traced: tuple[World, list[tuple[str, int]], list[str]],
) -> None:
    _, got, captures = traced
    told = replay(inbound(captures, "b"), effective({"name": "b"}, {}))
    seen = [(topic, first + n) for _, topic, _, first, count in told.messages for n in range(count)]
    assert len(got) == 201
    assert seen == got
    assert [(name, what) for _, name, what in told.peers] == [("a", "found")]
    assert told.statistics["transport"]["duplicate frames"] > 0


def test_an_endpoint_that_is_not_there_is_named(traced: tuple[World, list[tuple[str, int]], list[str]]) -> None:
    with pytest.raises(CaptureError, match="'c' announces itself; there are a, b"):
        inbound(traced[2], "c")


def test_a_shorter_lease_would_have_given_the_peer_up(
    spark: SparkSession, traced: tuple[World, list[tuple[str, int]], list[str]]
) -> None:
    sets = combinations(["lease_intervals=2,3,5"])
    rows = what_if(spark, "b", inbound(traced[2], "b"), sets)
    assert [row["expired"] for row in rows] == [1, 1, 0]
    assert [row["lease_intervals"] for row in rows] == ["2", "3", "5"]
    assert trade_off(rows, "expired")[0].endswith("█")


def test_the_command_tells_what_was_seen(
    traced: tuple[World, list[tuple[str, int]], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*traced[2], "--endpoint", "b", "--speed", "1e6"]) == 0
    assert "101 messages on t/0 from a" in capsys.readouterr().out
    assert main([*traced[2], "--endpoint", "b", "--what-if", "nonsense=1"]) == 2
    assert "expected a setting" in capsys.readouterr().err
