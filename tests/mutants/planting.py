"""Plants a bug in a process that has imported the source already: the code of functions is replaced.

Every function made of the source is found, wherever it is bound, so a copied name or a decorator makes no difference.
Code outside of functions cannot be planted like this, as it ran before.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType


class NotPlantedError(Exception):
    """The bug is not within functions that could be replaced."""


def functions() -> list[FunctionType]:
    """Return all functions that there are; not after `gc.freeze`."""
    return [one for one in gc.get_objects() if type(one) is FunctionType]  # `isinstance` would ask proxies, too


def plant(path: str, before: str, after: str, line: int, known: list[FunctionType]) -> None:
    """Replace the code of the functions around this line, among the known ones. Raises NotPlantedError."""
    old, new = compile(before, path, "exec"), compile(after, path, "exec")
    replaced: dict[tuple[str, int], CodeType] = {}
    for was, is_now in _pairs(old, new):
        first, last = _span(was)
        is_function = bool(was.co_flags & 2)  # CO_NEWLOCALS: neither a module nor the body of a class
        if is_function and first <= line <= last and _do(was) != _do(is_now):
            replaced[was.co_qualname, was.co_firstlineno] = is_now
    if not replaced:
        raise NotPlantedError(f"{path}:{line} is not within a function")
    found = 0
    for function in known:
        code = function.__code__
        other = replaced.get((code.co_qualname, code.co_firstlineno))
        if other is None or not code.co_filename.endswith(f"/{path}"):
            continue
        if code.co_freevars != other.co_freevars:
            raise NotPlantedError(f"{path}:{line} changes what a function takes from around it")
        function.__code__ = other
        found += 1
    outermost = min(replaced, key=lambda one: one[1])
    if not found and any(_is_imported(path)):
        raise NotPlantedError(f"{path}: no function {outermost[0]}")


def _is_imported(path: str) -> Iterator[bool]:
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").endswith(f"/{path}"):
            yield True


def _span(code: CodeType) -> tuple[int, int]:
    lines = [line for *_, line in code.co_lines() if line is not None]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines += _span(constant)
    return min(lines, default=0), max(lines, default=0)


def _do(code: CodeType) -> tuple[object, ...]:
    """What a code does, without its lines: a changed default is not part of it."""
    constants = tuple(_do(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield each code of a source with the same one of another version; a bug adds none and may remove some."""
    yield old, new
    left = [constant for constant in new.co_consts if isinstance(constant, CodeType)]
    for inner in old.co_consts:
        if not isinstance(inner, CodeType):
            continue
        while left:
            other = left.pop(0)
            if other.co_qualname == inner.co_qualname:
                yield from _pairs(inner, other)
                break
