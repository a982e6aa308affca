"""Endpoints that are awake for moments only: what the endpoints of all drivers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glue.contract import Awake, Sleep
from glue.contract.frozen import Frozen
from glue.errors import ConfigurationError

if TYPE_CHECKING:
    from glue.endpoint.core import EndpointCore
    from glue.settings import Settings


class Woke(Frozen):
    """The counts that an endpoint gets when it wakes up; see docs/sleep.md.

    waited: reliable messages that waited at their publishers, and have come now.
    dropped: those that could not wait, because they were too many or expired.
    publishers: how many endpoints had messages waiting, or dropped some.
    silent: names of the peers that did not answer in time, or whose messages have not all come; they come later.
    """

    waited: int
    dropped: int
    publishers: int
    silent: tuple[str, ...]


class SleepMethods:
    """The state of an endpoint that sleeps: `_cycle` counts how often it fell asleep and woke up."""

    settings: Settings
    _core: EndpointCore
    _cycle = 0
    _slept: Woke | None = None  # what it was told last, set once it is awake
    _is_in_sleep = False  # whether a call of `sleep` has not returned

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one call of `sleep` at a time go on. Raises ConfigurationError for a second one."""
        if self._is_in_sleep:
            raise ConfigurationError("sleep() has not returned in another thread or task; one at a time may call it")
        self._is_in_sleep = True
        try:
            yield
        finally:
            self._is_in_sleep = False

    def _rest(self, seconds: float | None) -> float:
        """Return for how long to sleep. Raises ConfigurationError without the setting, or asleep."""
        most = self.settings.sleep
        if most is None:
            raise ConfigurationError("sleep() needs the setting `sleep`, which tells peers for how long to wait")
        if self._cycle % 2:
            raise ConfigurationError("the endpoint is asleep; one thread at a time may call sleep()")
        if seconds is None:
            return most
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= most:
            raise ConfigurationError(f"seconds={seconds!r}: expected 0 to {most}, as the setting `sleep` says")
        return seconds

    def _turn_in(self) -> Sleep:
        """Return the order to fall asleep."""
        self._cycle += 1
        self._slept = None
        return Sleep(self._cycle)

    def _get_up(self) -> Sleep:
        """Return the order to wake up."""
        self._cycle += 1
        return Sleep(self._cycle)

    def _woken(self, event: Awake) -> Woke | None:
        """Note that all that waited has come; return what to tell, None for news of an earlier cycle."""
        if event.cycle != self._cycle:
            return None
        silent = sorted(map(self._core.requests.name_of, event.silent))
        self._slept = Woke(event.waited, event.dropped, event.publishers, tuple(silent))
        return self._slept
