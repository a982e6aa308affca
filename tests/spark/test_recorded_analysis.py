"""An analysis comes out as it is written down: its tables, and what other settings would have done.

A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

import json
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
from tests.spark.scenario import Scenario
from tests.spark.test_recorded_reading import RECORDED, compare

ANALYSIS = RECORDED / "analysis.json"
SETS = combinations(["parity=0,0.3", "lease_intervals=2,5"])


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("captures")
    Scenario().taps.write(directory)
    return [str(directory)]


def rounded(value: Any) -> Any:
    """The same with floats of nine digits, as sums may be added up in another order."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_the_tables_of_an_analysis(spark: SparkSession, traces: list[str], pytestconfig: pytest.Config) -> None:
    analysis = analyze(frames(spark, traces, None), interval=14)
    try:
        result = rounded(collect(analysis, frames(spark, traces, None, "files")))
    finally:
        analysis.close()
    for row in result["files"]:
        row["file"] = Path(row["file"]).name
    if pytestconfig.getoption("--rewrite"):
        lines = [f"{json.dumps(name)}: [\n{_rows(rows)}]" for name, rows in result.items() if name != "trace"]
        ANALYSIS.write_text('{"trace": ' + json.dumps(result["trace"]) + ",\n" + ",\n".join(lines) + "}\n")
    stored = json.loads(ANALYSIS.read_text())
    assert result.keys() == stored.keys()
    for name, rows in stored.items():
        assert result[name] == rows, name


def _rows(rows: list[Any]) -> str:
    return ",\n".join(json.dumps(row) for row in rows)


def test_other_settings_for_all(spark: SparkSession, traces: list[str], pytestconfig: pytest.Config) -> None:
    offer = offered(spark, traces)
    rows = [rounded(simulate(offer, one)) for one in SETS]
    compare([*lines_of(rows), *tags(trade_off_page(rows))], "what-if", pytestconfig)
