"""What the doctor saw of faults in network namespaces (`benchmarks.doctor_faults --record`), judged again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.doctor_scenes import FAULTS, Fault
from glue.doctor import Seen, diagnose

FOLDER = Path(__file__).parent / "recorded"


def file_of(fault: Fault) -> Path:
    return FOLDER / f"{fault.name.replace(' ', '-')}.json"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_recorded_fault_is_named(fault: Fault) -> None:
    diagnosis = diagnose(Seen.from_dict(json.loads(file_of(fault).read_text())))
    assert diagnosis.findings[0].rule in fault.rules
    assert not diagnosis.is_healthy


def test_every_record_belongs_to_a_fault() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == {file_of(fault).name for fault in FAULTS}
