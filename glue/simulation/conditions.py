"""What a link does to the datagrams that cross it, in numbers.

The words and their meaning are those of Linux's netem where it has them, so that a condition tried in the
simulator can be tried on a real network too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from glue.errors import ConfigurationError

FRAME_OVERHEAD = 42
"""Bytes that a datagram takes of a limited rate beside its payload: Ethernet 14, IPv4 20, UDP 8."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """Losses that come in bursts: the Gilbert-Elliott model (Elliott 1963), stepped once a datagram.

    `enter` and `leave` are the probabilities to go from the good state to the bad one and back; `loss` is the
    probability of loss in the bad state. A bad spell lasts 1 / leave datagrams on average, and the link is bad
    for enter / (enter + leave) of them. Raises ConfigurationError for what is not a probability.
    """

    enter: float
    leave: float
    loss: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_probability(field.name, getattr(self, field.name))


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How one direction of a link treats each datagram.

    In the order in which a datagram meets it all:

    - `rate`: bytes per second that the transmitter puts on the wire (None: at once). Each datagram counts
      with `FRAME_OVERHEAD`. It waits for those before it; one that would wait longer than `queue` seconds is
      dropped.
    - `loss`: the probability that it is lost. `burst`: losses in bursts instead, `loss` then being that of
      the good state.
    - `corrupt`: the probability that one of its bits is flipped (and that no checksum noticed).
    - `duplicate`: the probability that it arrives twice; the copy has a jitter of its own.
    - `delay` seconds on the way, plus a uniformly random part of `jitter` seconds: a jitter longer than the
      gap between two datagrams lets the second overtake the first.
    - `reorder`: the probability that it (but not its copy) is held back by another `reorder_delay` seconds, so
      that those sent in the meantime overtake it.

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
        """Whether luck plays no part and nothing queues: every datagram arrives once, after `delay`."""
        chances = self.loss, self.corrupt, self.duplicate, self.jitter, self.reorder
        return self.burst is None and self.rate is None and not any(chances)


def _check_probability(name: str, value: float) -> None:
    _check(0 <= value <= 1, name, value, "a probability from 0 to 1")


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise ConfigurationError(f"{name}={value!r}: expected {wanted}")
