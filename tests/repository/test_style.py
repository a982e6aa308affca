"""The rules of the house as a test: sizes, docstrings, and what a layer may import.

Everything is read from the syntax tree, so the rules hold for code that no other test runs. Import rules between
modules that an import linter can express stand in `setup.cfg`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("network", "security", "serialization", "discovery", "transport", "fragmentation", "topics", "model")
PURE_LAYERS = LAYERS[1:]
SHARED_WITH_LAYERS = ("glue.contract", "glue.storage", "glue.errors")
FILE_LINES = 400
FUNCTION_LINES = 50

PACKAGE = [path for package in ("glue", "spark") for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all rules."""
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def sources_of(layers: tuple[str, ...]) -> list[Path]:
    return [path for path in PACKAGE if path.relative_to(ROOT).parts[1] in layers]


def imports(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Each import as (module, name taken from it or None)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its decorators and its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None and len(function.body) > 1 else function.body
    last = body[-1].end_lineno
    assert last is not None
    return last - body[0].lineno + 2


@pytest.mark.parametrize("path", PACKAGE + TESTS, ids=name_of)
def test_every_module_says_what_it_is_for_and_stays_small(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    assert lines <= FILE_LINES, "two ideas in one file: give each its room"
    assert not text or ast.get_docstring(tree_of(path)), "a module opens with what it is for"


@pytest.mark.parametrize("path", PACKAGE, ids=name_of)
def test_every_function_stays_small(path: Path) -> None:
    functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert {f.name: lines_of(f) for f in functions if lines_of(f) > FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", sources_of(LAYERS), ids=name_of)
def test_of_glue_a_layer_imports_only_the_contract_the_storage_and_the_errors(path: Path) -> None:
    own = "glue." + path.relative_to(ROOT / "glue").parts[0]
    allowed = (own, *SHARED_WITH_LAYERS)
    for module, taken in imports(tree_of(path)):
        if module.partition(".")[0] == "glue":
            full = f"{module}.{taken}" if module == "glue" else module
            assert any(f"{full}.".startswith(f"{name}.") for name in allowed), f"{path.name} imports {full}"


@pytest.mark.parametrize("path", sources_of(PURE_LAYERS), ids=name_of)
def test_a_pure_layer_uses_no_randomness_but_what_it_is_given(path: Path) -> None:
    tree = tree_of(path)
    taken = {name for module, name in imports(tree) if module == "random" and name is not None}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
    }
    random_is_a_module = any(module == "random" for module, _ in imports(tree))
    assert taken | (used if random_is_a_module else set()) <= {"Random"}


def test_no_files_import_each_other_in_a_circle() -> None:
    """A file that only type checkers import counts too, since a reader has to open it all the same."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in PACKAGE
    }
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = imports(tree_of(path))
        targets = {full if (full := f"{module}.{taken}") in modules else module for module, taken in found}
        graph[name] = {target for target in targets if target in modules and target != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
