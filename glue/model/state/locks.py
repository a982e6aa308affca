"""Locks with leases in committed time, which all replicas read alike from the log.

Only some entries carry the time. A lease begins at the first stamp after the lock was taken or renewed. Its owner
counts from the request, and so never assumes a longer lease than it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

LOCKS = 65_536
"""Locks held at once, 200 bytes each: 13 MB."""


class HeldLock:
    """A held lock: its fencing token (log index at which it was taken), its lease, and the end of the lease.

    The end, `expires_ms`, is None until the first stamp.
    """

    __slots__ = ("expires_ms", "lease_ms", "owner", "token")

    def __init__(self, owner: str, token: int, lease_ms: int, expires_ms: int | None = None) -> None:
        self.owner = owner
        self.token = token
        self.lease_ms = lease_ms
        self.expires_ms = expires_ms


class Locks:
    """All held locks. `next_expiry` is the committed time (ms) at which `stamp` has something to do.

    `first_end` is the end of the first lease that has begun, or earlier; also while others wait for a stamp to begin.
    """

    __slots__ = ("_held", "first_end", "next_expiry")

    def __init__(self) -> None:
        self._held: dict[str, HeldLock] = {}
        self.first_end: float = inf
        self.next_expiry: float = inf

    def holder(self, name: str) -> HeldLock | None:
        """Return the holder of a lock, None if it is free."""
        return self._held.get(name)

    def refusal(self, name: str, owner: str) -> str:
        """Return why this owner cannot have the lock now; "" if it can."""
        held = self._held.get(name)
        if held is None:
            return "too many locks" if len(self._held) >= LOCKS else ""
        return "" if held.owner == owner else f"held by {held.owner}"

    def take(self, name: str, owner: str, index: int, lease_ms: int) -> int:
        """Take or renew a lock; returns its fencing token, which a renewal keeps."""
        held = self._held.get(name)
        token = index if held is None else held.token
        self._held[name] = HeldLock(owner, token, lease_ms)
        self.next_expiry = 0
        return token

    def release(self, name: str, owner: str) -> bool:
        """Release a lock; returns whether this owner had it."""
        held = self._held.get(name)
        if held is None or held.owner != owner:
            return False
        del self._held[name]
        return True

    def stamp(self, time_ms: int) -> list[str]:
        """Advance the committed time: leases begin and end; returns the names of locks that are free now."""
        if time_ms < self.next_expiry:
            return []
        over = []
        self.next_expiry = inf
        for name, held in self._held.items():
            if held.expires_ms is None:
                held.expires_ms = time_ms + held.lease_ms
            if held.expires_ms <= time_ms:
                over.append(name)
            else:
                self.next_expiry = min(self.next_expiry, held.expires_ms)
        for name in over:
            del self._held[name]
        self.first_end = self.next_expiry
        return over

    def as_list(self) -> list[Any]:
        """Return all locks, for a snapshot."""
        return [[name, held.owner, held.token, held.lease_ms, held.expires_ms] for name, held in self._held.items()]

    def load(self, next_expiry: int | None, locks: Iterable[Any]) -> None:
        """Restore all locks from a snapshot. Raises TypeError and ValueError for what is none."""
        self._held = {name: HeldLock(*held) for name, *held in locks}
        self.next_expiry = inf if next_expiry is None else next_expiry
        ends = [end for end in (next_expiry, *(held.expires_ms for held in self._held.values())) if end is not None]
        facts = [fact for held in self._held.values() for fact in (held.token, held.lease_ms)]
        if any(type(number) is not int for number in (*ends, *facts)):
            raise TypeError("a lock without numbers")
        self.first_end = min(
            (held.expires_ms for held in self._held.values() if held.expires_ms is not None), default=inf
        )
