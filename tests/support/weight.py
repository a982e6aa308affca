"""How much an object keeps alive: to see whether what comes and goes leaves anything behind."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

SHARED = type, ModuleType, FunctionType, BuiltinFunctionType, CodeType


def weight(*roots: Any) -> int:
    """How many entries the containers hold that are reached from these objects, classes and modules aside."""
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
