"""Messages that keep mergeable keys up to date: deltas at once, and digests to find lost ones.

A write goes to all replicas as a delta; writes within `GATHERING` share a delta. Replicas also multicast digests of
what they have. A replica that lacks something pulls the difference from the sender of a digest.

Trickle (RFC 6206) decides when to send digests. While all digests agree, the interval doubles up to `LONGEST`, and one
replica's digest suppresses those of the others. A network at rest carries one digest every 16 seconds, however many
replicas there are. After a write, a difference or a new replica, the interval starts again at `SHORTEST`.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from random import Random

from glue.model.mergeable.context import Context
from glue.model.mergeable.store import Store
from glue.model.mergeable.wire import Digest, Message, Pull, Push

SHORTEST, LONGEST = 0.2, 12.8
"""Seconds of the shortest and the longest interval (Imin and Imax of RFC 6206; the redundancy k is 1)."""

GATHERING = 0.005
"""Seconds between two deltas: a lone write leaves at once, and the writes of a busy program share a delta."""

PATIENCE = 0.15
"""Seconds to wait before a pull, because the missing delta may be on its way."""

PULL_INTERVAL = 1.0
"""Seconds until a pull is repeated without an answer."""

ANSWER_INTERVAL = 0.05
"""Seconds between two answers to one replica."""

ANSWERED = 1024
"""Replicas with a known time of the last answer; beyond this, all are forgotten."""

Sending = tuple[str | None, Message]
"""Receiver (None: all) and message."""


class DigestExchange:
    """The messages of one replica about its store. `agreed` is true if the latest message showed an equal store."""

    def __init__(self, store: Store, statistics: Counter[str], rng: Random, now: float) -> None:
        self._store = store
        self._statistics = statistics
        self._rng = rng
        self._touched = Context()  # written, not sent yet
        self._told_at = -inf
        self._wanted: tuple[float, str, Digest] | None = None  # pull: when, from which replica, for which digest
        self._pulled_at = -inf
        self._answered: dict[str, float] = {}
        self.agreed = False
        self._begin(now, SHORTEST)

    @property
    def deadline(self) -> float:
        """The time at which `tick` has something to do."""
        at = min(self._speaks_at, self._ends_at)
        if self._touched:
            at = min(at, self._told_at + GATHERING)
        return at if self._wanted is None else min(at, self._wanted[0])

    # ----------------------------------------------------------------------------------------------- timing

    def _begin(self, now: float, interval: float) -> None:
        """Begin an interval. A digest is sent in its second half, unless an equal one arrives before."""
        self._interval = interval
        self._ends_at = now + interval
        self._speaks_at = now + self._rng.uniform(interval / 2, interval)
        self._digest_received = False

    def hasten(self, now: float) -> None:
        """Start again at the shortest interval, because something has changed or a replica came."""
        if self._interval > SHORTEST:
            self._begin(now, SHORTEST)

    def tick(self, now: float) -> list[Sending]:
        """Return the messages that are due."""
        sendings: list[Sending] = []
        if self._touched and self._told_at + GATHERING <= now:
            sendings.append((None, Push(self._store.delta(self._touched))))
            self._touched, self._told_at = Context(), now
        if self._wanted is not None and self._wanted[0] <= now:
            _, sender, digest = self._wanted
            self._wanted = None
            if self._lacks(digest):
                self._pulled_at = now
                sendings.append((sender, Pull(self._store.context.copy())))
        if self._speaks_at <= now:
            self._speaks_at = inf
            if not self._digest_received:
                sendings.append(self.ask(False))
        if self._ends_at <= now:
            self._begin(now, min(2 * self._interval, LONGEST))
        return sendings

    # ----------------------------------------------------------------------------------------------- messages

    def wrote(self, now: float, touched: Context) -> None:
        """Note the dots that a local write touched."""
        self._touched.update(touched)
        self.agreed = False
        self.hasten(now)

    def ask(self, asks: bool = True) -> Sending:
        """Return a digest for all; with `asks`, replicas with another state answer soon."""
        return None, Digest(asks, self._store.context.copy(), self._store.mark)

    def receive_digest(self, now: float, sender: str, digest: Digest) -> None:
        """Take the digest of another replica: note agreement, or plan a pull."""
        is_like = self._store.is_like(digest.context, digest.mark)
        self.agreed = is_like
        if is_like and not digest.asks:
            self._digest_received = True
            return
        self.hasten(now)
        if self._lacks(digest) and self._wanted is None and now >= self._pulled_at + PULL_INTERVAL:
            self._wanted = (now if digest.asks else now + PATIENCE), sender, digest

    def _lacks(self, digest: Digest) -> bool:
        """Whether the sender of a digest knows more.

        With equal contexts but different marks, one of both replicas has missed a deletion.
        """
        if digest.context <= self._store.context:
            return digest.context == self._store.context and digest.mark != self._store.mark
        return True

    def receive_pull(self, now: float, sender: str, pull: Pull) -> list[Sending]:
        """Answer a pull with what the other replica lacks."""
        if self._answered.get(sender, -inf) + ANSWER_INTERVAL > now:
            self._statistics["pulls refused: too many"] += 1
            return []
        if len(self._answered) >= ANSWERED:
            self._answered.clear()
        self._answered[sender] = now
        return [(sender, Push(self._store.since(pull.context), self._store.mark))]

    def receive_push(self, now: float, push: Push, has_news: bool) -> None:
        """Note a delta that was merged; `has_news` tells whether it changed anything."""
        if push.mark is not None:
            self._pulled_at = -inf
            self.agreed = self._store.is_like(push.delta.context, push.mark)
        if has_news:
            self.hasten(now)
