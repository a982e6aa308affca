"""Everything that the doctor says of each scene, word for word, as it stands in `told.txt`.

A change that is meant is taken over by `pytest tests/doctor/test_told.py --rewrite`, and read in the diff.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from glue.cmd import doctor
from glue.cmd.output import CommandOutput
from glue.doctor import PathSeen, Seen, diagnose
from tests.doctor.more_scenes import SCENES
from tests.doctor.scenes import ATTIC, HALL, KITCHEN, at_hall, healthy
from tests.doctor.test_rules import CASES

RECORD = Path(__file__).parent / "told.txt"
SHOWN = {
    "healthy": healthy(KITCHEN, replace(HALL, answered=False), replace(ATTIC, answered=False, proven=False)),
    "notes": at_hall(
        answered=False, links={"a": True},
        paths=(
            PathSeen(peer="attic", link="a", carries=True, round_trip=0.0012, loss=0.25),
            PathSeen(peer="attic", link="b"), PathSeen(peer="attic", link="c", answers=False),
        ),
    ),
    "warnings": at_hall(waiting=30 << 20, version="2", clock_offset=5.0),
    "nothing": SCENES["none but loopback"], "no interface": SCENES["wanted is not, nor any"],
}  # fmt: skip


def said(name: str, seen: Seen, cures: set[str]) -> Iterator[str]:
    """The lines of a scene; a cure that was told before is left out."""
    diagnosis = diagnose(seen)
    if diagnosis.is_healthy:
        assert diagnosis.cure == ""
        yield f"{name}: {diagnosis.verdict}"
    else:
        first = diagnosis.findings[0]
        assert diagnosis.verdict == f"{first.verdict[0].upper()}{first.verdict[1:]}."
        assert diagnosis.cure == f"{first.cure[0].upper()}{first.cure[1:]}{'' if first.cure.endswith('.') else '.'}"
        yield f"{name}:"
    for one in diagnosis.findings:
        yield f"  {one.level} {one.rule}: {one.verdict}{'' if one.cure in cures else f' | {one.cure}'}"
        cures.add(one.cure)
        if one.details:
            yield f"    {dict(one.details)}"


def shown(seen: Seen) -> str:
    """What the command prints on a terminal, and for programs."""
    texts = []
    for as_json in (False, True):
        stream = io.StringIO()
        if not as_json:
            stream.isatty = lambda: True  # type: ignore[method-assign]
        doctor.tell(CommandOutput(stream, as_json, lambda: None), seen, diagnose(seen))
        texts.append(stream.getvalue().replace("\x1b", "^"))
    return "".join(texts)


def test_what_the_doctor_says_is_what_stands_in_the_record(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    scenes = {**{f"{case[0]} {number}": case[2] for number, case in enumerate(CASES)}, **SCENES}
    cures: set[str] = set()
    lines = [line for name, seen in scenes.items() for line in said(name, seen, cures)]
    for name, seen in SHOWN.items():
        lines += [f"==== {name}", *shown(seen).splitlines()]
    if pytestconfig.getoption("--rewrite"):
        RECORD.write_text("".join(f"{line}\n" for line in lines))
    assert lines == RECORD.read_text().splitlines()
