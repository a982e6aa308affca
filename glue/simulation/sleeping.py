"""Sleep of a simulated endpoint, whose radio is off meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from glue.endpoint.base import LINGER
from glue.endpoint.sleep_methods import SleepMethods, Woke

if TYPE_CHECKING:
    from glue.contract import Awake
    from glue.endpoint.core import EndpointCore


class SimulatedSleeping(SleepMethods):
    """The method `sleep` of a simulated endpoint, and how long its radio was on."""

    radio_time = 0.0
    """Seconds of the latest moment awake: from waking up until the radio went off."""
    _radio_since = 0.0
    _radio_is_off = False
    _falling: Callable[[], None] | None = None  # falls asleep; called as soon as all is acknowledged
    _then: Callable[[Woke], Any] | None = None

    def sleep(self, seconds: float | None = None, then: Callable[[Woke], Any] | None = None) -> None:
        """Sleep as `glue.Endpoint.sleep` does; `then` is called with what that returns. The call returns at once.

        The host's interface is down while the endpoint sleeps.
        """
        endpoint: Any = self
        core, rest = endpoint._running(), endpoint._rest(seconds)
        self._then = then

        def fall_asleep() -> None:
            if endpoint._core is not core or self._falling is not fall_asleep:
                return
            self._falling = None
            core.outbox.order(endpoint._turn_in())
            endpoint._wake()
            endpoint.world.after(rest, lambda: self._turn_on(core))

        self._falling = fall_asleep
        endpoint.world.after(LINGER, fall_asleep)
        endpoint._wake()

    def _look_to_sleep(self, core: EndpointCore) -> None:
        """Fall asleep once all is acknowledged, and turn the radio off once that is announced; after each turn."""
        endpoint: Any = self
        if self._falling is not None and core.is_done:
            self._falling()
        elif self._cycle % 2 and endpoint.host.is_up and not core.outbox.requests:
            endpoint.world.after(0.0, lambda: self._turn_off(core))

    def _turn_off(self, core: EndpointCore) -> None:
        endpoint: Any = self
        if endpoint._core is core and self._cycle % 2 and endpoint.host.is_up:
            endpoint.host.take_down()
            self._radio_is_off = True
            self.radio_time = endpoint.world.time - self._radio_since

    def _turn_on(self, core: EndpointCore) -> None:
        endpoint: Any = self
        if endpoint._core is core and endpoint._is_alive():
            self._switch_on()
            core.outbox.order(endpoint._get_up())
            endpoint._wake()

    def _switch_on(self) -> None:
        """Turn the radio on: at the end of the sleep, and when another life begins meanwhile."""
        endpoint: Any = self
        endpoint.host.bring_up()
        self._radio_is_off = False
        self._radio_since = endpoint.world.time

    def _rise(self, event: Awake) -> Woke | None:
        """Call what `sleep` was given."""
        woke = self._woken(event)
        if woke is not None and self._then is not None:
            self._then(woke)
        return woke
