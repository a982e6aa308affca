"""Callbacks of news in an event loop: plain functions are called, what coroutine functions return is awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any


class Callbacks:
    """Runs callbacks; `failed` is called with the event where one raises."""

    def __init__(self, failed: Callable[[object], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Future[Any]] = set()  # the loop itself holds none

    def run(self, handler: Callable[[Any], Any], event: Any) -> None:
        """Call a callback with an event; what it returns is awaited in a task, if it can be."""
        try:
            result = handler(event)
        except (Exception, asyncio.CancelledError):  # the callback's own affair
            self._failed(event)
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(self._await(result, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _await(self, result: Awaitable[Any], event: object) -> None:
        me = asyncio.current_task()
        assert me is not None
        try:
            await result
        except (Exception, asyncio.CancelledError):
            if me.cancelling():
                raise
            self._failed(event)
