"""What nobody else does in a cluster: sessions of dead doors, wills that are due, sessions that end, and old messages.

Every door gives back what it owns without a connection. So do the others for dead doors, one after the other. One
door, the chosen one, does the rest. Should two doors do the same, the model lets only one of them do each thing: every
unit expects what its door has seen. What is proposed is not proposed again before its outcome is known: a slow model
would get slower with each sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial
from heapq import nsmallest
from itertools import islice

import orjson

from glue.gateway.mqtt.cluster.broker import ClusterBroker
from glue.gateway.mqtt.cluster.keys import Owner
from glue.gateway.mqtt.cluster.units import Done, Unit, forget, guarded
from glue.model.state import Delete, Expect, Update

INTERVAL = 0.5
"""Seconds between two sweeps."""

GRACE = 1.5
"""Seconds for which a door must be unknown to be taken for dead. Each further living door waits as long again, so that
the first one does the work if it can."""

TOGETHER, CLEARED = 200, 800
"""Most in a sweep: sessions changed, and as many retained messages removed; and other messages removed."""


class Sweeping:
    """The sweeps of one door. `is_chosen` of its broker says whether it is the chosen one."""

    def __init__(self, broker: ClusterBroker) -> None:
        self._broker = broker
        self._shared = broker.shared
        self._missing: dict[str, float] = {}  # since when a door is unknown
        self._odd: set[tuple[str, int]] = set()  # own sessions without a connection, at the last sweep
        self._proposed: set[str] = set()  # sessions and retained messages whose change is under way
        self._drops = 0  # how often the door had been cut off then
        self._clearing = -1  # how often the door had been cut off when it proposed to remove messages; -1: it did not

    def sweep(self, now: float, living: Collection[str]) -> None:
        """Do what is due. `living` are the names of the doors that are known to live."""
        shared, broker = self._shared, self._broker
        if not shared.is_ready:
            self._missing.clear()
            return
        if self._drops != shared.drops:
            self._drops = shared.drops
            self._proposed.clear()
        replica, unix = shared.replica, shared.wall_clock()
        odd, left = set[tuple[str, int]](), TOGETHER
        doors = {owner[1] for owner in replica.owners.values()} - {"", shared.name}
        self._missing = {door: self._missing.get(door, now) for door in doors if door not in living}
        rank = sum(name < shared.name for name in living)
        registered = {*replica.doors.values()}  # a door that has started again is there under another name
        dead = {door for door, since in self._missing.items() if now - since >= GRACE * (rank + (door in registered))}
        for hash, owner in list(replica.owners.items()):
            if left <= 0:
                break
            if hash in self._proposed:
                continue
            if owner[1] in dead:
                self._bury(now, hash, owner)
                left -= 1
            elif owner[1] == shared.name:
                if not self._has(owner):
                    odd.add((hash, owner[2]))
                    if (hash, owner[2]) in self._odd:
                        self._bury(now, hash, owner)
                        left -= 1
            elif not owner[1] and broker.is_chosen:
                left -= self._end(now, unix, hash, owner)
        self._odd = odd
        if broker.is_chosen and len(replica.owners) > broker.limits.sessions:
            self._make_room(now)
        if broker.is_chosen and self._clearing != shared.drops:
            self._clear(now)
        if broker.is_chosen:
            self._expire(now)

    def _propose(self, name: str, unit: Unit, then: Done = lambda now: None) -> None:
        """Propose a change of a session or a retained message; `then` is called once it is committed."""
        self._proposed.add(name)
        unit.committed = partial(self._settled, name, then)
        unit.refused = partial(self._settled, name, lambda now: None)
        self._shared.propose(unit)
        self._shared.is_urgent = True

    def _settled(self, name: str, then: Done, now: float) -> None:
        self._proposed.discard(name)
        then(now)

    def _has(self, owner: Owner) -> bool:
        session = self._broker.sessions.get(owner[0])
        return session is not None and session.claim == owner[2]

    def _bury(self, now: float, hash: str, owner: Owner) -> None:
        """Give back a session that nobody is connected with any more."""
        replica = self._shared.replica
        will = replica.wills.get(hash)
        unit = guarded(hash, owner, will)
        expiry = float(replica.terms.get(hash, {}).get("expiry", 0))
        unit.add(*self._broker.leaving(now, hash, owner, expiry, will))
        self._propose(hash, unit)

    def _end(self, now: float, unix: float, hash: str, owner: Owner) -> bool:
        """Publish a will that is due, and end a session that has been away for too long; whether there was anything."""
        replica = self._shared.replica
        will, terms = replica.wills.get(hash), replica.terms.get(hash, {})
        is_over = terms.get("away", unix) + terms.get("expiry", 0) <= unix
        is_due = will is not None and (is_over or will.get("due", unix) <= unix)
        if not (is_over or is_due):
            return False
        unit = guarded(hash, owner, will)
        if is_over:
            unit.add(*forget(hash))
        else:
            unit.add(Delete(f"w/{hash}"))
        if is_due and will is not None:
            unit.add(*self._broker.will_operations(now, will))
        self._propose(hash, unit, partial(self._count, "sessions expired") if is_over else lambda now: None)
        return True

    def _count(self, name: str, now: float) -> None:
        self._broker.statistics[name] += 1

    def _make_room(self, now: float) -> None:
        """End the sessions that have been away longest, as there are too many."""
        replica, limits = self._shared.replica, self._broker.limits
        away = [
            (replica.terms.get(hash, {}).get("away", 0.0), hash)
            for hash, one in replica.owners.items()
            if not one[1] and hash not in self._proposed
        ]
        for _, hash in nsmallest(min(TOGETHER, len(away) - limits.sessions), away):
            owner, will = replica.owners[hash], replica.wills.get(hash)
            unit = guarded(hash, owner, will)
            unit.add(*forget(hash), *(self._broker.will_operations(now, will) if will is not None else ()))
            self._propose(hash, unit, partial(self._count, "sessions ended for room"))
            full = f"{limits.sessions} clients are away"
            self._broker.refusals.tell(now, f"the session of {owner[0]} ends: {full}", full)

    # ------------------------------------------------------------------------------------------ messages

    def _clear(self, now: float) -> None:
        """Remove messages that no session needs any more."""
        replica = self._shared.replica
        keys: list[str] = []
        for entry in replica:
            if replica.is_done(now, entry):
                keys.append(entry.key)
                if len(keys) >= CLEARED:
                    break
        if keys:
            unit = Unit([], [Delete(key) for key in keys])
            unit.committed = self._cleared
            self._clearing = self._shared.drops
            self._shared.propose(unit)
            self._shared.is_urgent = True
        limits = self._broker.limits
        if replica.messages > limits.queue_messages or replica.bytes > limits.queue_bytes:
            self._shorten(now)

    def _cleared(self, now: float) -> None:
        self._clearing = -1

    def _expire(self, now: float) -> None:
        """Remove retained messages whose lifetime is over, which gives room to others."""
        replica = self._shared.replica
        replica.expire(now)
        for hash, document in islice(replica.overdue.items(), TOGETHER):
            key = f"r/{hash}"
            if key not in self._proposed:
                unit = Unit([Expect(key, orjson.loads(document))], [Delete(key)])
                unit.size += len(document)
                self._propose(key, unit)

    def _shorten(self, now: float) -> None:
        """Drop the oldest messages of sessions for which too many wait."""
        replica, limits = self._shared.replica, self._broker.limits
        messages: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        firsts: dict[str, int] = {}
        for entry in reversed(list(replica)):
            for hash in entry.wanted:
                if hash not in replica.owners or (following := replica.progress(hash).next) >= entry.end:
                    continue
                messages[hash] += entry.run.count
                sizes[hash] += entry.run.size
                if messages[hash] > limits.queue_messages or sizes[hash] > limits.queue_bytes:
                    firsts.setdefault(hash, entry.end)
                    dropped[hash] += min(entry.run.count, entry.end - following)
        for hash, first in firsts.items():
            if hash in self._proposed:
                continue
            owner = replica.owners[hash]
            unit = Unit(guarded(hash, owner, None).guards[:1], [Update(f"p/{hash}", {"next": first})])
            self._propose(hash, unit, partial(self._dropped, owner[0], dropped[hash]))

    def _dropped(self, client_id: str, count: int, now: float) -> None:
        self._broker.statistics["messages dropped"] += count
        self._broker.refusals.tell(now, f"the oldest messages that wait for {client_id!r} are dropped: too many wait")
