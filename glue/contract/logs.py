"""Loggers that import `logging` with their first line: it takes 2 ms, and most programs of glue log nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from logging import Logger


def lazy_logger(name: str) -> Logger:
    """Return a logger of this name that imports `logging` when something is to be logged."""
    return cast("Logger", _LazyLogger(name))


class _LazyLogger:
    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, *line: Any) -> None:
        """Log a line for which no level was set if nobody has imported `logging` yet."""
        if "logging" in sys.modules:
            self.__getattr__("info")(*line, stacklevel=2)

    def __getattr__(self, method: str) -> Any:
        from logging import getLogger

        return getattr(getLogger(self._name), method)
