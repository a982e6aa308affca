"""The page and the words made of an analysis, and a trace replayed, are what is written down.

The analysis is the one in `recorded/analysis.json`, so nothing here needs Spark. A change that is meant is taken over
by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from glue.settings import effective
from spark.analyze.__main__ import summary
from spark.analyze.result import Result
from spark.replay.__main__ import summary as replay_summary
from spark.replay.engine import replay
from spark.replay.trace import inbound
from spark.report import page
from tests.spark.page import tags
from tests.spark.recordings import RECORDED, compare
from tests.spark.rows import restored
from tests.spark.scenario import Scenario


@pytest.fixture
def recorded() -> Result:
    return restored((RECORDED / "analysis.json").read_text())


def test_the_page_of_an_analysis(recorded: Result, pytestconfig: pytest.Config) -> None:
    compare(tags(page(recorded)), "page", pytestconfig)


def test_the_words_on_the_terminal(recorded: Result, pytestconfig: pytest.Config) -> None:
    compare(summary(recorded), "words", pytestconfig)


def test_endpoints_replayed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    Scenario().taps.write(tmp_path)
    lines = []
    for name in "bc":
        lines += [name, *replay_summary(replay(inbound([str(tmp_path)], name), effective({"name": name}, {})))]
    compare(lines, "replay", pytestconfig)
