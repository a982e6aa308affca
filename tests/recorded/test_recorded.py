"""Recorded runs go as they are written down: what is sent and when, what arrives, what is told and counted.

A change that is meant is taken over by `pytest tests/recorded --rewrite`, and read in the diff: deliveries and gaps
must be what they should be, and the counters as plausible as before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.recorded.commands import COMMANDS
from tests.recorded.consensus import consensus, forged
from tests.recorded.crowd import DOORS
from tests.recorded.features import FEATURES
from tests.recorded.forms import FORMS
from tests.recorded.grouping import GROUPING
from tests.recorded.guarding import GUARDING
from tests.recorded.homes import HOMES
from tests.recorded.hooks import HOOKS
from tests.recorded.http_requests import HTTP
from tests.recorded.members import MEMBERS
from tests.recorded.merging import MERGING
from tests.recorded.models import MODELS
from tests.recorded.networks import NETWORKS
from tests.recorded.readers import READERS
from tests.recorded.scenes import SCENES
from tests.recorded.sealing import SEALING
from tests.recorded.small import SMALL
from tests.recorded.stores import STORES
from tests.recorded.transports import TRANSPORTS
from tests.recorded.wild import WILD
from tests.recorded.wishes import WISHES

CONSENSUS: dict[str, Callable[[], str]] = {
    **{f"consensus-{part}": partial(consensus, part) for part in range(4)},
    "consensus-forged": forged,
}
RUNS: dict[str, Callable[[], str]] = {
    **SCENES,
    **MODELS,
    **CONSENSUS,
    **NETWORKS,
    **TRANSPORTS,
    **DOORS,
    **HOOKS,
    **FEATURES,
    **WILD,
    **SMALL,
    **MEMBERS,
    **READERS,
    **STORES,
    **FORMS,
    **HOMES,
    **WISHES,
    **COMMANDS,
    **HTTP,
    **SEALING,
    **MERGING,
    **GUARDING,
    **GROUPING,
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_as_it_is_written_down(name: str, pytestconfig: pytest.Config) -> None:
    path = Path(__file__).parent / f"{name}.txt"
    told = RUNS[name]()
    if pytestconfig.getoption("--rewrite"):
        path.write_text(told)
    assert told.splitlines() == path.read_text().splitlines()


def test_there_is_a_run_for_each_record() -> None:
    assert {path.stem for path in Path(__file__).parent.glob("*.txt")} == RUNS.keys()
