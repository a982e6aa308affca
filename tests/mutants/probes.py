"""Which code ran: a copy of the sources in which each stretch of code notes that it was reached.

A *stretch* is a row of statements of which all run if the first does, as long as nothing returns or raises. A probe at
its beginning sets one byte of a file that is mapped into memory, so what children and killed processes reached counts
too, and a probe costs some 50 ns, which tests with real sockets stand.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

VARIABLE = "MUTANTS_HITS"
MODULE = "mutants_probe"
NAME = "__mutants_hits__"
CAPACITY = 1 << 16  # stretches: glue and spark have some 13,000
SOURCE = f'''"""The bytes that probes set, shared by all processes of a run."""
import mmap, os
path = os.environ.get("{VARIABLE}")
if path:
    with open(path, "r+b") as file:
        HITS = mmap.mmap(file.fileno(), {CAPACITY})
else:
    HITS = bytearray({CAPACITY})
'''
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


@dataclass
class Stretches:
    """The stretches of one file: of each line, the number of the one it belongs to; -1 outside of functions."""

    of_line: dict[int, int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # the function of each, and which of its stretches it is


class Prober:
    """Numbers the stretches of file after file, from 0."""

    def __init__(self) -> None:
        self.count = 0
        self._around: list[str] = []
        self._ordinals: Counter[str] = Counter()

    def instrument(self, source: str) -> tuple[str, Stretches]:
        """Return the source with its probes, and where its stretches are."""
        tree = ast.parse(source)
        stretches = Stretches()
        self._ordinals.clear()
        self._functions_of(tree, stretches)
        begin = next((i for i, n in enumerate(tree.body) if not _is_docstring(n) and not _is_future(n)), len(tree.body))
        tree.body.insert(begin, ast.parse(f"from {MODULE} import HITS as {NAME}").body[0])
        return ast.unparse(ast.fix_missing_locations(tree)), stretches

    def _functions_of(self, node: ast.AST, stretches: Stretches) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self._function(child, stretches)
                continue
            if isinstance(child, ast.ClassDef):
                self._around.append(child.name)
            self._functions_of(child, stretches)
            if isinstance(child, ast.ClassDef):
                self._around.pop()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, stretches: Stretches) -> None:
        begin = 1 if _is_docstring(node.body[0]) else 0
        number = self.count  # what the signature holds belongs to the first stretch of the body
        self._around.append(node.name)
        for line in range(node.lineno, node.body[0].lineno):
            stretches.of_line[line] = number
        node.body = node.body[:begin] + (self._block(node.body[begin:], stretches) or [self._probe(stretches)])
        self._around.pop()

    def _block(self, body: list[ast.stmt], stretches: Stretches) -> list[ast.stmt]:
        probed: list[ast.stmt] = []
        starts = True
        for statement in body:
            if starts:
                probed.append(self._probe(stretches))
            number = self.count - 1
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                stretches.of_line[line] = number
            self._inside(statement, stretches)
            probed.append(statement)
            starts = isinstance(statement, COMPOUND)
            if not starts and self.count - 1 != number:  # a function was defined, with stretches of its own
                starts = True
        return probed

    def _inside(self, statement: ast.stmt, stretches: Stretches) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(statement, stretches)
        elif isinstance(statement, ast.ClassDef):
            self._around.append(statement.name)
            self._functions_of(statement, stretches)
            self._around.pop()
        elif isinstance(statement, COMPOUND):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(statement, name, None)
                if inner:
                    setattr(statement, name, self._block(inner, stretches))
            for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
                part.body = self._block(part.body, stretches)

    def _probe(self, stretches: Stretches) -> ast.stmt:
        function = ".".join(self._around)
        stretches.numbers.append(self.count)
        stretches.names.append(f"{function}#{self._ordinals[function]}")
        self._ordinals[function] += 1
        probe = ast.parse(f"{NAME}[{self.count}] = 1").body[0]
        self.count += 1
        assert self.count < CAPACITY, "more stretches than bytes: raise CAPACITY"
        return probe


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
