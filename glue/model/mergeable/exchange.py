"""How replicas keep each other up to date on mergeable keys: deltas at once, and digests to find what got lost.

A write goes to all as a delta; those of a busy moment go together. Beside that, each replica may tell all what it has,
as a digest; who hears one that knows more pulls the difference from its sender. When to send digests is decided by
Trickle (RFC 6206): again and again at half the rate while all digests agree, and only by whoever comes first, so that
a network at rest hears one every 16 seconds, however many replicas there are; soon after a write, a difference or a
newcomer.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

from glue.model.mergeable.context import Context
from glue.model.mergeable.store import Store
from glue.model.mergeable.wire import Digest, Message, Pull, Told

SHORTEST, LONGEST = 0.2, 12.8
"""Seconds of the shortest and the longest interval (Imin and Imax of RFC 6206; its redundancy k is 1)."""

GATHERING = 0.005
"""Seconds between two deltas: a lone write leaves at once, those of a busy program together."""

PATIENCE = 0.15
"""Seconds for which what a digest promises may come by itself, as it is on its way, before it is pulled."""

PULL_INTERVAL = 1.0
"""Seconds until something is pulled again although no answer has come."""

ANSWER_INTERVAL = 0.05
"""Seconds between two answers to one replica."""

ANSWERED = 1024
"""Replicas of which it is known when they got an answer; beyond, all of that is forgotten."""

Sending = tuple[str | None, Message]
"""To whom (None: to all), and what."""


class DigestExchange:
    """What one replica says of its store, and when. `agreed`: the latest message showed another one with the same."""

    def __init__(self, store: Store, statistics: Counter[str], luck: Random, now: float) -> None:
        self._store = store
        self._statistics = statistics
        self._luck = luck
        self._touched = Context()  # written, and to be told
        self._told_at = -inf
        self._wanted: tuple[float, str, Digest] | None = None  # when to pull it, from whom
        self._pulled_at = -inf
        self._answered: dict[str, float] = {}
        self.agreed = False
        self._begin(now, SHORTEST)

    @property
    def deadline(self) -> float:
        """When `tick` has something to do."""
        at = min(self._speaks_at, self._ends_at)
        if self._touched:
            at = min(at, self._told_at + GATHERING)
        return at if self._wanted is None else min(at, self._wanted[0])

    # ----------------------------------------------------------------------------------------------- timing

    def _begin(self, now: float, interval: float) -> None:
        """Begin an interval, within whose second half a digest is sent unless an equal one was heard by then."""
        self._interval = interval
        self._ends_at = now + interval
        self._speaks_at = now + self._luck.uniform(interval / 2, interval)
        self._was_heard = False

    def hasten(self, now: float) -> None:
        """Something has changed, or somebody came: compare soon."""
        if self._interval > SHORTEST:
            self._begin(now, SHORTEST)

    def tick(self, now: float) -> list[Sending]:
        """Say what is due."""
        sendings: list[Sending] = []
        if self._touched and self._told_at + GATHERING <= now:
            sendings.append((None, Told(self._store.delta(self._touched))))
            self._touched, self._told_at = Context(), now
        if self._wanted is not None and self._wanted[0] <= now:
            _, sender, digest = self._wanted
            self._wanted = None
            if self._lacks(digest):
                self._pulled_at = now
                sendings.append((sender, Pull(self._store.context.copy())))
        if self._speaks_at <= now:
            self._speaks_at = inf
            if not self._was_heard:
                sendings.append(self.ask(False))
        if self._ends_at <= now:
            self._begin(now, min(2 * self._interval, LONGEST))
        return sendings

    # ------------------------------------------------------------------------------------------- what is said

    def wrote(self, now: float, touched: Context) -> None:
        """These dots were touched by a write here."""
        self._touched.update(touched)
        self.agreed = False
        self.hasten(now)

    def ask(self, asks: bool = True) -> Sending:
        """Tell all what is here; and hear soon what they have."""
        return None, Digest(asks, self._store.context.copy(), self._store.mark)

    def heard_digest(self, now: float, sender: str, digest: Digest) -> None:
        """Another replica has this."""
        is_like = self._store.is_like(digest.context, digest.mark)
        self.agreed = is_like
        if is_like and not digest.asks:
            self._was_heard = True
            return
        self.hasten(now)
        if self._lacks(digest) and self._wanted is None and now >= self._pulled_at + PULL_INTERVAL:
            self._wanted = (now if digest.asks else now + PATIENCE), sender, digest

    def _lacks(self, digest: Digest) -> bool:
        """Whether its sender knows more. With one context but other events, one has not heard of a deletion."""
        if digest.context <= self._store.context:
            return digest.context == self._store.context and digest.mark != self._store.mark
        return True

    def heard_pull(self, now: float, sender: str, pull: Pull) -> list[Sending]:
        """Another replica wants to know what it lacks."""
        if self._answered.get(sender, -inf) + ANSWER_INTERVAL > now:
            self._statistics["pulls refused: too many"] += 1
            return []
        if len(self._answered) >= ANSWERED:
            self._answered.clear()
        self._answered[sender] = now
        return [(sender, Told(self._store.since(pull.context), self._store.mark))]

    def heard_delta(self, now: float, told: Told, has_news: bool) -> None:
        """A delta was merged; whether it brought anything."""
        if told.mark is not None:
            self._pulled_at = -inf
            self.agreed = self._store.is_like(told.delta.context, told.mark)
        if has_news:
            self.hasten(now)
