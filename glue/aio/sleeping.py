"""Sleep of an endpoint for asyncio; see docs/sleep.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from glue.endpoint.base import LINGER
from glue.endpoint.sleep_methods import SleepMethods, Woke
from glue.errors import ClosedError

if TYPE_CHECKING:
    from glue.contract import Awake


class AioSleeping(SleepMethods):
    """The method `sleep` of `glue.aio.Endpoint`."""

    async def sleep(
        self, seconds: float | None = None, pause: Callable[[float], Awaitable[Any]] = asyncio.sleep
    ) -> Woke:
        """As `glue.Endpoint.sleep`; `pause` is awaited."""
        endpoint: Any = self
        driver = endpoint._running()
        rest = endpoint._rest(seconds)
        with self._alone():
            await endpoint.flush(LINGER)
            driver.order(endpoint._turn_in(), wait=True)
            try:
                await pause(rest)
            finally:
                driver.order(endpoint._get_up(), wait=True)
            await driver.wait_until(lambda: self._slept is not None, None)
            if self._slept is None:
                raise ClosedError("the endpoint was closed while it woke up")
            return self._slept

    def _rise(self, event: Awake) -> Woke | None:
        """Note that all that waited has come; `sleep` looks at the end of the turn."""
        return self._woken(event)
