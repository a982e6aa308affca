"""The round trip as measured, and the timers that follow from it (RFC 9002, section 5; RFC 6298)."""

from __future__ import annotations

INITIAL = 0.02  # seconds; a LAN answers within a millisecond, a busy Wi-Fi within tens
GRANULARITY = 0.001  # what timers can be trusted to (RFC 9002, kGranularity)
ACK_DELAY = 0.002  # how long a receiver may hold an acknowledgement back
LONGEST = 1.0  # a measurement counts as no more: one of the hosts slept, or its clock jumped, and will not each time
MAX_PROBE = 0.25  # a lossy link is probed at least this often, however often probes were lost before
STEADY = 3  # probes of an urgent one after which the timeout doubles


class RoundTrip:
    """Smoothed round trip and its variation, in seconds.

    It is `urgent` if one side sleeps most of the time. Then a probe in vain costs less than a longer moment awake. So
    the timeout has less margin, and the first probes follow each other without doubling it.
    """

    __slots__ = ("_held", "_timeout", "guessed", "is_urgent", "latest", "least", "measured", "smoothed", "variation")

    def __init__(self) -> None:
        self.latest = self.least = self.smoothed = INITIAL
        self.variation = INITIAL / 2
        self.measured = False
        self.guessed = False  # for want of a measurement
        self.is_urgent = False
        self._held = 0.0  # seconds for which the receiver holds answers back: the longest lately
        self._set_timeout()

    def _set_timeout(self) -> None:
        held = self._held if self._held > ACK_DELAY else ACK_DELAY
        margin = 4 * self.variation
        if self.is_urgent and margin > self.smoothed / 4:
            margin = self.smoothed / 4
        self._timeout = self.smoothed + max(margin, GRANULARITY) + held

    def hurry(self) -> None:
        """Be urgent from now on."""
        self.is_urgent = True
        self._set_timeout()

    def doublings(self, backoff: int) -> int:
        """How often the timeout has doubled, after `backoff` waits in vain."""
        return max(0, backoff - STEADY) if self.is_urgent else backoff

    def sample(self, elapsed: float, held: float) -> None:
        """Take a measurement: `elapsed` since the frame left, of which the receiver `held` the answer."""
        if elapsed < 0:
            return
        if elapsed > LONGEST:
            elapsed = LONGEST
        adjusted = elapsed - held if elapsed > held else 0.0
        if adjusted < self.least or not self.measured:
            self.least = adjusted
        self.latest = adjusted
        if not self.measured:
            self.smoothed, self.variation, self.measured = adjusted, adjusted / 2, True
        else:
            self.variation += (abs(self.smoothed - adjusted) - self.variation) / 4
            self.smoothed += (adjusted - self.smoothed) / 8
        self._set_timeout()

    def held_back(self, held: float) -> None:
        """Note for how long (seconds) the receiver held an answer back: long while its thread runs handlers.

        The timeout must include this time. Else the sender probes and resends in vain.
        """
        if held > ACK_DELAY or self._held > ACK_DELAY:
            self._held = held if held > self._held else self._held + (held - self._held) / 8
            self._set_timeout()

    def guess(self, elapsed: float, held: float) -> None:
        """Note an upper bound of the round trip; the least bound serves until a round trip is measured."""
        if not self.measured and not (self.guessed and elapsed - held >= self.latest):
            self.sample(elapsed, held)
            self.measured, self.guessed = False, True

    def probe_timeout(self, backoff: int) -> float:
        """How long to wait for any answer, after `backoff` waits in vain (RFC 9002, section 6.2)."""
        backoff = self.doublings(backoff)
        if not backoff:
            return self._timeout
        return min(self._timeout * (1 << min(backoff, 10)), max(MAX_PROBE, self._timeout))

    def loss_delay(self) -> float:
        """A frame is lost if one sent later was acknowledged and it was sent longer ago than this."""
        return max(1.125 * max(self.smoothed, self.latest), GRANULARITY)
