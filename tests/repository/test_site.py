"""Each page of the documentation is in the site, and each public name is in its reference.

`make site` builds the site, and fails at a warning or a dead link.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import glue
import glue.aio

ROOT = Path(__file__).parents[2]
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^\.\. auto\w+:: (?:[\w.]+\.)?(\w+)$", re.MULTILINE)
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_each_page_stands_once_in_a_toctree() -> None:
    docs = ROOT / "docs"
    lines = [line for tree in TOCTREE.findall((docs / "index.md").read_text()) for line in tree.splitlines()]
    listed = [line for line in lines if line and not line.startswith(":")]
    pages = {str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md")} - {"index"}
    beside = {"../ARCHITECTURE", "../CHANGELOG", *(f"../examples/{path.stem}" for path in NOTEBOOKS)}
    assert sorted(listed) == sorted(pages | beside)


def test_each_public_name_is_in_the_reference() -> None:
    named = NAME.findall((ROOT / "docs" / "reference.md").read_text())
    assert sorted(named) == sorted(glue.__all__)


def test_each_name_of_the_asyncio_package_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference-packages.md").read_text()
    (section,) = re.findall(r"currentmodule:: glue\.aio\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert sorted(NAME.findall(section)) == sorted(glue.aio.__all__)


def test_the_changelog_begins_with_the_version() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == glue.__version__


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_code_without_stored_output(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        ast.parse("".join(cell["source"]))
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
