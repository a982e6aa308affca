"""Every entry of every layer with one more field: run in a process of its own, as declarations are read at import.

    python -m tests.capture.one_more_field FOLDER

The golden scenario runs, and its datagrams are written to the folder with what they mean to glue's layers, to scapy and
to the reader of the analysis. The tables for other readers are written into the clone in that folder. At the end the
tests of the fast path run, too: its patterns and templates are derived from the same declarations.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

ROOT = Path(__file__).parents[2]
NAME, VALUE = "extra", 7
FAST_PATH = (
    "tests/fastpath/test_sessions.py",
    "tests/fastpath/test_receiving_one.py",
    "-k",
    "not whatever_passes and not on_another_channel",
)


def loaded(name: str, path: Path) -> ModuleType:
    """The module of this file, under this name for all that import it later."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add_one_more_field() -> None:
    """Let all entries be declared with one more field: the last one may have to count, so it stands before that."""
    header = loaded("glue.contract.header", ROOT / "glue" / "contract" / "header.py")
    declare = header.HeaderEntry.__init__

    def declare_more(entry: Any, layer: str, kind: str | None, *fields: Any, **options: Any) -> None:
        more = header.Field(NAME, most=9, default=VALUE)
        fields = (*fields, more) if options.get("kind_last") else (*fields[:-1], more, fields[-1])
        if options.get("longest"):
            options["longest"] += len(f",{VALUE}")
        declare(entry, layer, kind, *fields, **options)

    header.HeaderEntry.__init__ = declare_more


def interpreted(folder: Path, datagrams: dict[str, bytes]) -> dict[str, Any]:
    """What the headers mean to the reader of the analysis, with the table that was just written."""
    loaded("spark.read.entries", folder / "spark" / "read" / "entries.py")
    from spark.read.header import interpret

    return {name: interpret(orjson.loads(data[: data.index(b"\n")])) for name, data in datagrams.items()}


def dissected(datagrams: dict[str, bytes]) -> dict[str, Any]:
    """The entries of the headers by name, as scapy tells them."""
    from glue.capture.scapy_layer import GluePacket

    return {name: GluePacket(data).entries for name, data in datagrams.items()}


def main(folder: Path) -> int:
    """Write all of that to the folder."""
    add_one_more_field()
    from glue.capture.entries import tables
    from tests.golden.make import current
    from tests.golden.meaning import meaning

    for path, text in tables(folder).items():
        path.write_text(text)
    datagrams = current()
    for name, data in datagrams.items():
        (folder / f"{name}.datagram").write_bytes(data)
    told = {
        "glue": meaning(datagrams),
        "scapy": dissected(datagrams),
        "analysis": interpreted(folder, datagrams),
    }
    (folder / "told.json").write_bytes(orjson.dumps(told))
    return pytest.main(["-q", "-p", "no:cacheprovider", *FAST_PATH])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
