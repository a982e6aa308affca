"""The event after a split network has healed: one event for all peers that are back.

A peer that comes back in the same life after its lease ended was cut off. From its return on, missed messages are
counted, as recovered from history or as gone. After two seconds, or once nothing comes any more, the program is told.
Retained values that were written on both sides of the split are conflicts: of each topic the value with the later time
stands, unless the program decides otherwise. The times are those of a hybrid logical clock (Kulkarni et al. 2014): a
publisher that has received a value of the topic writes a later time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from glue.contract import Alarm, Event, PeerAdded, PeerRemoved, Redeliver
from glue.endpoint.message import Gap
from glue.endpoint.receivers import AlarmReceiver
from glue.model import StackRequest

PEERS: Final = 1024
"""Lost peers that are remembered, the latest ones."""
VALUES: Final = 65_536
"""Retained values that are remembered of the time before a split, at some 200 bytes: 13 MB."""
STEP: Final = 0.5
"""Seconds between two looks; without anything new in between, healing is over."""
TOLD: Final = 5
"""Topics in conflict that a log names."""
LEAST, MOST = 2.0, 30.0
"""Seconds from the first return to the event, at least and at most."""
LOCAL_CAUSES: Final = frozenset({"overwritten", "refused", "disconnected"})
"""Causes of gaps that a slow reader has, not a split."""

RECOVERED: Final = "messages recovered from history"
FETCHED: Final = "messages fetched by keepers"

logger = logging.getLogger("glue")


@dataclass(frozen=True, slots=True)
class RetainedVersion:
    """A retained value of one publisher."""

    payload: Any
    """The payload as it was published; bytes if it is in a codec."""
    publisher: str
    """The name of the publisher."""
    publisher_id: str
    """Its endpoint id."""
    time: float
    """When it was published: a hybrid logical clock in Unix seconds."""


@dataclass(frozen=True, slots=True)
class RetainedConflict:
    """A retained topic that was written on both sides of a split."""

    topic: str
    versions: tuple[RetainedVersion, ...]
    """The values, the latest last."""
    stands: RetainedVersion
    """The value that stands: the last one, unless `on_conflict` returned another one."""


@dataclass(frozen=True, slots=True)
class Healed:
    """Peers that were cut off are back."""

    peers: tuple[str, ...]
    """Their names."""
    seconds: float
    """How long the first of them was lost."""
    missed: int
    """Messages that subscriptions of this endpoint did not get while it was split: `recovered` and `gone`."""
    recovered: int
    """Those that came from history, in their order."""
    gone: int
    """Those that nobody has any more, or that no subscription asked for; `on_gap` told of them, too."""
    fetched: int
    """Messages that keepers of this endpoint fetched from others."""
    conflicts: tuple[RetainedConflict, ...]
    """Retained topics that were written on both sides."""

    def __str__(self) -> str:
        told = (
            f"{', '.join(self.peers)} are back: of {self.missed} messages that were missed, {self.recovered} are "
            f"recovered and {self.gone} gone; {len(self.conflicts)} topics in conflict"
        )
        some = [f"{one.topic} (that of {one.stands.publisher} stands)" for one in self.conflicts[:TOLD]]
        return f"{told}: {', '.join(some)}{' …' if len(self.conflicts) > TOLD else ''}" if some else told


Written = dict[tuple[str, str], tuple[int, int]]
"""The life and the number of retained values, by topic and publisher."""


class HealWatch(AlarmReceiver):
    """Watches for peers that come back. All methods run where callbacks run."""

    def __init__(
        self,
        values: Callable[[], Iterable[Any]],
        count: Callable[[str], int],
        clock: Callable[[], float],
        order: Callable[[StackRequest], None],
        tell: Callable[[Healed], None],
        decide: Callable[[RetainedConflict], RetainedVersion | None],
        unix_time: Callable[[], float],
        lease: float,
    ) -> None:
        """`lease` is that of peers, in seconds. `values` gives the retained values, `count` the state of a counter."""
        super().__init__()
        self._values = values
        self._count = count
        self._clock = clock
        self._order = order
        self._tell = tell
        self._decide = decide
        self._unix_time = unix_time
        self._lease = lease
        self._lost: dict[str, tuple[int, float, float]] = {}  # by peer: life, when it was lost, and its split began
        self._before: Written = {}  # when peers were lost after a time without losses
        self._written_at = 0.0
        self._split_at = 0.0  # about when the split from those that are back began (Unix seconds)
        self._back: dict[str, str] = {}  # names of those that are back, by id
        self._began = self._since = 0.0
        self._gone = 0
        self._counts = (0, 0)
        self._seen = (-1, -1, -1)

    def lost(self, event: PeerRemoved) -> None:
        """A peer fell silent."""
        now = self._clock()
        if not self._back and (not self._lost or now >= self._written_at + MOST):  # the others may never be back
            self._before, self._written_at = self._written(), now
        self._lost.pop(event.peer, None)
        if len(self._lost) >= PEERS:
            del self._lost[next(iter(self._lost))]
        self._lost[event.peer] = event.incarnation, now, self._unix_time() - self._lease

    def found(self, event: PeerAdded) -> None:
        """A peer appeared."""
        life, at, split_at = self._lost.pop(event.peer, (-1, 0.0, 0.0))
        if life != event.incarnation:
            return
        self._split_at = min(self._split_at, split_at) if self._back else split_at
        if not self._back:
            self._began, self._since, self._gone = self._clock(), at, 0
            self._counts = self._count(RECOVERED), self._count(FETCHED)
            self._seen = (-1, -1, -1)
            self._order(Alarm(self, self._began + LEAST))
        self._back[event.peer] = event.name

    def gap(self, gap: Gap) -> None:
        """Messages are missing."""
        if self._back and gap.cause not in LOCAL_CAUSES:
            self._gone += gap.count

    def _written(self) -> Written:
        found: Written = {}
        for value in self._values():
            found[value.topic, value.publisher_id] = value.incarnation, value.sequence
            if len(found) >= VALUES:
                break
        return found

    def _deliver(self, event: Event) -> None:
        """Look whether healing is over, and tell."""
        if not self._back:
            return
        now = self._clock()
        seen = self._count(RECOVERED), self._count(FETCHED), self._gone
        if seen != self._seen and now < self._began + MOST:
            self._seen = seen
            self._order(Alarm(self, now + STEP))
            return
        conflicts = tuple(self._resolved(conflict, values) for conflict, values in self._conflicts())
        recovered, fetched = seen[0] - self._counts[0], seen[1] - self._counts[1]
        names = tuple(sorted(self._back.values()))
        told = Healed(
            names, self._began - self._since, recovered + self._gone, recovered, self._gone, fetched, conflicts
        )
        self._back = {}
        if not self._lost:
            self._before = {}
        self._tell(told)

    def _conflicts(self) -> list[tuple[RetainedConflict, list[Any]]]:
        """The topics with values of both sides that are newer than the split, and the values of each version."""
        topics: dict[str, list[Any]] = {}
        for value in self._values():
            known = self._before.get((value.topic, value.publisher_id))
            is_ours = value.publisher_id not in self._back
            if known != (value.incarnation, value.sequence) or (is_ours and value.at / 1e6 >= self._split_at):
                topics.setdefault(value.topic, []).append(value)
        found = []
        for topic, values in topics.items():
            theirs = sum(value.publisher_id in self._back for value in values)
            if 0 < theirs < len(values):
                values.sort(key=_time)
                versions = tuple(map(_version, values))
                found.append((RetainedConflict(topic, versions, versions[-1]), values))
        return found

    def _resolved(self, conflict: RetainedConflict, values: list[Any]) -> RetainedConflict:
        """Decide, and hand what stands to the subscriptions again: the other version may have come to them later."""
        chosen = self._decide(conflict)
        if chosen in conflict.versions and chosen is not None:
            conflict = RetainedConflict(conflict.topic, conflict.versions, chosen)
        value = values[conflict.versions.index(conflict.stands)]
        self._order(Redeliver(value.topic, value.publisher_id, value.incarnation, value.sequence))
        return conflict


def _time(value: Any) -> tuple[int, str]:
    return value.at, value.publisher_id


def _version(value: Any) -> RetainedVersion:
    payload = value.payload
    if value.json:
        try:
            payload = orjson.loads(payload)
        except orjson.JSONDecodeError:
            payload = bytes(payload)
    return RetainedVersion(payload, value.publisher, value.publisher_id, value.at / 1e6)
