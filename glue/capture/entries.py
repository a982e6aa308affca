"""Header entries of all layers in one list, and tables of them for readers in other languages.

    python -m glue.capture.entries [FOLDER]

This command writes the tables into a clone of the repository: `docs/entries.json`, the block between the markers in
`extras/glue.lua`, and `spark/read/entries.py`. Run it after a layer has changed its declaration. A test fails until the
tables are current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from glue.contract.header import INTEGER_LIMIT, MAX_HEADER, Field, HeaderEntry, largest_header
from glue.discovery import wire as discovery
from glue.fragmentation.wire import FRAGMENT
from glue.serialization.wire import GLUE, VERSION
from glue.transport import wire as transport

FLOORS: tuple[tuple[HeaderEntry, ...], ...] = (
    (GLUE,),
    (*discovery.ENTRIES.values(), *transport.ENTRIES.values()),
    (FRAGMENT,),
)
"""Entries of the layers, bottom up. A header has at most one entry of each group."""
ENTRIES = [entry for floor in FLOORS for entry in floor]
LARGEST = largest_header(*FLOORS)
"""Bytes of the largest header that the layers write, at most MAX_HEADER."""

BEGIN, END = "-- begin of entries, written by python -m glue.capture.entries\n", "-- end of entries\n"
_BY_KEY = {(entry.layer, entry.kind): entry for entry in ENTRIES}


def entry_of(layer: str, values: list[Any]) -> HeaderEntry | None:
    """Return the declaration of a layer's list in a header, or None for an unknown layer or kind."""
    for kind in (None, *values[:1], *values[-1:]):
        if kind is None or isinstance(kind, str):
            found = _BY_KEY.get((layer, kind))
            if found is not None:
                return found
    return None


def named(header: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of a header by layer and name. Entries without a declaration are left out."""
    found = {}
    for layer, values in header.items():
        entry = entry_of(layer, values) if isinstance(values, list) else None
        if entry is not None:
            found[layer] = entry.named(values)
    return found


# ---------------------------------------------------------------------------------------------- tables


def as_json() -> bytes:
    """Return all entries as one JSON document."""
    entries = [
        {
            "layer": entry.layer,
            "kind": entry.kind,
            "longest": entry.longest,
            "fields": [_told(field) for field in entry.fields],
        }
        for entry in ENTRIES
    ]
    told = {
        "version": VERSION,
        "largest_header": MAX_HEADER,
        "integers_below": INTEGER_LIMIT,
        "entries": entries,
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _told(field: Field) -> dict[str, Any]:
    told: dict[str, Any] = {"name": field.name, "type": field.type, "most": field.most}
    if field.default is None:
        told["null"] = True
    if field.is_optional:
        told["optional"] = True
    return told


def _by_layer() -> dict[str, list[HeaderEntry]]:
    layers: dict[str, list[HeaderEntry]] = {}
    for entry in ENTRIES:
        layers.setdefault(entry.layer, []).append(entry)
    return layers


def as_lua() -> str:
    """Return the names of all fields as a table in Lua, by layer and kind. An entry without a kind has the kind ""."""
    lines = ["local ENTRIES = {"]
    for layer, entries in _by_layer().items():
        lines.append(f"    {layer} = {{")
        for entry in entries:
            names = ", ".join(f'"{name}"' for name in entry.names)
            lines.append(f'        ["{entry.kind or ""}"] = {{ {names} }},')
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"


def as_python() -> str:
    """Return a Python module with the names of all fields, for readers that do not import glue."""
    lines = [
        '"""The names of all fields of header entries: by layer, and by kind, which is "" where there is none.',
        "",
        "Written by `python -m glue.capture.entries`.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        f"VERSION = {VERSION}",
        f"LARGEST_HEADER = {MAX_HEADER}",
        "LIMIT = 1 << 53",
        '"""Integers on the wire are below this."""',
        "",
        "ENTRIES: dict[str, dict[str, tuple[str, ...]]] = {",
    ]
    for layer, entries in _by_layer().items():
        lines.append(f'    "{layer}": {{')
        for entry in entries:
            names = "".join(f'            "{name}",\n' for name in entry.names)
            lines.append(f'        "{entry.kind or ""}": (\n{names}        ),')
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"


def tables(folder: Path) -> dict[Path, str]:
    """Return the current text of each file that holds a table."""
    lua = folder / "extras" / "glue.lua"
    text = lua.read_text()
    before, behind = text.partition(BEGIN)[0], text.partition(END)[2]
    return {
        folder / "docs" / "entries.json": as_json().decode(),
        folder / "spark" / "read" / "entries.py": as_python(),
        lua: before + BEGIN + as_lua() + END + behind,
    }


def main() -> None:
    """Write all tables below the folder given as the argument, or below this clone."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    for path, text in tables(folder).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
