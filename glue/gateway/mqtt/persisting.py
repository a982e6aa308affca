"""Sessions that outlive the process: the stored state of a session, and the messages it reads from the log.

A session with a connection gets messages as they come. One without a connection, or with more waiting than `WINDOW`,
only has a position in the log, and reads from there once its client has room. What must not be said before it is
durable waits for a sync: PUBACK and PUBREC of a message that a session keeps, and each next step of QoS 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from glue.contract.matching import covers
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.identity import READ
from glue.gateway.mqtt.session import Client, Parcel, Session, Subscription
from glue.gateway.mqtt.state import BrokerState
from glue.gateway.mqtt.store import SessionStore, Store
from glue.gateway.mqtt.stored import Kept, run_value, will_value

WINDOW = 8_192
"""Messages that wait in memory for a session that is in the log, too: eight times what is under way to a client."""

READ_SIZE = 1 << 20
"""Bytes of the log that a session reads at a time: some 4 ms."""


class Persisting(BrokerState):
    """Stores what sessions need after the end of the process. Without `store` it does nothing."""

    store: SessionStore | None = None
    has_store_failed = False
    """Whether the shell has given up the store, so that nothing is promised any more."""
    recovered_to = 0
    """The end of what was stored before this process began."""

    @property
    def stored_to(self) -> int:
        """The end of what is stored; it has grown if something new is."""
        return 0 if self.store is None else self.store.end

    # -------------------------------------------------------------------------------------------- promises

    def promise(self, client: Client, data: bytes, is_stored: bool) -> None:
        """Write a packet to a client; if something was stored for it, once that is durable. Packets stay in order."""
        if self.store is None or not (is_stored or client.promised):
            client.out.append(data)
            return
        client.promised += 1
        self.store.then(partial(self._keep_promise, client, data))

    def _keep_promise(self, client: Client, data: bytes, now: float) -> None:
        client.promised -= 1
        if not client.is_closing:
            client.out.append(data)
            self.changed[client] = None

    def store_failed(self, now: float) -> None:
        """Close all connections, and let nobody in: nothing can be promised any more."""
        self.has_store_failed = True
        for client in list(self.clients.values()):
            self.end(now, client, codes.IMPLEMENTATION_ERROR, "the storage of the gateway failed")

    def end(self, now: float, client: Client, code: int, reason: str, other: str = "") -> None:
        """Close a connection."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------- messages

    def keeps(self, subscription: Subscription) -> bool:
        """Whether a message of QoS 1 or 2 for a subscription is stored."""
        return subscription.qos > 0 and subscription.session.is_kept

    def put_kept(self, now: float, session: Session, parcel: Parcel) -> int:
        """Let messages wait that are in the log, too; returns 0: none is lost."""
        if session.read_at is None:
            lost = parcel.run.count if session.client is None else session.put(parcel, WINDOW)
            if lost:
                session.read_at = parcel.run.offset + parcel.run.count - lost
        return 0

    def catch_up(self, now: float, session: Session) -> None:
        """Read on in the log until something waits, or there is no more."""
        store, at = self.store, session.read_at
        assert store is not None
        assert at is not None
        scanned = 0
        while not session.queue:
            runs, following = store.read(now, at, READ_SIZE)
            for kept in runs:
                parcel = self.parcel_for(session, kept)
                if parcel is not None:
                    session.enqueue(parcel)
                scanned += kept.run.size
            is_stopped = following <= at
            at = following
            if at >= store.end:
                session.read_at = None
                return
            if is_stopped or scanned >= READ_SIZE:
                break
        session.read_at = at
        if not session.queue:
            self.at(now, partial(self._go_on, session))

    def _go_on(self, session: Session, now: float) -> None:
        self.fill(now, session)

    def fill(self, now: float, session: Session) -> None:
        """Send what waits."""
        raise NotImplementedError

    def parcel_for(self, session: Session, kept: Kept) -> Parcel | None:
        """Return the part of a run in the log for a session, None if nothing."""
        run = kept.run
        if kept.to:
            is_own = kept.to == session.client_id and run.qos and not self.is_denied(session, run.topic)
            return Parcel(run, run.qos, run.retain, kept.identifiers) if is_own else None
        if not run.qos:
            return None
        found = [one for one in session.subscriptions.values() if _matches(one, kept)]
        if not found or (found[0].is_narrowed and self.is_denied(session, run.topic)):
            return None
        qos = min(run.qos, max(one.qos for one in found))
        retain = run.retain and any(one.retain_as_published for one in found)
        identifiers = tuple(one.identifier for one in found if one.identifier)
        return Parcel(run, qos, retain, identifiers) if qos else None

    def is_denied(self, session: Session, topic: str) -> bool:
        """Whether the client of a session may not read a topic; without a client that is asked when it is back."""
        client = session.client
        if client is None or client.identity is None:
            return False
        return not self.access.authorize(client.identity, session.client_id, READ, topic)

    # -------------------------------------------------------------------------------------------- sessions

    def note_sent(self, session: Session, parcel: Parcel, ids: Sequence[int]) -> None:
        """Store that messages are in flight."""
        store, first = self.store, parcel.run.offset
        assert store is not None
        options = parcel.qos | parcel.retain << 2
        if isinstance(ids, range):
            sent = [[ids.start, first, len(ids), options]]
        else:
            sent = [[number, first + place, 1, options] for place, number in enumerate(ids)]
        store.note("sent", session.client_id, first + len(ids), sent)

    def note_acknowledged(self, session: Session, ids: Sequence[int]) -> None:
        """Store that a client has messages."""
        if self.store is not None and session.is_kept:
            self.store.note("ack", session.client_id, _ranges(ids))

    def note_event(self, session: Session, name: str, *more: Any) -> bool:
        """Store an event of a session, if it is kept; returns whether it is."""
        if self.store is None or not session.is_kept:
            return False
        self.store.note(name, session.client_id, *more)
        return True

    def shelve(self, session: Session) -> None:
        """Forget the messages of a session that has no connection: they are in the log."""
        assert self.store is not None
        if session.read_at is None:
            session.read_at = self.store.end
        for parcel in session.queue:
            session.read_at = min(session.read_at, parcel.run.offset)
        session.queue.clear()
        session.queued = session.queued_bytes = 0
        for number, (parcel, place) in session.inflight.items():
            options = parcel.qos | parcel.retain << 2
            session.shelved[number] = (parcel.run.offset + place, options)
        session.inflight.clear()
        self.store.note("next", session.client_id, session.read_at)

    def unshelve(self, now: float, session: Session) -> None:
        """Read the messages in flight from the log. Damaged messages, which the log has lost, are left out."""
        store = self.store
        assert store is not None
        shelved = session.shelved
        if not shelved:
            return
        numbers = {offset: number for number, (offset, _) in shelved.items()}
        found: dict[int, tuple[Parcel, int]] = {}
        at, stop = min(numbers), max(numbers) + 1
        while at < stop:
            runs, following = store.read(now, at, READ_SIZE)
            for kept in runs:
                first = kept.run.offset
                for place in range(kept.run.count):
                    number = numbers.get(first + place)
                    if number is not None:
                        run, options = kept.run.part(place, place + 1), shelved[number][1]
                        identifiers = kept.identifiers if kept.to else _identifiers(session, kept)
                        found[number] = (Parcel(run, options & 3, bool(options >> 2), identifiers), 0)
            if following <= at:
                break
            at = following
        session.shelved = {}  # not before: where the log cannot be read, they are for the next connection
        for number in shelved:
            if number in found:
                session.inflight[number] = found[number]
            else:
                self.statistics["stored messages that are lost"] += 1

    def state_events(self, now: float) -> list[Any]:
        """All sessions, wills and retained messages, as events of a snapshot."""
        store = self.store
        assert isinstance(store, Store)
        to_unix = store.wall_clock() - now
        events: list[Any] = []
        for session in self.sessions.values():
            name = session.client_id
            if session.will is not None:
                events.append(["will", name, will_value(session.will)])
            if not session.is_kept:
                continue
            events.append(["open", name, session.expiry, session.epoch])
            if session.client is None:
                events.append(["away", name, session.expires_at + to_unix])
            events += [["sub", name, one.filter, one.options, one.since] for one in session.subscriptions.values()]
            events.append(["next", name, self.position(session)])
            sent = [[number, *place, 1, options] for number, (*place, options) in session.shelved.items()]
            for number, (parcel, place) in session.inflight.items():
                sent.append([number, parcel.run.offset + place, 1, parcel.qos | parcel.retain << 2])
            events.append(["sent", name, self.position(session), sent])
            events += [["rec", name, number] for number in session.released]
            events.append(["in", name, list(session.received)])
        events += [["retain", run_value(run, to_unix)] for run in self.retained if not run.topic.startswith("$")]
        return events

    def position(self, session: Session) -> int:
        """The offset of the first message that was not sent to a session yet."""
        assert self.store is not None
        if session.queue:
            return session.queue[0].run.offset
        if not any(map(self.keeps, session.subscriptions.values())):
            return self.store.end
        return self.store.end if session.read_at is None else session.read_at

    def needed_from(self) -> int:
        """The first offset of the log that some session needs."""
        assert isinstance(self.store, Store)
        lowest = self.store.log.end
        for session in self.sessions.values():
            if session.is_kept:
                places = [self.position(session), *(offset for offset, _ in session.shelved.values())]
                places += [parcel.run.offset + place for parcel, place in session.inflight.values()]
                lowest = min(lowest, *places)
        return lowest


def _matches(subscription: Subscription, kept: Kept) -> bool:
    run = kept.run
    if subscription.since > run.offset or (subscription.no_local and kept.sender == subscription.session.client_id):
        return False
    return not subscription.is_shared and covers(subscription.filter, run.topic)


def _identifiers(session: Session, kept: Kept) -> Sequence[int]:
    """The identifiers of the subscriptions by which a session gets a run."""
    return [one.identifier for one in session.subscriptions.values() if one.identifier and _matches(one, kept)]


def _ranges(ids: Sequence[int]) -> list[list[int]]:
    if isinstance(ids, range):
        return [[ids.start, len(ids)]]
    found: list[list[int]] = []
    for number in ids:
        if found and found[-1][0] + found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, 1])
    return found
