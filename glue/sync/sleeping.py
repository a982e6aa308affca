"""Sleep of a blocking endpoint; see docs/sleep.md."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glue.endpoint.base import LINGER
from glue.endpoint.sleep_methods import SleepMethods, Woke
from glue.errors import ClosedError, ConfigurationError

if TYPE_CHECKING:
    from glue.contract import Awake

LOOK = 0.5  # seconds between looks whether the endpoint was closed meanwhile


class SyncSleeping(SleepMethods):
    """The method `sleep` of `glue.Endpoint`."""

    _awake: threading.Event | None = None

    def sleep(self, seconds: float | None = None, pause: Callable[[float], Any] = time.sleep) -> Woke:
        """Sleep, wake up, and return once the messages that waited have come.

        seconds: how long to sleep; None: as long as the setting `sleep` says, which is also the most.
        pause: called with the seconds once peers know that this endpoint sleeps, in place of `time.sleep`. It may turn
        the radio off or suspend the machine.

        First waits, a second at most, until what was published is acknowledged. Peers keep reliable messages until this
        endpoint is awake again. Nothing is received meanwhile; what is published waits. `on_wake` is called with the
        same `Woke` that the call returns. docs/sleep.md describes it.

        Raises ConfigurationError without the setting `sleep`, for a longer time, and in a handler; ClosedError.
        """
        endpoint: Any = self
        driver = endpoint._running()
        rest = self._rest(seconds)
        if driver.is_handler():
            raise ConfigurationError("sleep() was called in a handler, which would wait for itself")
        with self._alone():
            endpoint.flush(LINGER)
            awake = self._awake = threading.Event()
            driver.order(endpoint._turn_in())
            try:
                pause(rest)
            finally:
                driver.order(endpoint._get_up())
            while not awake.wait(LOOK):
                if driver.closed:
                    raise ClosedError("the endpoint was closed while it woke up")
            assert self._slept is not None
            return self._slept

    def _rise(self, event: Awake) -> Woke | None:
        """Let `sleep` return."""
        woke = self._woken(event)
        if woke is not None and self._awake is not None:
            self._awake.set()
        return woke
