"""Who led a model and how long commits took, beside what the simulator knows to be true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from glue.model.consensus.leader import COMMIT_PATIENCE
from glue.model.questions import Committed, Ending, Write
from glue.model.state import Set
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from spark.analyze.job import analyze
from spark.analyze.result import Result, collect
from spark.analyze.verdict import verdict
from spark.convert import frames
from tests.spark.truth import Taps

NS = 10**9
CLOCKS = {"a": Clock(0.0), "b": Clock(0.4, 20e-6), "c": Clock(-0.7)}


class Found(NamedTuple):
    """An analysis beside the truth: leaders as (name, term, since when), and seconds from asking to the answer.

    Since when: in nanoseconds by the leader's own clock.
    """

    result: Result
    reigns: list[tuple[str, int, int]]
    commits: dict[str, list[float]]


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """Three voters; the leader is cut off, and later comes back; values are set at whoever leads."""
    world = World(21)
    voters = [world.endpoint(name) for name in CLOCKS]
    taps = Taps(world, {one.name: one.host for one in voters}, CLOCKS)
    world.network.set_conditions(Conditions(delay=0.003, jitter=0.001))
    models = {one.name: one.model("plant", voters=3) for one in voters}
    reigns: list[tuple[str, int, int]] = []
    commits: dict[str, list[float]] = {name: [] for name in CLOCKS}

    def look() -> None:
        for name, model in models.items():
            status = model.group.status
            reign = name, status.term
            if status.role.name == "LEADER" and reign not in [(who, term) for who, term, _ in reigns]:
                reigns.append((*reign, taps.stamp(name, world.time)))
        world.after(0.001, look)

    def ask(number: int) -> None:
        name = reigns[-1][0] if reigns else "a"
        asked = world.time

        def answered(ending: Ending) -> None:
            if isinstance(ending, Committed):
                commits[name].append(world.time - asked)

        if reigns and models[name].group.status.role.name == "LEADER":
            models[name].ask(Write([Set(f"k/{number % 7}", number)]), then=answered)
        if number < 300:
            world.after(0.03, lambda: ask(number + 1))

    world.after(0.5, look)
    world.after(3.0, lambda: ask(0))
    world.run(6.0)
    isolated = next(one for one in voters if one.name == reigns[-1][0])
    world.network.partition([isolated.host])
    world.run(6.0)
    world.network.heal()
    world.run(4.0)
    directory = tmp_path_factory.mktemp("consensus")
    taps.write(directory)
    analysis = analyze(frames(spark, [str(directory)], None), interval=3600)
    yield Found(collect(analysis), reigns, commits)
    analysis.close()


def test_each_term_has_its_leader(found: Found) -> None:
    told = [row for row in found.result["leaders"] if row["leader"] is not None]
    assert [(row["leader"], row["term"]) for row in told] == [(name, term) for name, term, _ in found.reigns]
    assert len(told) >= 2
    assert {row["model"] for row in told} == {"plant"}
    assert all(row["candidates"] == 1 for row in told[1:])


def test_the_time_without_a_leader_is_that_of_the_change(found: Found) -> None:
    first, second = [row for row in found.result["leaders"] if row["leader"] is not None][:2]
    for row, (_, _, since) in zip((first, second), found.reigns, strict=False):
        assert row["from_ns"] == pytest.approx(since, abs=5e6)
    assert 1.0 < second["vacant_ns"] / NS < 3.0  # drawn from one to two election timeouts of a second


def test_commits_take_as_long_as_those_who_asked_waited(found: Found) -> None:
    rows = {row["sender"]: row for row in found.result["latencies"] if row["measure"] == "commit"}
    assert {row["receiver"] for row in rows.values()} == {"model plant"}
    for name, told in found.commits.items():
        waited = sorted(told[1:])  # with the first one a session is opened, which is another commit
        if waited:
            row: dict[str, Any] = rows[name]
            assert row["count"] >= len(waited)  # a leader's own entry and changes of members are entries, too
            for measured, truth in (("p50_ns", waited[len(waited) // 2]), ("p99_ns", waited[int(len(waited) * 0.99)])):
                assert 0.98 * truth <= row[measured] / NS <= 1.02 * truth + COMMIT_PATIENCE


def test_the_verdict_tells_of_it(found: Found) -> None:
    text = " ".join(finding.text for finding in verdict(found.result))
    assert "model plant" in text
    assert "without a leader" in text
