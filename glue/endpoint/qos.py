"""Quality of service of a topic as one value: what a publisher offers, and what a subscriber requests.

The words are those of DDS and ROS 2. Each policy stands for options that `publish`, `subscribe`, `remember` and
`announce` have themselves; `glue/endpoint/quality.py` puts them together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, Literal

from glue.endpoint.history_options import bytes_of, seconds_of
from glue.endpoint.options import PRIORITIES, Policy, Priority, Reliability
from glue.endpoint.queues import BLOCK, CAUSES
from glue.errors import ConfigurationError

Durability = Literal["volatile", "transient_local", "transient", "persistent"]
"""Where messages are for late subscribers: nowhere, with the publisher, with keepers, on the disks of keepers."""

Ownership = Literal["shared", "exclusive"]
"""Whether all publishers of a topic are received, or the strongest one alone."""

DURABILITIES: Final[tuple[Durability, ...]] = ("volatile", "transient_local", "transient", "persistent")
"""From the weakest to the strongest."""

NUMBER: Final = 10**9
"""The largest depth, the largest strength, and the largest number of milliseconds."""


@dataclass(frozen=True, slots=True)
class History:
    """How many messages of each topic a late subscriber gets; `depth` None: all that are retained."""

    depth: int | None

    def __repr__(self) -> str:
        return "keep_all" if self.depth is None else f"keep_last({self.depth})"


keep_all: Final = History(None)
"""The history of all messages that are retained."""


def keep_last(depth: int) -> History:
    """Return the history of so many messages of each topic. Raises ConfigurationError."""
    if type(depth) is not int or not 1 <= depth <= NUMBER:
        raise ConfigurationError(f"keep_last({depth!r}): expected a number of messages, from 1 to {NUMBER}")
    return History(depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class QoS:
    """The quality of service of a topic: what its publisher offers, or what its subscriber requests.

    A value cannot be changed; `replace` returns another one. Raises ConfigurationError for what is no such value.
    """

    reliability: Reliability = "reliable"
    """"reliable" (in order, once, resent until acknowledged) or "best-effort"."""
    history: History = History(1)
    """`keep_last(n)` messages of each topic for late subscribers, or `keep_all`."""
    durability: Durability = "volatile"
    """"volatile", "transient_local", "transient" or "persistent"."""
    age: float | str | None = None
    """Retention at the publisher: seconds, or text such as "10m"; None: no limit."""
    size: int | str | None = None
    """Retention at the publisher: bytes, or text such as "64MB"; None: 64 MiB."""
    count: int | None = None
    """Retention at the publisher: messages of each topic; None: as many as `history` says."""
    lifespan: float | None = None
    """Seconds after which a message is not handed over any more; None: no limit."""
    deadline: float | None = None
    """Seconds within which each topic has a message: promised by a publisher, expected by a subscriber."""
    liveliness: float | None = None
    """Seconds after which a publisher that died without a goodbye is noticed; None: the lease of its endpoint."""
    overflow: Policy = "block"
    """The policy for a slow reader: "block", "drop_oldest", "drop_newest" or "disconnect"."""
    priority: Priority = "normal"
    """The order of sending: "urgent", "high", "normal" or "bulk"."""
    ownership: Ownership = "shared"
    """"shared": all publishers are received; "exclusive": of each topic the strongest that lives."""
    strength: int = 0
    """The strength of an exclusive publisher; of equal ones the lower endpoint id wins."""
    strict: bool = False
    """Whether a publisher and a subscriber that differ do not match at all."""

    def __post_init__(self) -> None:
        _choice("reliability", self.reliability, ("reliable", "best-effort"))
        _choice("durability", self.durability, DURABILITIES)
        _choice("overflow", self.overflow, (BLOCK, *CAUSES))
        _choice("priority", self.priority, tuple(PRIORITIES))
        _choice("ownership", self.ownership, ("shared", "exclusive"))
        if not isinstance(self.history, History):
            raise ConfigurationError(f"history={self.history!r}: expected glue.keep_last(n) or glue.keep_all")
        if self.age is not None:
            seconds_of(self.age)
        if self.size is not None:
            bytes_of(self.size)
        for name in ("lifespan", "deadline", "liveliness"):
            _seconds(name, getattr(self, name))
        for name, value, least in (("count", self.count, 1), ("strength", self.strength, 0)):
            if value is not None and (type(value) is not int or not least <= value <= NUMBER):
                raise ConfigurationError(f"{name}={value!r}: expected a whole number, from {least} to {NUMBER}")
        if not isinstance(self.strict, bool):
            raise ConfigurationError(f"strict={self.strict!r}: expected True or False")
        self._check_together()

    def _check_together(self) -> None:
        if self.is_kept and self.overflow != BLOCK:
            raise ConfigurationError(
                f"overflow={self.overflow!r}: with durability={self.durability!r} a slow reader goes on from history, "
                "so nothing is dropped; leave it out"
            )
        if self.durability == "persistent" and self.reliability != "reliable":
            raise ConfigurationError('durability="persistent" is acknowledged, so its reliability is "reliable"')
        if self.strength and self.ownership != "exclusive":
            raise ConfigurationError(f'strength={self.strength}: that is for ownership="exclusive"')

    @property
    def is_kept(self) -> bool:
        """Whether messages are kept for late subscribers."""
        return self.durability != "volatile"

    def replace(self, **changes: Any) -> QoS:
        """Return a value with some policies changed, such as `glue.EVENT.replace(deadline=5)`."""
        unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}
        if unknown:
            raise ConfigurationError(
                f"there is no policy {min(unknown)!r}; there are "
                + ", ".join(field.name for field in dataclasses.fields(self))
            )
        return dataclasses.replace(self, **changes)


def check_qos(qos: object) -> None:
    """Raise ConfigurationError unless it is a QoS."""
    if not isinstance(qos, QoS):
        raise ConfigurationError(f"qos={qos!r:.80}: expected a glue.QoS, such as glue.EVENT")


def _choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigurationError(f"{name}={value!r}: expected one of {', '.join(known)}")


def _seconds(name: str, value: object) -> None:
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.001 <= value <= NUMBER / 1000:  # type: ignore[operator]  # it is a number
        raise ConfigurationError(f"{name}={value!r}: expected seconds, from 0.001 to {NUMBER // 1000}")


SENSOR: Final = QoS(reliability="best-effort", overflow="drop_oldest")
"""Readings of which only the newest counts: a lost one is not sent again, and a slow reader misses the oldest."""

STATE: Final = QoS(durability="transient_local")
"""The present value of each topic: late subscribers get the last one."""

EVENT: Final = QoS(durability="transient_local", history=keep_last(100))
"""Events, each of which counts: late subscribers get the last 100 of each topic."""

LOG: Final = QoS(durability="persistent", history=keep_all)
"""A record of everything, on the disks of keepers; `publish` returns a receipt that tells when it is there."""
