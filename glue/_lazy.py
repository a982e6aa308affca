"""Names of a package that are loaded when they are first used (PEP 562): few programs need all of glue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_imports(
    package: str, origins: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; `origins` gives the names to import lazily from each module."""
    module_of = {name: module for module, names in origins.items() for name in names}
    contents = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = contents[name] = getattr(import_module(module_of[name]), name)
        return value

    return load, lambda: sorted({*contents, *module_of})
