"""Writes the golden vectors, and the examples of `docs/wire-format.md`, from what the layers send today.

Run by hand, when the format changes on purpose: `python -m tests.golden.make`. Then read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from tests.golden.exam import exam_datagrams
from tests.golden.keepers import what_keepers_are_told
from tests.golden.meaning import meaning
from tests.golden.paths import path_datagrams
from tests.golden.scenario import golden_datagrams
from tests.golden.sleeping import a_node_that_sleeps

FOLDER = Path(__file__).parent
VECTORS = FOLDER / "vectors.json"
DOCUMENT = FOLDER.parents[1] / "docs" / "wire-format.md"
EXAMPLE = re.compile(r"^```datagram (?P<name>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.datagram"


def stored() -> dict[str, bytes]:
    """The datagrams in the files, by name."""
    return {path.stem: path.read_bytes() for path in FOLDER.glob("*.datagram")}


def vectors(datagrams: dict[str, bytes]) -> bytes:
    """The text of `vectors.json`."""
    return orjson.dumps(meaning(datagrams), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def example(datagram: bytes) -> str:
    """A datagram as the documentation shows it: what is not printable ASCII or a newline as \\xNN."""
    shown = "".join(
        chr(byte) if byte == 10 or (32 <= byte < 127 and byte != 92) else f"\\x{byte:02x}" for byte in datagram
    )
    return shown.rstrip("\n") + "\n"


def with_examples(text: str, datagrams: dict[str, bytes]) -> str:
    """The documentation with each example put anew."""
    return EXAMPLE.sub(lambda found: f"```datagram {found['name']}\n{example(datagrams[found['name']])}```", text)


def current() -> dict[str, bytes]:
    """All datagrams as the layers send them now, by name."""
    return golden_datagrams() | exam_datagrams() | a_node_that_sleeps() | path_datagrams() | what_keepers_are_told()


def main() -> None:
    datagrams = current()
    for path in FOLDER.glob("*.datagram"):
        path.unlink()
    for name, data in datagrams.items():
        file_of(name).write_bytes(data)
    VECTORS.write_bytes(vectors(datagrams))
    DOCUMENT.write_text(with_examples(DOCUMENT.read_text(), datagrams))


if __name__ == "__main__":
    main()
