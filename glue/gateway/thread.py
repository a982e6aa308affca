"""Runs a door in an event loop in a thread of its own, for programs and commands that have no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

Opened = TypeVar("Opened")


@contextmanager
def in_thread(open_door: Callable[[], AbstractAsyncContextManager[Opened]]) -> Iterator[Opened]:
    """Enter an asynchronous context in a thread with an event loop; leave it at the end of the block.

    `open_door` is called in that thread. Raises what entering raises.
    """
    opened: Future[Opened] = Future()
    loops: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def work() -> None:
        ends = asyncio.Event()
        loops.set_result((asyncio.get_running_loop(), ends))
        try:
            async with open_door() as door:
                opened.set_result(door)
                await ends.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=lambda: asyncio.run(work()), name="glue door")
    thread.start()
    loop, ends = loops.result()
    try:
        yield opened.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ends.set)
        thread.join()
