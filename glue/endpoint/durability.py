"""Acknowledgements on disk, at the publisher: which messages are durable at how many keepers.

A keeper is known by its interest in `$glue/keeper/<"disk" or "memory">/<replicas>/<pattern>`. Nothing is published on
this topic; 0 replicas stand for a keeper of everything. A publisher that wants acknowledgements subscribes to
`$glue/durable/<its id>/<its life>`. After each sync, keepers that see this interest publish there which messages
have become durable:

    {"durable": [[topic, first, stop], …]}        sequence numbers from first to stop - 1
    {"refused": [[topic, first, stop], …], "cause": text}
    {"held": …}, {"unheld": …, "cause": text}     likewise, of delayed messages, which have numbers of their own

Acknowledgements are facts about the keeper's disk. They may come twice, late or in any order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, Literal

from glue.contract import PeerInterest, PeerRemoved
from glue.contract.ranges import RangeSet
from glue.endpoint.fork import heirs
from glue.errors import ConfigurationError
from glue.requests.directory import matches

KEEPER = "$glue/keeper/"
DISK, MEMORY = "disk", "memory"
DURABLE = "$glue/durable/"
HELD = "$glue/held/"
"""With a topic: what stands for its delayed messages here. It is no topic on the network."""

Acks = Literal["disk", "replicas"] | int
"""How many keepers must have synced a message: one, as many as the keepers' `replicas` say, or a number."""

MOST = 64
"""Keepers that can be asked for at most: more copies of one message are a mistake."""
PATTERNS = 1024
"""Kept patterns that are remembered of one keeper; further ones are counted and left out."""

KNOWN_TOPICS = 4096
"""Topics whose keepers are remembered; cleared when full: 1 MB."""


def keeper_interest(pattern: str, replicas: int | None, is_on_disk: bool) -> str:
    """Return the interest by which a keeper of this pattern is known."""
    return f"{KEEPER}{DISK if is_on_disk else MEMORY}/{replicas or 0}/{pattern}"


def acknowledgement_topic(endpoint_id: str, life: int) -> str:
    """Return the topic of the acknowledgements for one life of a publisher."""
    return f"{DURABLE}{endpoint_id}/{life}"


def check_acks(acks: Acks) -> None:
    """Raise ConfigurationError unless `acks` is a number of keepers, or a word for one."""
    if acks in ("disk", "replicas") or (type(acks) is int and 1 <= acks <= MOST):
        return
    raise ConfigurationError(f'acks={acks!r}: expected "disk", "replicas" or a number of keepers from 1 to {MOST}')


class Expectation:
    """Consecutive messages of one topic that are to become durable at some keepers. Read it from any thread."""

    __slots__ = ("_ended", "acks", "count", "first", "keepers", "needed", "reason", "topic")

    def __init__(self, topic: str, count: int, acks: Acks, ended: Callable[[], None]) -> None:
        self.topic = topic
        self.count = count
        self.acks = acks
        self.first = 0  # sequence number; 0 until it is known
        self.needed = 0
        self.keepers: dict[str, str] = {}
        """The keepers that have synced all of them: names by id."""
        self.reason = ""
        """Why they will not be as durable as wanted; "" while they may."""
        self._ended = ended

    @property
    def is_durable(self) -> bool:
        """Whether enough keepers have synced all of them."""
        return bool(self.needed) and len(self.keepers) >= self.needed

    @property
    def is_over(self) -> bool:
        """Whether nothing more is waited for."""
        return bool(self.reason) or self.is_durable

    def end(self) -> None:
        """Wake what waits."""
        self._ended()


Keepers = dict[str, dict[str, int]]
"""Patterns with their replicas, by keeper."""


class Durability:
    """The expectations of one life of an endpoint, and its known keepers. Thread-safe."""

    def __init__(self, identity: Any, name_of: Callable[[str], str], statistics: Counter[str]) -> None:
        """`identity` has the id and the life of the endpoint."""
        self.identity = identity
        self.topic = acknowledgement_topic(identity.endpoint_id, identity.incarnation)
        self.wanted: dict[str, int] = {}
        """The lives that want acknowledgements, by publisher; this endpoint may be among them."""
        self.on_wanted: list[Callable[[str, int], None]] = []
        """Called with each publisher and life that is added to `wanted`."""
        self._name_of = name_of
        self._statistics = statistics
        self.on_placed: list[Callable[[bool], None]] = []
        """Called with True when a keeper has come, with False when one has gone: topics may have other keepers now."""
        self._keepers: dict[str, Keepers] = {DISK: {}, MEMORY: {}}
        self._known: dict[tuple[str, str], dict[str, int]] = {}  # keepers by place and topic
        self._pending: dict[str, deque[Expectation]] = {}
        self._durable: dict[str, dict[str, RangeSet]] = {}  # of the topics with expectations, by keeper
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        self._lock = RLock()

    # --------------------------------------------------------------------------------------------- keepers

    @property
    def disks(self) -> Keepers:
        """The patterns of each keeper with a disk, and the wanted replicas; this endpoint may be among them."""
        return self._keepers[DISK]

    def covering(self, pattern: str) -> list[str]:
        """Ids of the keepers with a disk that keep all topics of a pattern."""
        from glue.contract.matching import covers  # imported when used: most networks have no keepers

        with self._lock:
            found = {
                keeper: max((patterns[kept] for kept in patterns if covers(kept, pattern)), default=-1)
                for keeper, patterns in self.disks.items()
            }
        able = {keeper: replicas for keeper, replicas in found.items() if replicas >= 0}
        return [keeper for keeper, replicas in able.items() if not replicas or replicas >= len(able)]

    def note(self, event: PeerInterest | PeerRemoved) -> None:
        """Learn of keepers that come and go."""
        with self._lock:
            if isinstance(event, PeerRemoved):
                self.wanted.pop(event.peer, None)
                if sum(table.pop(event.peer, None) is not None for table in self._keepers.values()):
                    self._placed(False)
                    self._look_again(f"keeper {event.name} left")
                return
            for interest in event.removed:
                if (found := _parsed(interest)) is not None:
                    self.lost_pattern(event.peer, *found[:2])
            for interest in event.added:
                if (found := _parsed(interest)) is not None:
                    self.keeps(event.peer, *found)
                elif (life := _life(interest, event.peer)) is not None:
                    self.want(event.peer, life)

    def want(self, publisher: str, life: int) -> None:
        """Note that a publisher, perhaps this endpoint, wants acknowledgements."""
        with self._lock:
            self.wanted[publisher] = life
            for tell in self.on_wanted:
                tell(publisher, life)

    def keeps(self, keeper: str, place: str, pattern: str, replicas: int | None) -> None:
        """Note that a keeper, perhaps this endpoint, keeps a pattern on disk or in memory."""
        with self._lock:
            patterns = self._keepers[place].setdefault(keeper, {})
            if len(patterns) >= PATTERNS:
                self._statistics["kept patterns beyond the limit"] += 1
                return
            patterns[pattern] = replicas or 0
            self._placed(True)

    def lost_pattern(self, keeper: str, place: str, pattern: str) -> None:
        """Note that a keeper keeps a pattern no more."""
        with self._lock:
            patterns = self._keepers[place].get(keeper, {})
            if patterns.pop(pattern, None) is not None:
                if not patterns:
                    del self._keepers[place][keeper]
                self._placed(False)
                self._look_again(f"keeper {self._name_of(keeper)} ended")

    def _placed(self, is_more: bool) -> None:
        self._known.clear()
        for tell in self.on_placed:
            tell(is_more)

    def keepers(self, topic: str, place: str = DISK) -> dict[str, int]:
        """Ids of the keepers that keep a topic, with the replicas that each wants, 0 for all. Do not change it."""
        topic = topic.removeprefix(HELD)
        with self._lock:
            found = self._known.get((place, topic))
            if found is None:
                from glue.history.placement import chosen  # as above

                matching = {}
                for keeper, patterns in self._keepers[place].items():
                    replicas = [wanted for pattern, wanted in patterns.items() if matches(pattern, topic)]
                    if replicas:
                        matching[keeper] = max(replicas) if all(replicas) else 0
                found = chosen(matching, topic)
                if len(self._known) >= KNOWN_TOPICS:
                    self._known.clear()
                self._known[place, topic] = found
            return found

    def holders(self, topic: str) -> list[str]:
        """Ids of all keepers of a topic, with a disk or without."""
        return [*{**self.keepers(topic, DISK), **self.keepers(topic, MEMORY)}]

    def known(self) -> list[str]:
        """Ids of all keepers."""
        with self._lock:
            return [*{**self._keepers[DISK], **self._keepers[MEMORY]}]

    def is_kept_by(self, keeper: str, topic: str) -> bool:
        """Whether a keeper is to keep a topic."""
        return keeper in self.keepers(topic, DISK) or keeper in self.keepers(topic, MEMORY)

    def _replicas(self, topic: str) -> int:
        return max([1, *self.keepers(topic).values()])

    # ---------------------------------------------------------------------------------------- expectations

    def expect(self, topic: str, count: int, acks: Acks, ended: Callable[[], None]) -> Expectation:
        """Expect acknowledgements of messages that are about to be published; `ended` is called once that is over."""
        expectation = Expectation(topic, count, acks, ended)
        with self._lock:
            self._pending.setdefault(topic, deque()).append(expectation)
            self._durable.setdefault(topic, {})
        return expectation

    def drop(self, expectation: Expectation) -> None:
        """Expect no more of what was not published."""
        with self._lock:
            self._end([expectation])

    def addressed(self, expectation: Expectation, last: int) -> None:
        """The messages were numbered; `last` is the number of the last one."""
        with self._lock:
            if expectation.reason:
                return
            topic = expectation.topic
            expectation.first = last - expectation.count + 1
            acks = expectation.acks
            expectation.needed = 1 if acks == "disk" else self._replicas(topic) if acks == "replicas" else int(acks)
            for keeper, durable in self._durable[topic].items():
                self._count(expectation, keeper, durable)
            self._give_up(expectation, "")
            if expectation.is_over:
                self._end([expectation])

    def take(self, keeper: str, message: Any) -> None:
        """Take a keeper's acknowledgement. A malformed one is counted."""
        if not isinstance(message, dict):
            self._statistics["malformed acknowledgements"] += 1
            return
        with self._lock:
            for good, bad, before in (("durable", "refused", ""), ("held", "unheld", HELD)):
                for topic, first, stop in self._ranges(message.get(good, [])):
                    self._acknowledged(keeper, before + topic, first, stop)
                for topic, first, stop in self._ranges(message.get(bad, [])):
                    self._refused(keeper, before + topic, first, stop, str(message.get("cause", ""))[:200])

    def _ranges(self, found: object) -> Iterator[tuple[str, int, int]]:
        for one in found if isinstance(found, list) else [None]:
            if (
                isinstance(one, list) and len(one) == 3 and isinstance(one[0], str)
                and type(one[1]) is int and type(one[2]) is int and 0 < one[1] < one[2] < 1 << 63
            ):  # fmt: skip
                yield one[0], one[1], one[2]
            else:
                self._statistics["malformed acknowledgements"] += 1

    def _acknowledged(self, keeper: str, topic: str, first: int, stop: int) -> None:
        pending = self._pending.get(topic)
        if not pending:
            return
        durable = self._durable[topic].setdefault(keeper, RangeSet())
        durable.add(first, stop)
        ended = []
        for expectation in pending:
            if expectation.first and not expectation.is_over:
                if self._count(expectation, keeper, durable):
                    ended.append(expectation)
                elif expectation.first >= stop:
                    break
        self._end(ended)
        if pending and pending[0].first:
            durable.drop_below(pending[0].first)

    def _count(self, expectation: Expectation, keeper: str, durable: RangeSet) -> bool:
        """Count a keeper that has synced all of the messages; returns whether the expectation is over."""
        start, stop = expectation.first, expectation.first + expectation.count
        if next(durable.gaps(start, stop), None) is None:
            expectation.keepers[keeper] = self._name_of(keeper)
        return expectation.is_over

    def _refused(self, keeper: str, topic: str, first: int, stop: int, cause: str) -> None:
        self._statistics["messages refused by a keeper"] += stop - first
        ended = []
        for expectation in self._pending.get(topic, ()):
            if expectation.first and expectation.first < stop and first < expectation.first + expectation.count:
                self._give_up(expectation, f"keeper {self._name_of(keeper)} refused: {cause}", but=keeper)
                if expectation.is_over:
                    ended.append(expectation)
        self._end(ended)

    def _give_up(self, expectation: Expectation, cause: str, but: str = "") -> None:
        """End an expectation if fewer keepers are left than it needs."""
        possible = {*expectation.keepers, *self.keepers(expectation.topic)} - {but}
        if len(possible) < expectation.needed and not expectation.is_durable:
            needed, topic = expectation.needed, expectation.topic.removeprefix(HELD)
            known = f"{len(possible)} of {needed} keepers of {topic!r:.80} with a disk are known"
            expectation.reason = f"{cause}; {known}" if cause else known

    def _look_again(self, cause: str) -> None:
        """A keeper is gone: end what cannot be fulfilled any more."""
        ended = []
        for pending in self._pending.values():
            for expectation in pending:
                if expectation.first:
                    self._give_up(expectation, cause)
                    if expectation.is_over:
                        ended.append(expectation)
        self._end(ended)

    def _end(self, ended: list[Expectation]) -> None:
        for expectation in ended:
            topic = expectation.topic
            pending = self._pending.get(topic)
            if pending is not None:
                if pending[0] is expectation:
                    pending.popleft()
                elif expectation in pending:
                    pending.remove(expectation)
                if not pending:
                    del self._pending[topic], self._durable[topic]
            expectation.end()

    def close(self, reason: str) -> None:
        """End all expectations: the endpoint closes."""
        with self._lock:
            pending = [expectation for waiting in self._pending.values() for expectation in waiting]
            for expectation in pending:
                expectation.reason = expectation.reason or reason
            self._end(pending)


def _parsed(interest: str) -> tuple[str, str, int] | None:
    """The place, the pattern and the replicas that a keeper announces; None for any other interest."""
    if not interest.startswith(KEEPER):
        return None
    place, _, rest = interest.removeprefix(KEEPER).partition("/")
    replicas, _, pattern = rest.partition("/")
    is_number = replicas.isascii() and replicas.isdecimal() and len(replicas) <= 3
    if place not in (DISK, MEMORY) or not pattern or not is_number:
        return None
    return place, pattern, min(int(replicas), MOST)


def _life(interest: str, peer: str) -> int | None:
    """The life for which a peer wants acknowledgements; None for any other interest, and for those of others."""
    if not interest.startswith(DURABLE):
        return None
    publisher, _, life = interest.removeprefix(DURABLE).partition("/")
    return int(life) if publisher == peer and life.isdecimal() and len(life) < 20 else None
