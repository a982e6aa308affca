"""Names of a package that are loaded when they are first used (PEP 562): few programs need all of glue.

`Preload` loads the modules that a turn may need for the first time long after the start, because of what a peer does.
An endpoint that lives for long loads one of them each time it looks after its network. Otherwise such an import would
fail in the middle of a turn once the process has no free file descriptor. A program asks for all other modules by a
call of its own, which then fails with the reason.
"""

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


MODULES = (
    "logging",
    "platform",
    "ipaddress",
    "urllib.parse",
    "glue.codecs",
    "glue.contract.matching",
    "glue.discovery.exam",
    "glue.discovery.paths",
    "glue.endpoint.activity",
    "glue.endpoint.healed",
    "glue.endpoint.notices",
    "glue.endpoint.paths",
    "glue.endpoint.sections",
    "glue.endpoint.wills",
    "glue.history.placement",
    "glue.topics.samples",
    "glue.topics.shared.dispatcher",
    "glue.transport.fec.code",
    "glue.transport.fec.encoder",
)
"""Standard library and glue: each takes 0.3 to 5 ms."""

UNTIL = 60
"""Looks after the network before the first one is loaded, a minute of one endpoint: what ends sooner needs none."""


class Preload:
    """The modules that are not loaded yet."""

    def __init__(self, modules: Sequence[str] = MODULES, until: int = UNTIL) -> None:
        self._left = list(modules)
        self._waits = until

    def load_next(self) -> bool:
        """Load one module; returns whether more are left. If that fails, it is tried again after the others.

        Threads of several endpoints may call this at once.
        """
        if self._waits > 0:
            self._waits -= 1
            return bool(self._left)
        try:
            name = self._left.pop()
        except IndexError:
            return False
        try:
            import_module(name)
        except (ImportError, OSError):
            self._left.insert(0, name)
        return bool(self._left)


preload = Preload()
"""For all endpoints of the process."""
