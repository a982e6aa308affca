"""Calls that tests make of blocking endpoints and of asyncio alike."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


def do(call: Callable[[], Any]) -> Any:
    """Call within an event loop, and return the result, which is awaited if it is awaitable."""

    async def main() -> Any:
        found = call()
        return await found if inspect.isawaitable(found) else found

    return asyncio.run(main())
