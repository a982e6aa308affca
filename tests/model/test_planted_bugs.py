"""The swarm finds every planted bug within a thousand seeds, and each row of the checklist has its tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from glue.simulation.consensus import run_seed
from tests.model.planted_bugs import BUGS, planted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SEEDS = 1000
ROWS = 46


def hunt(name: str) -> int | None:
    """The first seed that finds a bug; the one in the documentation is tried first, to save time."""
    with planted(name):
        seeds = [*documented().get(name, []), *range(SEEDS)]
        return next((seed for seed in seeds if run_seed(seed).violation), None)


def documented() -> dict[str, list[int]]:
    """The seeds in the table of docs/consensus.md, by bug."""
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| \d+ \| [^|]+ \| (\d+) \|$", (ROOT / "docs" / "consensus.md").read_text(), re.M
    )
    return {name: [int(seed)] for name, seed in rows}


@pytest.fixture(scope="module")
def hunts() -> Iterator[dict[str, Future[int | None]]]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield {name: pool.submit(hunt, name) for name in BUGS}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, hunts: dict[str, Future[int | None]]) -> None:
    seed = hunts[name].result()
    assert seed is not None, f"{name}: {BUGS[name].what}"
    assert seed < SEEDS


def test_the_documentation_tells_of_every_bug_and_the_seed_that_finds_it() -> None:
    assert len(BUGS) >= 25
    assert documented().keys() == BUGS.keys()


def test_every_row_of_the_checklist_has_a_test() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    rows = {int(number) for number in re.findall(r"def test_row_(\d\d)_", text)}
    assert rows == set(range(1, ROWS + 1))
