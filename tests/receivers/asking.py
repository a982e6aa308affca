"""An endpoint without a network, for tests of what runs receivers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import glue


class Endpoint:
    """An endpoint whose driver notes what is asked of a model."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.is_closed = False
        self._core = SimpleNamespace(outbox=SimpleNamespace(order=self.asked.append))

    def order(self, request: Any, wait: bool = True) -> None:
        self.asked.append(request)

    def _running(self) -> Any:
        if self.is_closed:
            raise glue.ClosedError("closed")
        return self
