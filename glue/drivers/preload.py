"""Loads the modules that a turn may need for the first time long after the start, because of what a peer does.

`import glue` leaves them out, as most programs need none of them. An endpoint that lives for long loads one of them
each time it looks after its network. Otherwise such an import would fail in the middle of a turn once the process has
no free file descriptor. A program asks for all other modules by a call of its own, which then fails with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

MODULES = (
    "logging",
    "platform",
    "ipaddress",
    "urllib.parse",
    "glue.codecs",
    "glue.discovery.exam",
    "glue.discovery.paths",
    "glue.endpoint.activity",
    "glue.endpoint.healed",
    "glue.endpoint.notices",
    "glue.endpoint.paths",
    "glue.endpoint.sections",
    "glue.endpoint.wills",
    "glue.history.overlap",
    "glue.history.placement",
    "glue.topics.samples",
    "glue.topics.shared.dispatcher",
    "glue.transport.fec.code",
    "glue.transport.fec.encoder",
)
"""Standard library and glue: each takes 0.3 to 5 ms."""


class Preload:
    """The modules that are not loaded yet."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._left = list(modules)

    def load_next(self) -> bool:
        """Load one module; returns whether more are left. If that fails, the next call tries again."""
        if self._left:
            try:
                import_module(self._left[-1])
            except (ImportError, OSError):
                return True
            self._left.pop()
        return bool(self._left)


preload = Preload()
"""For all endpoints of the process."""
