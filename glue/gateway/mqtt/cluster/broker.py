"""The broker of a door that is one of a cluster: sessions, wills and messages of QoS 1 and 2 are in a model.

A client with a session that stays, or with a will, is let in once its door has the claim on the session. Every change
of the session expects this claim. So when a client connects elsewhere, whatever its former door still does is refused,
and that door closes the former connection as soon as it learns of the new claim. Nobody has to know whether the former
door is alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.cluster.delivering import NO_MAJORITY, Delivering
from glue.gateway.mqtt.cluster.keys import Entry, Owner, is_small, mark
from glue.gateway.mqtt.cluster.replica import Committed, Kept, Moved
from glue.gateway.mqtt.cluster.shared import Shared
from glue.gateway.mqtt.cluster.units import Unit, claim, forget, guarded
from glue.gateway.mqtt.identity import Refusal
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Connect, Disconnect, Publish, Will
from glue.gateway.mqtt.session import LAST_ID, LOST, Client, Session, Subscription
from glue.gateway.mqtt.stored import read_will, will_value
from glue.model.state import Change, Delete, Operation, Set, Update

SHOWN = 10_000
"""Sessions that are looked at for a list."""

TRIES, PAUSE = 20, 0.05
"""Tries to claim a session that changes at the same time, and seconds between two of them."""


class Found(NamedTuple):
    """A session as a claim finds it."""

    owner: Owner | None
    will: dict[str, Any] | None
    expiry: float


class ClusterBroker(Delivering):
    """A broker whose sessions any door of the cluster can go on with."""

    def __init__(self, access: Access, random: Random, shared: Shared, limits: Limits | None = None) -> None:
        """`random` draws client ids for clients that bring none."""
        super().__init__(access, random, shared, limits)
        shared.lost = self._refused
        shared.replica.statistics = self.statistics
        self._left: dict[str, Found] = {}  # sessions that this door gives back, as they will be then
        self._highest = 0  # number of a claim: no claim of this door has the number of another

    # -------------------------------------------------------------------------------------------- committed

    def apply(self, now: float, changes: Sequence[Change]) -> None:
        """Take committed changes of the model."""
        for event in self.shared.replica.apply(now, changes):
            match event:
                case Entry():
                    self.arrived(now, event)
                case Committed(door, number):
                    self.shared.committed(now, door, number)
                case Moved(_, before, after):
                    self._moved(now, before, after)
                case Kept(run):
                    self.retain_at(run, run.at)

    def _moved(self, now: float, before: Owner | None, after: Owner | None) -> None:
        """Give up a session that has another owner."""
        if before is None or before[1] != self.shared.name:
            return
        client_id = before[0]
        if client_id in self._left and self._left[client_id].owner == after:
            del self._left[client_id]
        session = self.sessions.get(client_id)
        if session is None or session.claim != before[2]:
            return  # it was left by this door itself
        if after is not None and after[1]:
            self._lose(now, session, codes.SESSION_TAKEN_OVER, "the client id connects again")
        else:
            self._lose(now, session, codes.SERVER_BUSY, "the other doors took this one for lost")

    def _lose(self, now: float, session: Session, code: int, reason: str) -> None:
        """Close the connection of a session that is no longer this door's."""
        session.claim = LOST
        self.shared.claims.pop(session.client_id, None)
        if session.client is not None:
            self.statistics["connections taken over"] += code == codes.SESSION_TAKEN_OVER
            self.end(now, session.client, code, reason)
            self.lost(now, session.client)
        else:
            self._forget(session)

    def _refused(self, now: float, owner: Owner) -> None:
        """Give up a session, as a change of it was refused."""
        self._left.pop(owner[0], None)
        session = self.sessions.get(owner[0])
        if session is not None and session.claim == owner[2]:
            self._lose(now, session, codes.SESSION_TAKEN_OVER, "its session is at another door")

    def cut_off(self, now: float) -> None:
        """Promise nothing more, as no majority is in reach: close each connection that was promised something."""
        waiting = [client for client in self.clients.values() if client.waits is not None and client.identity]
        self.shared.drop()
        for client in waiting:
            if not client.is_closing:
                client.waits = None
                self._reject(now, client, Refusal(codes.SERVER_UNAVAILABLE, NO_MAJORITY))
        for client in list(self.clients.values()):
            session = client.session
            if session is not None and session.claim > 0:
                self._lose(now, session, codes.SERVER_BUSY, NO_MAJORITY)
            elif client.promised:
                self.end(now, client, codes.SERVER_BUSY, NO_MAJORITY)
        self._left.clear()
        self.statistics["times without a majority"] += 1

    # ---------------------------------------------------------------------------------------------- connects

    def enter(self, now: float, client: Client, packet: Connect) -> None:
        """Let a client in, once this door has the claim on its session."""
        if packet.will is not None and not is_small(packet.will):
            self._reject(now, client, Refusal(codes.PACKET_TOO_LARGE, "a will too large for the cluster"))
            return
        client_id = packet.client_id or self._new_id()
        is_known = mark(client_id) in self.shared.replica.owners
        if not (is_known or packet.will is not None or packet.expiry(self.limits.session_expiry)):
            self._welcome(now, client, packet, client_id)
            return
        client.waits = []
        self.changed[client] = None
        self._claim(client, client_id, TRIES, now)

    def _claim(self, client: Client, client_id: str, tries: int, now: float) -> None:
        """Propose that the session of a client is this door's; the client waits for the outcome."""
        packet = client.connect
        assert packet is not None
        if client.waits is None or client.link not in self.clients or client.is_closing:
            return
        if not self.shared.is_ready or not tries:
            client.waits = None
            reason = "the view of the cluster is old" if self.shared.is_ready else NO_MAJORITY
            self._reject(now, client, Refusal(codes.SERVER_UNAVAILABLE, reason))
            return
        hash, replica = mark(client_id), self.shared.replica
        known = Found(replica.owners.get(hash), replica.wills.get(hash), replica.terms.get(hash, {}).get("expiry", 0))
        found: Found = self._left.get(client_id, known)
        number = self._highest = max(self._highest, 0 if found.owner is None else found.owner[2]) + 1
        is_new = found.owner is None or packet.clean or not found.expiry
        unit = self._claiming(now, packet, found, (client_id, self.shared.name, number), is_new)
        unit.committed = partial(self._claimed, client, client_id, number, not is_new)
        unit.refused = partial(self._claim_again, client, client_id, found.owner, tries)
        self.shared.propose(unit)
        self.shared.is_urgent = True

    def _claiming(self, now: float, packet: Connect, found: Found, claimed: Owner, is_new: bool) -> Unit:
        """The unit that claims a session as it was found; for a new one, what was before goes and its will is sent."""
        hash = mark(claimed[0])
        present, will = found.owner, found.will
        unit = claim(hash, present, claimed, will)
        if present is not None and is_new:
            unit.add(*(one for one in forget(hash) if one.key != f"o/{hash}"))  # type: ignore[union-attr]
        elif will is not None:
            unit.add(Delete(f"w/{hash}"))
        if will is not None and (is_new or (present is not None and present[1] and not _delay(will))):
            unit.add(*self.will_operations(now, will))
        if packet.will is not None:
            unit.add(Set(f"w/{hash}", {"will": will_value(packet.will)}))
        unit.add(Update(f"a/{hash}", {"expiry": packet.expiry(self.limits.session_expiry), "away": None}))
        return unit

    def _claim_again(self, client: Client, client_id: str, expected: Owner | None, tries: int, now: float) -> None:
        """Go on with a claim that was refused: wait for what it did not know of, and try again if that was an end.

        If it was another claim, the client is connected to another door, perhaps since later: what it sent here may be
        old, and must not be taken.
        """
        if client.waits is None or client.link not in self.clients or client.is_closing:
            return
        found = self.shared.replica.owners.get(mark(client_id))
        if found == expected and tries and self.shared.is_ready:
            self.at(now + PAUSE, partial(self._claim_again, client, client_id, expected, tries - 1))
        elif found is None or (expected is not None and expected[1] and found[1:] == ("", expected[2] + 1)):
            self._claim(client, client_id, tries, now)
        else:
            client.waits = None
            self._reject(now, client, Refusal(codes.SERVER_BUSY, "the client id connects at another door"))

    def _claimed(self, client: Client, client_id: str, number: int, is_present: bool, now: float) -> None:
        """Go on with a client whose session is this door's now."""
        packet, hash = client.connect, mark(client_id)
        assert packet is not None
        owner = self.shared.replica.owners.get(hash)
        self._left.pop(client_id, None)
        if client.waits is None or client.link not in self.clients or client.is_closing:
            if owner is not None and any(isinstance(one, Disconnect) for one in client.waits or ()):
                unit = guarded(hash, owner, self.shared.replica.wills.get(hash))
                unit.add(*self.leaving(now, hash, owner, packet.expiry(self.limits.session_expiry), None))
                self.shared.propose(unit)
            return  # else it is given back as one without a connection
        waiting, client.waits = client.waits, None
        if owner != (client_id, self.shared.name, number):
            self._reject(now, client, Refusal(codes.SERVER_BUSY, "the client id connects again"))
            return
        former = self.sessions.get(client_id)
        if former is not None and former.client is not None:  # one without a claim
            self._take_over(now, former)
        self.shared.claims[client_id] = number
        if is_present:
            self.sessions[client_id] = self._restored(client_id, hash)
        self._welcome(now, client, packet, client_id)
        self.handle(now, client, waiting)

    def _restored(self, client_id: str, hash: str) -> Session:
        """A session as it is in the model."""
        session = Session(client_id, self.limits.queue_messages, self.limits.queue_bytes)
        progress = self.shared.replica.progress(hash)
        session.is_kept = True
        session.shelved = dict(progress.sent)
        session.released = dict.fromkeys(progress.released)
        session.received = set(progress.received)
        session.read_at = progress.next
        taken = [*session.shelved, *session.released]
        session.next_id = max(taken) % LAST_ID + 1 if taken else 1
        for name, (options, since) in self.shared.replica.filters(hash).items():
            subscription = Subscription(
                session, name, options & 3, bool(options >> 2 & 1), bool(options >> 3 & 1), options >> 4
            )
            subscription.since = since
            self.subscriptions.add(subscription)
        return session

    def unshelve(self, now: float, session: Session) -> None:
        """Read the messages in flight from the log; those that have expired there are done."""
        numbers = list(session.shelved)
        super().unshelve(now, session)
        gone = [number for number in numbers if number not in session.inflight]
        if gone:
            self.note_acknowledged(session, gone)

    def _store_session(self, now: float, session: Session, will: Will | None) -> None:
        number = self.shared.claims.get(session.client_id)
        if number is None:
            return
        session.claim = number
        if session.is_kept:
            self.unshelve(now, session)
        elif session.expiry > 0:
            session.is_kept = True
            self.shared.note("next", session.client_id, self.shared.end)

    # -------------------------------------------------------------------------------------------------- ends

    def leave(self, now: float, session: Session, expires_at: float) -> None:
        """Give a session back to the cluster, as it has no connection any more."""
        if not session.claim:
            super().leave(now, session, expires_at)
            return
        self._forget(session)
        unit = self.shared.unit_of(session.client_id) if session.claim != LOST else None
        if unit is None:
            return
        will = None if session.will is None else {"will": will_value(session.will)}
        operations = self.leaving(now, mark(session.client_id), unit.owner, session.expiry, will)
        self.shared.extend(unit, operations)
        self._left[session.client_id] = _outcome(unit.owner, session.expiry, operations)
        self.shared.claims.pop(session.client_id)

    def leaving(
        self, now: float, hash: str, owner: Owner, expiry: float, will: dict[str, Any] | None
    ) -> list[Operation]:
        """The operations by which a session has no connection any more; its will is published, or becomes due."""
        unix = self.wall_clock()
        operations = forget(hash)
        if expiry > 0:
            operations = [Set(f"o/{hash}", [owner[0], "", owner[2] + 1])]
            operations.append(Update(f"a/{hash}", {"expiry": expiry, "away": unix}))
        delay = min(_delay(will), expiry)
        if will is not None and delay > 0:
            operations.append(Set(f"w/{hash}", {**will, "due": unix + delay}))
        elif expiry > 0:
            operations.append(Delete(f"w/{hash}"))
        if will is not None and delay <= 0:
            operations += self.will_operations(now, will)
        return operations

    def will_operations(self, now: float, value: dict[str, Any]) -> list[Operation]:
        """The operations that publish a will."""
        will = read_will(value["will"])
        assert will is not None
        properties = {name: one for name, one in will.properties.items() if name != "will_delay_interval"}
        run = Publish(will.topic, (will.payload,), will.qos, will.retain, properties or None)
        if "message_expiry_interval" in properties:
            run.expires = now + properties["message_expiry_interval"]
        run.at = self.wall_clock()
        self.statistics["wills published"] += 1
        return self.shared.publication(now, Entry(run))

    def _forget(self, session: Session) -> None:
        """Know a session no more here."""
        for subscription in list(session.subscriptions.values()):
            self.subscriptions.remove(subscription)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
        self.note_session(session, "ended")

    def end_session(self, now: float, session: Session) -> None:
        """End a session; one of the cluster is given back, to be ended there."""
        if not session.claim:
            super().end_session(now, session)
        elif session.claim != LOST:
            session.expiry = 0.0
            self.leave(now, session, now)
        else:
            self._forget(session)

    def others(self, now: float) -> list[dict[str, Any]]:
        """What to show of the cluster's sessions without a connection; the chosen door shows them."""
        if not self.is_chosen:
            return []
        replica, unix = self.shared.replica, self.wall_clock()
        waiting: Counter[str] = Counter()
        for entry in replica:
            for hash in entry.wanted:
                waiting[hash] += entry.run.count if replica.progress(hash).next < entry.end else 0
        return [
            {
                "client": owner[0],
                "connected": False,
                "subscriptions": len(replica.filters(hash)),
                "waiting": waiting[hash],
                "under_way": len(replica.progress(hash).sent) + len(replica.progress(hash).released),
                "dropped": 0,
                "expires": round(sum(replica.terms.get(hash, {}).values()) - unix, 1),
            }
            for hash, owner in islice(replica.owners.items(), SHOWN)
            if not owner[1]
        ]

    def taken(self, now: float, client_id: str, door: str) -> Any:
        """Hand over a session to a door that is not of the cluster: none that the cluster keeps."""
        session = self.sessions.get(client_id)
        if session is None or session.claim:
            return None
        return super().taken(now, client_id, door)


def _outcome(owner: Owner, expiry: float, operations: Sequence[Operation]) -> Found:
    """A session after its end here."""
    if expiry <= 0:
        return Found(None, None, 0.0)
    wills = [one.value for one in operations if isinstance(one, Set) and one.key.startswith("w/")]
    return Found((owner[0], "", owner[2] + 1), wills[0] if wills else None, expiry)


def _delay(will: dict[str, Any] | None) -> float:
    """Seconds between the end of the connection and the publication of a will."""
    if will is None:
        return 0.0
    properties = will["will"][4]
    return float(properties.get("will_delay_interval", 0))
