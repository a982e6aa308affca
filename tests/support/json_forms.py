"""The forms of `--json` output, as `docs/json.md` has them: which events a command writes, and with which fields."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from glue.cmd.output import RESERVED

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
SHARED = "Events of several commands"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OPENING = re.compile(r"^Format (\d+)\.(?: Also ((?:`\w+`(?:, )?)+)\.)?$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| (.*?) ?\| ", re.MULTILINE)
FIELD = re.compile(r"`(\w+)(\?)?` (any|string|integer|number|boolean|array|object)( or null)?")
TYPES: dict[str, type | tuple[type, ...]] = {
    "any": object, "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict,
}  # fmt: skip


class Field(NamedTuple):
    """What one field of an event may be."""

    type: str
    may_be_missing: bool
    may_be_null: bool

    def takes(self, value: Any) -> bool:
        if value is None:
            return self.may_be_null or self.type == "any"
        if isinstance(value, bool):
            return self.type in ("boolean", "any")
        return isinstance(value, TYPES[self.type])


class Form(NamedTuple):
    """The version of a command's form, and its events."""

    version: int
    events: dict[str, dict[str, Field]]


def events_of(section: str) -> dict[str, dict[str, Field]]:
    found = {}
    for name, cell in ROW.findall(section):
        fields = FIELD.findall(cell)
        assert ", ".join(f"`{n}{may}` {kind}{null}" for n, may, kind, null in fields) == cell, f"unreadable: {cell}"
        found[name] = {n: Field(kind, may == "?", bool(null)) for n, may, kind, null in fields}
    return found


@cache
def forms() -> dict[str, Form]:
    """The documented form of each command."""
    sections = dict(SECTION.findall(PAGE.read_text()))
    shared = events_of(sections.pop(SHARED))
    found = {}
    for command, section in sections.items():
        opening = OPENING.search(section)
        assert opening, f"docs/json.md: {command} has no line such as 'Format 1. Also `started`.'"
        also = re.findall(r"`(\w+)`", opening[2] or "")
        found[command] = Form(int(opening[1]), {name: shared[name] for name in also} | events_of(section))
    return found


def check(line: dict[str, Any]) -> None:
    """Raise AssertionError unless `docs/json.md` has this line of output."""
    form = forms()[line["glue"]]
    assert list(line)[:3] == list(RESERVED[:3])
    assert line["format"] == form.version
    fields = form.events[line["event"]]
    own = {name: value for name, value in line.items() if name not in RESERVED}
    assert own.keys() <= fields.keys(), f"docs/json.md lacks {own.keys() - fields.keys()} of {line}"
    for name, field in fields.items():
        assert name in own or field.may_be_missing, f"{name} is missing: {line}"
        assert name not in own or field.takes(own[name]), f"{name} is no {field}: {line}"
