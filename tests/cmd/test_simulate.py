"""`glue simulate`: runs are summed up, a failing one is told with the commands that repeat it, a trace tells all."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from glue.cmd import simulate
from glue.cmd.output import CommandOutput
from glue.model.consensus.items import Outcome
from glue.simulation.consensus import STORM, RunResult, run_seed
from tests.cmd.prepared import Time


def test_runs_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "3", "--first", "1"]) == 0
    told = capsys.readouterr().out
    results = [run_seed(seed) for seed in (1, 2, 3)]
    assert f"{sum(result.elections for result in results):12,} elections\n" in told
    assert f"{sum(result.commit_index for result in results):12,} entries committed\n" in told
    assert f"{sum(result.faults.get('crash', 0) for result in results):12,} faults: crash\n" in told
    assert "committed outcomes" in told
    assert told.splitlines()[-1].startswith("3 runs in ")
    assert told.splitlines()[-1].endswith(", 0 failed")


def test_jobs_give_the_same_results_in_order() -> None:
    one, two = (list(simulate.results("model", range(4), jobs)) for jobs in (1, 2))
    assert one == two
    assert [result.seed for result in one] == [0, 1, 2, 3]


def test_a_failing_run_is_told_with_what_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(seed: int, trace: Any = None, without: Any = (), storm: float = STORM, forged: bool = False) -> RunResult:
        fails = seed == 5 and "crash" not in without
        return RunResult(seed, "abc", 1, 2, {}, {"crash": 1}, "two leaders: x" if fails else "")

    monkeypatch.setitem(simulate.LAYERS, "model", run)
    monkeypatch.setattr(simulate, "shrunk", lambda result, forged: (["slow disk", "freeze"], 7.0))
    assert simulate.main(["--seeds", "4", "--first", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    again = "  python -m glue.cmd.simulate --layer model --first 5 --seeds 1"
    assert lines[:3] == [
        "seed 5: two leaders: x (trace abc)",
        f"{again} --trace",
        f"{again} --without slow-disk,freeze --storm 7 --trace",
    ]
    assert lines[-1].endswith(", 1 failed")
    assert simulate.main(["--seeds", "1", "--first", "5", "--without", "slow-disk", "--storm", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{again} --without slow-disk --storm 3 --trace"
    assert "elections" in lines[2]
    assert simulate.main(["--seeds", "1", "--first", "5", "--without", "slow-disk,crash"]) == 0


def test_a_trace_tells_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "2", "--trace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 0"
    assert len(lines) > 1000
    first = run_seed(0)
    assert f"seed 0: well (trace {first.trace_hash})" in lines
    assert lines[-1].startswith("seed 1: well")


def test_a_kind_of_fault_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        simulate.main(["--without", "crash,nothing"])
    assert "'nothing' is no kind of fault; there are " in capsys.readouterr().err
    assert simulate.kinds("slow-disk,crash") == ["slow disk", "crash"]
    assert simulate.options([], STORM, forged=False) == ""


class Runs:
    """Runs whose results are prepared, and the conditions that they were given."""

    def __init__(self, failing: tuple[int, ...] = ()) -> None:
        self.asked: list[Any] = []
        self._failing = failing

    def __call__(self, seed: int, *given: Any, **conditions: Any) -> RunResult:
        self.asked.append((seed, *given, conditions) if given else (seed, conditions))
        outcomes = {Outcome.COMMITTED: 1_000, Outcome.UNKNOWN: seed}
        return RunResult(seed, f"hash {seed}", 2, 50, outcomes, {"crash": 3}, "bad" if seed in self._failing else "")


CALM = {"without": [], "storm": STORM, "forged": False}


@pytest.mark.parametrize(("words", "conditions"), [
    ([], CALM), (["--without", "slow-disk,crash"], {**CALM, "without": ["slow disk", "crash"]}),
    (["--storm", "2.5"], {**CALM, "storm": 2.5}), (["--forged"], {**CALM, "forged": True}),
])  # fmt: skip
def test_runs_have_the_conditions_of_the_command_line(
    words: list[str], conditions: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, traced = Runs(), Runs()
    monkeypatch.setitem(simulate.LAYERS, "model", runs)
    monkeypatch.setattr(simulate, "run_seed", traced)
    assert simulate.main(["--seeds", "2", "--first", "7", *words]) == 0
    assert runs.asked == [(7, conditions), (8, conditions)]
    assert simulate.main(["--seeds", "2", "--first", "7", "--trace", *words]) == 0
    assert [(seed, *given) for seed, _, *given, _ in traced.asked] == [
        (seed, *conditions.values()) for seed in (7, 8)
    ]  # fmt: skip
    list(simulate.results("model", range(1), 1))
    assert runs.asked[-1] == (0, {"without": (), "storm": STORM, "forged": False})


def test_the_sums_the_progress_and_the_time_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, shown = Time(), list[Any]()
    runs = Runs(failing=(1,))

    def run(seed: int, **conditions: Any) -> RunResult:
        clock.now += 1.23456
        return runs(seed)

    monkeypatch.setitem(simulate.LAYERS, "model", run)
    monkeypatch.setattr(simulate, "time", clock)
    monkeypatch.setattr(simulate, "shrunk", lambda result, forged: ((), STORM))
    line = SimpleNamespace(tell=lambda *told: shown.append(told))
    monkeypatch.setattr(CommandOutput, "progress", lambda output, what: shown.append(what) or nullcontext(line))  # type: ignore[func-returns-value]
    assert simulate.main(["--seeds", "3"]) == 1
    assert shown == [
        "running", ("1 of 3 runs, 0 failed", 1 / 3), ("2 of 3 runs, 0 failed", 2 / 3), ("3 of 3 runs, 1 failed", 1.0),
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines()[3:] == [
        "           6 elections", "         150 entries committed", "       3,000 committed outcomes",
        "           3 unknown outcomes", "           9 faults: crash", "3 runs in 3.7 s, 1 failed",
    ]  # fmt: skip
    assert simulate.main(["--seeds", "2", "--first", "2", "--json"]) == 0
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [(one["event"], one["name"], one["count"]) for one in events[:-1]] == [
        ("sum", "elections", 4), ("sum", "entries committed", 100), ("sum", "committed outcomes", 2_000),
        ("sum", "unknown outcomes", 5), ("sum", "faults: crash", 6),
    ]  # fmt: skip
    assert {name: events[-1][name] for name in ("event", "runs", "seconds", "failed")} == {
        "event": "ended", "runs": 2, "seconds": 2.469, "failed": 0,
    }  # fmt: skip
    assert simulate.main(["--seeds", "1", "--first", "1", "--json"]) == 1
    failed, again, shorter, *_ = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert (failed["event"], failed["seed"], failed["violation"], failed["trace_hash"]) == (
        "failed", 1, "bad", "hash 1",
    )  # fmt: skip
    command = "python -m glue.cmd.simulate --layer model --first 1 --seeds 1 --trace"
    assert [(one["event"], one["command"]) for one in (again, shorter)] == [("again", command)] * 2
