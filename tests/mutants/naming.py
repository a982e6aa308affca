"""Which tests name what stands outside of functions: they may compare a constant without any code that uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

MOST = 50
"""A name that more tests have is a common word."""


class Naming:
    """The words of the tests below `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._words = cache(self._words_of)

    def tests(self, known: Iterable[str], names: set[str]) -> list[str]:
        """Return those of these tests that have one of the names in their text, none if they are too many."""
        found = [test for test in known if names & self._words_of_test(test)]
        return found if len(found) <= MOST else []

    def _words_of_test(self, test: str) -> set[str]:
        path, _, function = test.partition("::")
        return self._words(path).get(function.split("::")[-1].partition("[")[0], set())

    def _words_of(self, path: str) -> dict[str, set[str]]:
        """Return the words of each test of a file, also of the tables that it names."""
        file = self._home / path
        if not file.exists():
            return {}
        text = file.read_text()
        lines = text.splitlines()
        tables: dict[str, set[str]] = {}
        found: dict[str, set[str]] = {}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                found[node.name] = _words(lines[first - 1 : node.end_lineno])
            elif isinstance(node, ast.Assign | ast.AnnAssign) and not node.col_offset:
                table = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(table, ast.Name):
                    tables[table.id] = _words(lines[node.lineno - 1 : node.end_lineno])
        return {test: words.union(*(tables[name] for name in words & tables.keys())) for test, words in found.items()}


def _words(lines: list[str]) -> set[str]:
    return set(re.findall(r"\w+", "\n".join(lines)))
