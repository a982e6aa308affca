"""Presence: which endpoints, publishers, subscribers and responders come and go, as their interests tell.

A publisher is known only if it announces itself (`announce`), by an interest under `$glue/` as responders do; nothing
is to be published there. A watch begins with all that is there, as one survey of the topics layer tells, and goes on
with the news of discovery. Other observers of the same news, as for deadlines, are told alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from glue.contract import Delivery, Event, PeerAdded, PeerInterest, PeerRemoved, Surveyed
from glue.contract.frozen import Frozen
from glue.contract.matching import meet
from glue.endpoint.observers import Observers
from glue.errors import TopicError
from glue.requests.wire import ANNOUNCED
from glue.topics import check_pattern
from glue.topics.wrapped import SAMPLED, is_wrapped, unwrapped

PUBLISHER: Final = "$glue/publisher/"
"""The beginning of a publisher's announcement; the promised interval (milliseconds, 0: none) and a pattern follow."""
PATTERNS: Final = 65_536
"""Roles of all peers that are remembered while there is a watch, 20 MB; more are left out, and counted."""
NEVER: Final = 10**9
"""Milliseconds of an interval that a publisher can promise at most."""

Kind = Literal["endpoint", "publisher", "subscriber", "responder"]
"""What comes or goes."""


class Presence(Frozen):
    """Something came, or went."""

    kind: Kind
    """What it is: an endpoint, or one that publishes to topics, subscribes to them or answers requests on them."""
    name: str
    """The name of the endpoint."""
    id: str
    """Its endpoint id."""
    pattern: str
    """The topics; empty for an endpoint."""
    present: bool
    """Whether it came; else it went."""
    reason: str = ""
    """Why an endpoint is gone: "goodbye", "expired", "restarted" or "evicted"; empty for what ended by itself."""


Role = tuple[Kind, str]
"""A kind, and the pattern of its topics."""


def promise_of(interest: str) -> tuple[int, str] | None:
    """The promised interval (milliseconds, 0 for none) and the pattern of a publisher's announcement, if it is one."""
    number, _, pattern = interest[len(PUBLISHER) :].partition("/")
    if not interest.startswith(PUBLISHER) or not (number.isascii() and number.isdigit() and len(number) <= 10):
        return None
    try:
        check_pattern(pattern)
    except TopicError:
        return None
    return int(number), pattern


def role_of(interest: str) -> Role | None:
    """Return the statement of an interest; None for other interests of glue, and malformed ones."""
    if interest.startswith(PUBLISHER):
        promise = promise_of(interest)
        return None if promise is None else ("publisher", promise[1])
    if interest.startswith(ANNOUNCED):
        kind: Kind = "responder"
        pattern = interest[len(ANNOUNCED) :]
    elif interest.startswith(SAMPLED):
        return None  # a watcher, which is no subscriber
    elif interest and (is_wrapped(interest) or not interest.startswith("$glue/")):
        kind, pattern = "subscriber", unwrapped(interest)
    else:
        return None
    try:
        check_pattern(pattern)
    except TopicError:
        return None
    return kind, pattern


class PresenceWatch:
    """An observer that hands presence to a subscription, as the payloads of deliveries."""

    __slots__ = (
        "_count",
        "_identity",
        "_names",
        "_observers",
        "_pattern",
        "_roles",
        "_sequence",
        "_statistics",
        "token",
    )

    def __init__(
        self, pattern: str, token: Any, identity: tuple[str, str, int], observers: Observers, statistics: Counter[str]
    ) -> None:
        """`identity` is name, id and incarnation of this endpoint."""
        self.token = token
        self._pattern = pattern
        self._identity = identity
        self._observers = observers
        self._statistics = statistics
        self._names: dict[str, str] | None = None  # of the endpoints there; None before the survey
        self._roles: dict[str, Counter[Role]] = {}  # with how many interests tell each
        self._count = 0
        self._sequence = 1

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        """Take news; returns deliveries for the subscription."""
        if self.token.closed:
            self._observers.remove(self)
            return ()
        found: list[Presence] = []
        if isinstance(event, Surveyed):
            if event.token is self.token:
                self._names = {}
                for peer, name, interests in event.peers:
                    found += self._came(peer, name)
                    found += self._changed(peer, interests, ())
        elif self._names is None:
            return ()
        elif isinstance(event, PeerAdded):
            found += self._came(event.peer, event.name)
        elif isinstance(event, PeerInterest):
            found += self._changed(event.peer, event.added, event.removed)
        elif isinstance(event, PeerRemoved):
            found += self._went(event)
        return self._deliveries(found)

    def _came(self, peer: str, name: str) -> Iterator[Presence]:
        assert self._names is not None
        if peer not in self._names:
            self._names[peer] = name
            self._roles[peer] = Counter()
            yield Presence("endpoint", name, peer, "", True)

    def _went(self, event: PeerRemoved) -> Iterator[Presence]:
        assert self._names is not None
        name = self._names.pop(event.peer, None)
        if name is not None:
            roles = self._roles.pop(event.peer)
            self._count -= len(roles)
            for kind, pattern in roles:
                yield Presence(kind, name, event.peer, pattern, False, event.reason)
            yield Presence("endpoint", name, event.peer, "", False, event.reason)

    def _changed(self, peer: str, added: Sequence[str], removed: Sequence[str]) -> Iterator[Presence]:
        assert self._names is not None
        roles = self._roles.get(peer)
        if roles is None:
            return
        for role in self._watched(added):
            if role not in roles and self._count >= PATTERNS:
                self._statistics["presence left out: too many"] += 1
                continue
            roles[role] += 1
            if roles[role] == 1:
                self._count += 1
                yield Presence(role[0], self._names[peer], peer, role[1], True)
        for role in self._watched(removed):
            if role in roles:
                roles[role] -= 1
                if not roles[role]:
                    del roles[role]
                    self._count -= 1
                    yield Presence(role[0], self._names[peer], peer, role[1], False)

    def _watched(self, interests: Sequence[str]) -> Iterator[Role]:
        for interest in interests:
            role = role_of(interest)
            if role is not None and meet(role[1], self._pattern):
                yield role

    def _deliveries(self, found: list[Presence]) -> Sequence[Delivery]:
        if not found:
            return ()
        sequence = self._sequence
        self._sequence += len(found)
        return [Delivery("$glue/presence", found, None, *self._identity, sequence, 0.0, False, (self.token,))]
