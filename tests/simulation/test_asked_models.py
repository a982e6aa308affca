"""What clients of a simulated model and of simulated receivers are told, and when; how failing seeds are shrunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import glue
from glue.model.questions import Committed, Found, Refused, Unknown, Write
from glue.model.state import Set
from glue.simulation import SimulatedEndpoint, World
from glue.simulation.consensus import swarm
from glue.simulation.consensus.faults import FAULTS
from glue.simulation.linearizability import COMPARE_AND_SET, READ, WRITE, Operation
from glue.simulation.model import SimulatedModel, SimulatedQuestion


def plant(count: int = 1) -> tuple[World, list[SimulatedEndpoint], list[SimulatedModel]]:
    """Endpoints with a model that has a leader."""
    world = World(3)
    endpoints = [world.endpoint(f"e{number}") for number in range(count)]
    models = [endpoint.model("plant", voters=count) for endpoint in endpoints]
    first = models[0].ask(Write([Set("begun", 1)]), timeout=20.0)
    assert world.run_until(lambda: first.ending is not None, 20.0)
    assert isinstance(first.ending, Committed)
    return world, endpoints, models


def shown(history: list[Operation]) -> list[tuple[str, tuple[Any, ...], Any, bool]]:
    return [(one.kind, one.arguments, one.answer, one.is_unknown) for one in history]


def test_a_history_has_what_each_client_asked_and_was_told_with_its_times() -> None:
    world, _, (model,) = plant()
    history: list[Operation] = []
    changes = model.watch("k")
    world.run(0.1)
    began = world.time
    asks: list[Callable[[], SimulatedQuestion]] = [
        lambda: model.read(history, "c", "k"),
        lambda: model.write(history, "c", "k", 7),
        lambda: model.read(history, "c", "k"),
        lambda: model.compare_and_set(history, "c", "k", 7, 8),
        lambda: model.compare_and_set(history, "c", "k", 7, 9),
        lambda: model.compare_and_set(history, "c", "other", None, 1),
        lambda: model.compare_and_set(history, "c", "other", None, 2),
    ]
    for ask in asks:
        called = world.time
        pending = ask()
        assert pending.ending is None
        assert world.run_until(lambda pending=pending: pending.ending is not None, 1.0)  # type: ignore[misc]
        assert (history[-1].called, history[-1].returned, history[-1].client) == (called, world.time, "c")
        world.run(0.01)
    assert shown(history) == [
        (READ, (), None, False), (WRITE, (7,), None, False), (READ, (), 7, False),
        (COMPARE_AND_SET, (7, 8), True, False), (COMPARE_AND_SET, (7, 9), False, False),
        (COMPARE_AND_SET, (None, 1), True, False), (COMPARE_AND_SET, (None, 2), False, False),
    ]  # fmt: skip
    assert [one.key for one in history] == ["k"] * 5 + ["other"] * 2
    assert history[0].called == began
    assert [(change.key, change.value) for change in changes.changes] == [("k", 7), ("k", 8)]


def test_what_nobody_answers_stays_unknown_or_is_left_out() -> None:
    world, endpoints, models = plant(3)
    history: list[Operation] = []
    world.run(2.0)
    for endpoint in endpoints[1:]:
        endpoint.crash()
    told: list[Any] = []
    asked = [models[0].write(history, "c", "k", 1), models[0].read(history, "c", "k")]
    asked.append(models[0].ask(Write([Set("k", 2)]), 1.0, told.append))
    assert [one.kind for one in history] == [WRITE]
    world.run(1.5)
    assert len(told) == 1
    assert isinstance(told[0], Unknown | Refused)
    assert asked[2].ending is told[0]
    world.run(5.0)
    assert all(one.ending is not None and not isinstance(one.ending, Found | Committed) for one in asked)
    is_refused = isinstance(asked[0].ending, Refused)
    assert shown(history) == ([] if is_refused else [(WRITE, (1,), None, True)])
    endpoints[0].crash()
    lost = models[0].ask
    with pytest.raises(glue.ClosedError):
        lost(Write([Set("k", 3)]))


class Sum(glue.Receiver):
    """Adds numbers."""

    def receive(self, context: glue.Context, message: Any) -> Any:
        if message == "fail":
            raise ValueError("as asked")
        context.state["sum"] = context.state.get("sum", 0) + message
        return context.state["sum"]


def test_an_answer_of_a_receiver_comes_once_or_is_late_after_its_timeout() -> None:
    world, (host,), (model,) = plant()
    kind = host.receivers("sum", Sum, model, partitions=4)
    assert world.run_until(lambda: kind.owned == 4, 10.0)
    told: list[tuple[Any, Any]] = []
    good = host.ask("sum/x", 3, then=lambda *answer: told.append(answer))
    bad = host.ask("sum/x", "fail", then=lambda *answer: told.append(answer))
    assert (good.is_over, bad.is_over) == (False, False)
    world.run(1.0)
    assert (good.is_over, good.error, good.payload, bad.is_over, bad.payload) == (True, None, 3, True, None)
    assert "as asked" in str(bad.error)
    assert [answer for error, answer in told] == [3, None]
    for timeout in (0.0, -1.0, float("nan")):
        with pytest.raises(glue.ConfigurationError):
            host.ask("sum/x", 1, timeout)
    caller = world.endpoint("caller")
    world.run(1.0)
    host.pause()
    at = world.time
    ends: list[float] = []
    late = caller.ask("sum/x", 4, 0.5, lambda *answer: ends.append(world.time - at))
    world.run(0.4)
    assert (late.is_over, ends) == (False, [])
    world.run(0.2)
    assert late.is_over
    assert isinstance(late.error, glue.GlueError)
    host.resume()
    world.run(2.0)
    assert ends == [pytest.approx(0.5)]
    assert late.payload is None, "what comes later changes nothing"
    answered = caller.ask("sum/x", 5, 60.0)
    assert world.run_until(lambda: answered.is_over, 1.0)
    host.pause()
    gone = caller.ask("sum/x", 6, 60.0)
    caller.crash()
    world.run(61.0)
    assert (answered.payload, gone.is_over) == (12, False)


def test_what_is_not_named_of_a_receiver_is_as_documented() -> None:
    world, (host,), (model,) = plant()
    kind = host.receivers("sum", Sum, model)
    assert world.run_until(lambda: kind.owned >= 64, 20.0)
    assert kind.owned == 64
    caller = world.endpoint("caller")
    world.run(1.0)
    host.pause()
    late = caller.ask("sum/x", 1)
    world.run(4.9)
    assert not late.is_over
    world.run(0.2)
    assert late.is_over


def test_a_receiver_of_a_paused_host_goes_on_when_the_host_does() -> None:
    world, (host,), (model,) = plant()
    kind = host.receivers("sum", Sum, model, partitions=4)
    assert world.run_until(lambda: kind.owned == 4, 10.0)
    told: list[Any] = []
    host.ask("sum/x", 3, 60.0, lambda error, answer: told.append((world.time, answer)))
    host.pause()
    world.run(1.0)
    assert told == []
    at = world.time
    host.resume()
    assert world.run_until(lambda: told, 1.0)
    assert told[0][1] == 3
    assert told[0][0] - at < 0.1
    host.ask("sum/x", 4, 60.0, lambda error, answer: told.append((world.time, answer)))
    host.restart()
    world.run(5.0)
    assert len(told) == 1, "that life is over"


@pytest.mark.parametrize(
    ("needed", "least", "storm"), [("crash", 3.0, 3.5), ("wipe", 0.0, 0.875), ("split", 14.0, 14.0)]
)
def test_a_failing_seed_is_shrunk_to_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, needed: str, least: float, storm: float
) -> None:
    def run_seed(
        seed: int, trace: Any = None, without: Any = (), storm: float = swarm.STORM, forged: bool = False
    ) -> swarm.RunResult:
        fails = needed not in without and storm >= least and (seed, forged) == (5, True)
        return swarm.RunResult(seed, "", 0, 0, {}, {}, "wrong" if fails else "")

    monkeypatch.setattr(swarm, "run_seed", run_seed)
    faults = {"crash": 1, "wipe": 2, "split": 1, "append": 9}
    found = swarm.shrunk(swarm.RunResult(5, "", 0, 0, {}, faults, "wrong"), forged=True)
    assert found == (sorted({"crash", "wipe", "split"} - {needed}), storm)
    assert {*faults} - {*FAULTS} == {"append"}, "what the forger did is no fault to leave out"
