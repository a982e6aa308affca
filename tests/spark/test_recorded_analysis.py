"""An analysis comes out as it is written down: its tables, and what other settings would have done.

A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.analyze.job import analyze
from spark.analyze.result import collect
from spark.convert import frames
from spark.replay.__main__ import lines_of
from spark.replay.offered import offered
from spark.replay.options import combinations
from spark.replay.senders import simulate
from spark.report.trade_off import page as trade_off_page
from tests.spark.page import tags
from tests.spark.recordings import RECORDED, compare
from tests.spark.rows import restored, stored
from tests.spark.scenario import Scenario

ANALYSIS = RECORDED / "analysis.json"
DURATION = 10**15  # nanoseconds; more is a point in time
SETS = combinations(["parity=0,0.3"])


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("captures")
    Scenario().taps.write(directory)
    return [str(directory)]


def rounded(value: Any, name: str = "") -> Any:
    """The same with floats and durations of six digits, as sums may be added up in another order."""
    if isinstance(value, dict):
        return {name: rounded(part, name) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, int) and name.endswith("_ns") and value < DURATION:
        return int(float(f"{value:.6g}"))
    return float(f"{value:.6g}") if isinstance(value, float) else value


def test_the_tables_of_an_analysis(spark: SparkSession, traces: list[str], pytestconfig: pytest.Config) -> None:
    analysis = analyze(frames(spark, traces, None), interval=14)
    try:
        result = rounded(collect(analysis, frames(spark, traces, None, "files")))
    finally:
        analysis.close()
    for row in result["files"]:
        row["file"] = Path(row["file"]).name
    if pytestconfig.getoption("--rewrite"):
        ANALYSIS.write_text(stored(result))
    recorded = restored(ANALYSIS.read_text())
    assert result.keys() == recorded.keys()
    for name, rows in recorded.items():
        assert result[name] == rows, name


def test_other_settings_for_all(spark: SparkSession, traces: list[str], pytestconfig: pytest.Config) -> None:
    offer = offered(spark, traces)
    rows = [rounded(simulate(offer, one)) for one in SETS]
    compare([*lines_of(rows), *tags(trade_off_page(rows))], "what-if", pytestconfig)
