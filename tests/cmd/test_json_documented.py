"""Every command with `--json` has a documented form, and the sources write no event and no field beside it.

That what comes out has this form is checked on every line that a test of this folder reads (`conftest.py`).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import glue.cmd
from glue.cmd import key, simulate
from glue.cmd.main import COMMANDS
from glue.cmd.output import RESERVED
from glue.simulation.consensus import RunResult
from tests.support.json_forms import check, forms

SOURCES = sorted(Path(glue.cmd.__file__).parent.glob("*.py"))


def written(source: Path) -> Iterator[tuple[str, set[str]]]:
    """The events in a source whose names stand there, and their fields."""
    for node in ast.walk(ast.parse(source.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("event", "complaint")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), {keyword.arg for keyword in node.keywords if keyword.arg}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_json_has_a_documented_form(command: str) -> None:
    options = import_module(f"glue.cmd.{command}").parser().format_help()
    assert ("--json" in options or command == "key") == (command in forms())


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_no_event_and_no_field_is_written_that_is_not_documented(source: Path) -> None:
    own = [forms()[source.stem]] if source.stem in forms() else list(forms().values())
    for name, fields in written(source):
        assert not fields & set(RESERVED)
        described = [form.events[name].keys() for form in own if name in form.events]
        assert described, f"docs/json.md lacks the event {name!r} of {source.name}"
        assert fields <= set().union(*described), f"docs/json.md lacks {fields - set().union(*described)} of {name!r}"


def test_no_event_is_documented_that_no_source_writes() -> None:
    names = {name for source in SOURCES for name, _ in written(source)} | {"client", "session"}
    assert {name for form in forms().values() for name in form.events} <= names


@pytest.fixture
def events(capsys: pytest.CaptureFixture[str]) -> Any:
    """What was written since, each line checked against its form."""

    def read() -> list[str]:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        for line in lines:
            check(line)
        return [line["event"] for line in lines]

    return read


def test_the_commands_about_keys_write_what_is_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.json").write_text('[{"who": "#", "may": ["publish"], "topics": ["home/#"]}]')
    steps = {
        "new plant.key": ["key"],
        "show plant.key": ["epoch", "cipher"],
        "rotate plant.key --leaked --overlap 60": ["epoch", "copy"],
        "authority plant.authority --key plant.key": ["authority"],
        "identity kitchen": ["identity"],
        "admit kitchen.identity --authority plant.authority --publish home/#": ["admitted"],
        "show kitchen.identity": ["identity"],
        "show plant.authority": ["authority"],
        "rules rules.json --authority plant.authority --output plant.rules": ["rules"],
        "explain kitchen publish home/lamp --rules plant.rules": ["decision"],
    }
    for words, expected in steps.items():
        key.main([*words.split(), "--json"])
        assert events() == expected


def test_a_simulation_writes_what_is_documented(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate.main(["--seeds", "1", "--json"]) == 0
    assert {*events()} == {"sum", "ended"}
    failed = RunResult(5, "abc", 1, 2, {}, {"crash": 1}, "two leaders")
    monkeypatch.setitem(simulate.LAYERS, "model", lambda *given, **conditions: failed)
    monkeypatch.setattr(simulate, "shrunk", lambda result, forged: (["freeze"], 7.0))
    assert simulate.main(["--seeds", "1", "--json"]) == 1
    assert events()[:3] == ["failed", "again", "again"]
