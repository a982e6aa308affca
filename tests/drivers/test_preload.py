"""Modules that turns need late are loaded before: without a free file descriptor, an import fails."""

from __future__ import annotations

import ast
import errno
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import glue
from glue import _lazy as preload

TURNS = ("contract", "discovery", "fastpath", "fragmentation", "network", "serialization", "topics", "transport")
"""Packages whose code runs within turns."""

BEFORE = {
    "glue.security.fastpath": "with a key: imported when the endpoint is made",
    "netifaces": "at the start, when the interface is chosen",
    "zeroconf.asyncio": "at the start, with discovery by DNS-SD",
    "difflib": "after a mistake of the program",
}
"""Modules that are loaded within functions of these packages, and why no turn needs them for the first time."""


def test_each_module_is_there_after_as_many_calls() -> None:
    loading = preload.Preload(until=3)
    calls = 1
    while loading.load_next():
        calls += 1
    assert calls == 3 + len(preload.MODULES)


def test_a_module_that_cannot_be_loaded_now_is_loaded_later(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        if len(loaded) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return import_module(name)

    monkeypatch.setattr(preload, "import_module", load)
    loading = preload.Preload(("logging",), until=0)
    assert [loading.load_next() for _ in range(4)] == [True, True, False, False]
    assert loaded == ["logging"] * 3


def test_threads_that_load_at_once_leave_no_module_out(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(name: str) -> None:
        if len(loaded) < 5:
            loaded.append(name)
            loading.load_next()  # as another thread does, while this one waits for the file

    monkeypatch.setattr(preload, "import_module", load)
    loading = preload.Preload(("a", "b", "c"), until=0)
    assert loading.load_next() is False
    assert sorted(loaded) == ["a", "b", "c"]


def test_a_module_that_never_loads_keeps_no_other_one_back(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(name: str) -> None:
        if name == "bad":
            raise ImportError(name)
        loaded.append(name)

    monkeypatch.setattr(preload, "import_module", load)
    loading = preload.Preload(("a", "bad"), until=0)
    assert loading.load_next()
    assert loading.load_next()
    assert loaded == ["a"]


def test_code_of_turns_imports_nothing_late_that_is_not_loaded_before() -> None:
    root = Path(glue.__file__).parent
    files = [file for package in TURNS for file in (root / package).rglob("*.py")]
    late = {name: file for file in files for name in imported_late(ast.parse(file.read_text()))}
    assert {name: file for name, file in late.items() if name not in {*preload.MODULES, *BEFORE}} == {}


def imported_late(tree: ast.Module) -> set[str]:
    """The modules that functions import."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found: set[str] = set()
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found
