"""The start of a door from its log: sessions, wills and retained messages as they were when the process ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glue.errors import StorageError
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.session import Session, Subscription
from glue.gateway.mqtt.store import Store
from glue.gateway.mqtt.stored import Event, Kept, read_run_value, read_will

IDENTIFIERS = 65_535
"""The last packet identifier of MQTT."""


def recover(now: float, broker: Broker, store: Store) -> None:
    """Fill a new broker from a store, which it uses from now on. Raises StorageError.

    Clients that were connected count as lost now, so their wills are published.
    """
    recovery = _Recovery(now, broker, store)
    for entry in store.replay(now):
        if isinstance(entry, Kept):
            recovery.take(entry)
        else:
            for event in entry:
                recovery.apply(event)
    broker.store = store
    broker.recovered_to = store.end
    recovery.end()


class _Recovery:
    def __init__(self, now: float, broker: Broker, store: Store) -> None:
        self._now = now
        self._broker = broker
        self._store = store
        self._to_monotonic = now - store.wall_clock()
        self._away: dict[str, float] = {}  # until when the sessions of absent clients are kept
        self._next: dict[str, int] = {}
        self._wills: dict[str, Any] = {}
        self._actions: dict[str, Callable[[Session, Sequence[Any]], None]] = {
            "away": self._leave, "sub": self._subscribe, "unsub": self._unsubscribe, "next": self._move,
            "sent": self._sent, "ack": self._acknowledge, "rec": self._release, "comp": self._complete,
            "in": self._receive, "rel": self._forget,
        }  # fmt: skip

    def take(self, kept: Kept) -> None:
        """A run of messages in the log."""
        run = kept.run
        if run.retain and not kept.to:
            self._broker.retain_at(run, run.at)
        if kept.ids and (session := self._broker.sessions.get(kept.sender)) is not None:
            session.received.update(kept.ids)

    def apply(self, event: Event) -> None:
        """An event. Raises StorageError for a malformed one: then the log is that of another version."""
        try:
            name, key, *more = event
            if name == "retain":
                run = read_run_value(key, self._to_monotonic)
                self._broker.retain_at(run, run.at)
            elif name == "open":
                self._open(key, *more)
            elif name == "will":
                self._wills[key] = more[0]
            elif (session := self._broker.sessions.get(key)) is not None:
                if name == "end":
                    self._end(session)
                else:
                    self._actions[name](session, more)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise StorageError(f"an event in the log of the door is not understood: {event!r:.200}: {error}") from None

    def _open(self, client_id: str, expiry: float, number: int) -> None:
        sessions, limits = self._broker.sessions, self._broker.limits
        session = sessions.get(client_id)
        if session is None:
            session = sessions[client_id] = Session(client_id, limits.queue_messages, limits.queue_bytes)
            session.is_kept = True
            self._next.setdefault(client_id, 0)
        session.expiry, session.epoch = expiry, number
        self._broker.highest_epoch = max(self._broker.highest_epoch, number)
        self._away.pop(client_id, None)

    def _end(self, session: Session) -> None:
        for subscription in list(session.subscriptions.values()):
            self._broker.subscriptions.remove(subscription)
        del self._broker.sessions[session.client_id]
        self._next.pop(session.client_id, None)

    def _leave(self, session: Session, more: Sequence[Any]) -> None:
        self._away[session.client_id] = more[0] + self._to_monotonic

    def _subscribe(self, session: Session, more: Sequence[Any]) -> None:
        topic_filter, options, since = more
        subscription = Subscription(
            session, topic_filter, options & 3, bool(options >> 2 & 1), bool(options >> 3 & 1), options >> 4
        )
        subscription.since = since
        self._broker.subscriptions.add(subscription)

    def _unsubscribe(self, session: Session, more: Sequence[Any]) -> None:
        found = session.subscriptions.get(more[0])
        if found is not None:
            self._broker.subscriptions.remove(found)

    def _move(self, session: Session, more: Sequence[Any]) -> None:
        self._next[session.client_id] = max(more[0], self._next.get(session.client_id, 0))

    def _sent(self, session: Session, more: Sequence[Any]) -> None:
        following, sent = more
        self._move(session, (following,))
        for number, offset, count, options in sent:
            for place, one in enumerate(_identifiers(number, count)):
                session.shelved[one] = (offset + place, options)

    def _acknowledge(self, session: Session, more: Sequence[Any]) -> None:
        for number, count in more[0]:
            for one in _identifiers(number, count):
                session.shelved.pop(one, None)

    def _release(self, session: Session, more: Sequence[Any]) -> None:
        session.shelved.pop(more[0], None)
        session.released[more[0]] = None

    def _complete(self, session: Session, more: Sequence[Any]) -> None:
        session.released.pop(more[0], None)

    def _receive(self, session: Session, more: Sequence[Any]) -> None:
        session.received.update(more[0])

    def _forget(self, session: Session, more: Sequence[Any]) -> None:
        session.received.discard(more[0])

    def end(self) -> None:
        """Let all sessions be without a connection."""
        broker, now = self._broker, self._now
        for client_id, will in self._wills.items():
            session = broker.sessions.get(client_id)
            if session is None and will is not None:
                session = Session(client_id, 0, 0)
                broker.sessions[client_id] = session
            if session is not None:
                session.will = read_will(will)
        for session in list(broker.sessions.values()):
            taken = [*session.shelved, *session.released]
            session.next_id = max(taken) % IDENTIFIERS + 1 if taken else 1
            session.read_at = self._next.get(session.client_id, 0)
            if session.is_kept:
                session.expires_at = self._away.get(session.client_id, now + session.expiry)
            broker.leave(now, session, session.expires_at)


def _identifiers(first: int, count: int) -> range:
    """Return packet identifiers that follow each other. Raises ValueError for such as MQTT does not have."""
    if not 0 < first <= first + count - 1 <= IDENTIFIERS:
        raise ValueError(f"{count} packet identifiers from {first} on")
    return range(first, first + count)
