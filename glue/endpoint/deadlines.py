"""Deadlines: a subscription is told when a publisher that promised a rate falls silent.

A publisher promises with `announce(pattern, publish_every=…)`. A promise counts if it is at least as fast as the
deadline. Each topic of such a publisher is watched from the announcement, or with a wildcard from its first message. A
topic is silent after 1.25 times the deadline without a message: a publisher that keeps its promise has some jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from threading import RLock
from typing import Final

from glue.contract import Alarm, Delivery, Event, PeerAdded, PeerInterest, PeerRemoved, Surveyed
from glue.contract.frozen import Frozen
from glue.contract.matching import meet
from glue.endpoint.fork import heirs
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.presence import promise_of
from glue.endpoint.receivers import AlarmReceiver
from glue.model import StackRequest
from glue.requests.directory import matches
from glue.topics.names import is_wildcard

TOLERANCE: Final = 1.25
"""Deadlines that pass before a publisher is silent."""
STEP: Final = 0.05
"""Deadlines between two looks at all topics, at least."""
TOPICS: Final = 65_536
"""Topics of publishers that one subscription watches, 20 MB; more are not watched."""


class Silence(Frozen):
    """A publisher did not keep a promise."""

    topic: str
    """The topic on which nothing came."""
    publisher: str
    """The name of the publisher."""
    publisher_id: str
    """Its endpoint id."""
    seconds: float
    """Seconds since its last message, or since its promise."""
    pattern: str
    """The pattern of the subscription."""


Key = tuple[str, str]
"""A publisher's id, and a topic."""


class DeadlineWatch(AlarmReceiver):
    """Watches one subscription's publishers; it subscribes to the same patterns, and so sees when messages come."""

    def __init__(
        self,
        patterns: Sequence[str],
        deadline: float,
        name: str,
        owner: SubscriptionOwner,
        order: Callable[[StackRequest], None],
        clock: Callable[[], float],
        tell: Callable[[Silence], None],
        counts: bool,
        takes_weaker: bool = False,
    ) -> None:
        """`order` passes requests to the stack, `tell` tells the program; `counts`: say when a delivery is handled.

        `takes_weaker`: a slower promise counts, too, at its own rate.
        """
        super().__init__()
        self._patterns = patterns
        self._deadline = deadline
        self._name = name
        self._owner = owner
        self._order = order
        self._clock = clock
        self._tell = tell
        self._counts = counts
        self._names: dict[str, str] = {}
        self._takes_weaker = takes_weaker
        self._promises: dict[str, dict[str, float]] = {}  # by publisher: patterns, and the seconds that may pass
        self._last: dict[Key, tuple[float, float]] = {}  # when a topic last came, and the seconds that may pass
        self._gone: set[str] = set()  # lost publishers with topics that are not silent yet
        self._is_armed = False
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock, for news come from turns and messages where handlers run."""
        self._lock = RLock()

    # ------------------------------------------------------------------------------------- within a turn

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        """Take news of publishers and their promises."""
        with self._lock:
            if isinstance(event, Surveyed):
                if event.token is self:
                    for peer, name, interests in event.peers:
                        self._names[peer] = name
                        self._changed(now, peer, interests, ())
            elif isinstance(event, PeerAdded):
                self._names[event.peer] = event.name
                self._gone.discard(event.peer)
            elif isinstance(event, PeerInterest):
                self._changed(now, event.peer, event.added, event.removed)
            elif isinstance(event, PeerRemoved):
                self._promises.pop(event.peer, None)  # they may come again, with its next life
                if event.reason == "goodbye":
                    self._keep_promised(event.peer)
                self._gone.add(event.peer)
                self._forget_gone()
        return ()

    def _forget_gone(self) -> None:
        """Forget lost publishers once all their silences were told."""
        if self._gone:
            awaited = {peer for peer, _ in self._last}
            for peer in self._gone - awaited:
                self._names.pop(peer, None)
            self._gone &= awaited

    def _changed(self, now: float, peer: str, added: Sequence[str], removed: Sequence[str]) -> None:
        for interest in removed:
            promise = promise_of(interest)
            if promise is not None and peer in self._promises:
                self._promises[peer].pop(promise[1], None)
                self._keep_promised(peer)
        for interest in added:
            promise = promise_of(interest)
            if promise is None or not promise[0]:
                continue
            if promise[0] > self._deadline * 1000 and not self._takes_weaker:
                continue
            if any(meet(promise[1], pattern) for pattern in self._patterns):
                seconds = max(self._deadline, promise[0] / 1000)
                self._promises.setdefault(peer, {})[promise[1]] = seconds * TOLERANCE
                self._keep_promised(peer, is_less=False)
                if not is_wildcard(promise[1]):
                    self._came(now, (peer, promise[1]))

    def _keep_promised(self, peer: str, is_less: bool = True) -> None:
        """Take the limits of its topics anew; `is_less`: what is promised no more is watched no more."""
        for key, (at, _) in list(self._last.items()):
            if key[0] == peer:
                limit = self._limit(key)
                if limit < inf:
                    self._last[key] = at, limit
                elif is_less:
                    del self._last[key]

    def _limit(self, key: Key) -> float:
        """The seconds that may pass between two messages; `inf` if nothing is promised."""
        promises = self._promises.get(key[0], {})
        return min((limit for pattern, limit in promises.items() if matches(pattern, key[1])), default=inf)

    def _came(self, now: float, key: Key) -> None:
        known = self._last.get(key)
        limit = self._limit(key) if known is None else known[1]
        if limit < inf and (known is not None or len(self._last) < TOPICS):
            self._last[key] = now, limit
            if not self._is_armed:
                self._is_armed = True
                self._order(Alarm(self, now + self._deadline * TOLERANCE))

    # -------------------------------------------------------------------------------- where handlers run

    def _deliver(self, event: Event) -> None:
        """Note messages; look for silent publishers when it is time."""
        if isinstance(event, Delivery):
            if not event.retained:
                with self._lock:
                    self._heard(event)
            self._owner.settled("handled", len(event.payloads))
            if self._counts:
                self._owner.handled(event)
            return
        for silence in self._silent():
            self._tell(silence)

    def _heard(self, event: Delivery) -> None:
        if event.publisher_id in self._promises:
            self._came(self._clock(), (event.publisher_id, event.topic))

    def _silent(self) -> list[Silence]:
        """Take out the topics that are silent, and set the alarm for the next."""
        now, found = self._clock(), []
        with self._lock:
            for (peer, topic), (at, limit) in list(self._last.items()):
                if now - at >= limit:
                    del self._last[peer, topic]
                    found.append(Silence(topic, self._names.get(peer, peer), peer, now - at, self._name))
            self._forget_gone()
            due = min((at + limit for at, limit in self._last.values()), default=inf)
            self._is_armed = due < inf
            if self._is_armed:
                self._order(Alarm(self, max(due, now + self._deadline * STEP)))
        return found

    def close(self) -> None:
        """Set no further alarm."""
        with self._lock:
            self._promises.clear()
            self._last.clear()
            self._forget_gone()
        self._order(Alarm(self, inf))
