"""The size of what an object keeps alive, which shows whether something is left behind."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

SHARED = type, ModuleType, FunctionType, BuiltinFunctionType, CodeType


def weight(*roots: Any) -> int:
    """Count the entries of all containers that are reached from these objects, without classes and modules."""
    seen: dict[int, Any] = {}
    pending = list(roots)
    entries = 0
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, SHARED):
            continue
        seen[id(value)] = value
        referents = gc.get_referents(value)
        entries += len(referents)
        pending += referents
    return entries
