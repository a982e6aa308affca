"""Conditions of a link: loss, delay, rate and other effects on datagrams, in numbers.

Names and meanings follow Linux's netem where netem has the same effect. Therefore conditions from the simulator can be
tried on a real network.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from glue.errors import ConfigurationError

FRAME_OVERHEAD = 42
"""Bytes that each datagram adds to its payload on a limited rate: Ethernet 14, IPv4 20, UDP 8."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """Losses in bursts, by the Gilbert-Elliott model (Elliott 1963).

    - `enter`: probability to go from the good state to the bad one, for each datagram.
    - `leave`: probability to return to the good state, for each datagram.
    - `loss`: probability of loss in the bad state.

    A bad period lasts 1 / leave datagrams on average, and enter / (enter + leave) of all datagrams fall into bad
    periods. Raises ConfigurationError for values that are not probabilities.
    """

    enter: float
    leave: float
    loss: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_probability(field.name, getattr(self, field.name))


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions for one direction of a link, applied to each datagram in this order.

    - `rate`: bytes per second that the transmitter sends; None sends at once. A datagram counts with `FRAME_OVERHEAD`
      and waits for earlier datagrams. A datagram that would wait longer than `queue` seconds is dropped.
    - `loss`: the probability of loss. With `burst`, `loss` applies in the good state only.
    - `corrupt`: the probability of a flipped bit that no checksum notices.
    - `duplicate`: the probability of a second copy. The copy has its own jitter.
    - `delay`: seconds on the way. A random part of `jitter` seconds is added, uniformly distributed. A jitter longer
      than the gap between two datagrams lets the second datagram overtake the first.
    - `reorder`: the probability of `reorder_delay` seconds of additional delay, so that later datagrams overtake. The
      copy of a duplicate has no such delay.

    Raises ConfigurationError for a value out of range.
    """

    loss: float = 0.0
    burst: Burst | None = None
    corrupt: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0005
    jitter: float = 0.0
    reorder: float = 0.0
    reorder_delay: float = 0.005
    rate: float | None = None
    queue: float = 0.1

    def __post_init__(self) -> None:
        for name in ("loss", "corrupt", "duplicate", "reorder"):
            _check_probability(name, getattr(self, name))
        for name in ("delay", "jitter", "reorder_delay", "queue"):
            value = getattr(self, name)
            _check(0 <= value < float("inf"), name, value, "seconds, 0 or more")
        _check(self.rate is None or 0 < self.rate < float("inf"), "rate", self.rate, "bytes per second, or None")

    @property
    def is_plain(self) -> bool:
        """Whether every datagram arrives once, after exactly `delay`: nothing is random and nothing queues."""
        chances = self.loss, self.corrupt, self.duplicate, self.jitter, self.reorder
        return self.burst is None and self.rate is None and not any(chances)


def _check_probability(name: str, value: float) -> None:
    _check(0 <= value <= 1, name, value, "a probability from 0 to 1")


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise ConfigurationError(f"{name}={value!r}: expected {wanted}")
