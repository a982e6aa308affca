"""`glue simulate`: runs are summed up, a failing one is told with the commands that repeat it, a trace tells all."""

from __future__ import annotations

from typing import Any

import pytest

from glue.cmd import simulate
from glue.simulation.consensus import STORM, RunResult, run_seed


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
