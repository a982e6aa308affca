"""Sessions that move: a client finds its session at another door.

At the request of the new door, the old door hands over everything and forgets the session: subscriptions, waiting
messages, messages in flight with packet ids, the state of QoS 2, and a will that waits. Until publishers know the
interest of the new door, the old door goes on to collect messages. The new door fetches these half a second later,
except what it received itself: messages of the same topic and payload.

When a door was dead, its clients have new sessions elsewhere. Once it is back, it hands over what had waited for them.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.connecting import Connecting
from glue.gateway.mqtt.decoder import check_filter, check_topic_name
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Will
from glue.gateway.mqtt.session import LAST_ID, Parcel, Session, Subscription
from glue.gateway.mqtt.stored import read_run_value, read_will, run_value, will_value

MOVED_BYTES = 64 << 20
"""Bytes of messages in a session that moves; with more, the client has to come back to its door."""


GHOST_TIME = 3.0
"""Seconds that a door collects messages for a session that has moved; the other door asks for them before."""


class Moving(Connecting):
    """Hands sessions over to other doors, and takes theirs."""

    def __init__(self, access: Access, random: Random, limits: Limits | None = None) -> None:
        """`random` draws client ids for clients that bring none."""
        super().__init__(access, random, limits)
        self._ghosts: dict[str, Session] = {}

    def taken(self, now: float, client_id: str, door: str) -> Any:
        """Hand over a session to another door: a JSON value. None if it is not here, a text if it cannot move."""
        session = self.sessions.get(client_id)
        if session is None or (session.client is None and session.expiry <= 0):
            return None
        if session.client is not None:
            former = session.client
            self.statistics["connections taken over"] += 1
            self.end(now, former, codes.SESSION_TAKEN_OVER, f"the client id connects at door {door}")
            self.lost(now, former)
            if client_id not in self.sessions:  # it ended with its connection
                return None
        value = self._session_value(now, session)
        if value is None:
            return "its queue is too long to move"
        self.drop_will(session)  # it goes, too, and is forgotten if the client is back there
        session.queued = 0  # they are not lost
        self._leave_ghost(now, session)
        self.end_session(now, session)
        self.statistics["sessions handed over"] += 1
        return value

    def _leave_ghost(self, now: float, session: Session) -> None:
        """Go on to collect what comes for a session that moves, until the other door gets it itself."""
        ghost = Session(session.client_id, self.limits.queue_messages, self.limits.queue_bytes)
        for one in session.subscriptions.values():
            if not one.is_shared:
                self.subscriptions.add(_subscription(ghost, one.filter, one.options))
        self._end_ghost(session.client_id)
        self._ghosts[session.client_id] = ghost
        self.at(now + GHOST_TIME, partial(self._forget_ghost, ghost))

    def _forget_ghost(self, ghost: Session, now: float) -> None:
        self._end_ghost(ghost.client_id, ghost)

    def _end_ghost(self, client_id: str, only: Session | None = None) -> Session | None:
        found = self._ghosts.get(client_id)
        if found is None or (only is not None and found is not only):
            return None
        for subscription in list(found.subscriptions.values()):
            self.subscriptions.remove(subscription)
        return self._ghosts.pop(client_id)

    def rest(self, now: float, client_id: str) -> Any:
        """Hand over what came for a session after it was taken, for `give_rest`; None if it was not taken here."""
        ghost = self._end_ghost(client_id)
        return None if ghost is None else _queue_value(ghost, self.wall_clock() - now)

    def awaits_rest(self, client_id: str) -> bool:
        """Whether a session is here that has moved, and what came at its former doors is still to come."""
        session = self.sessions.get(client_id)
        return session is not None and session.arrivals is not None

    def give_rest(self, now: float, client_id: str, *rests: Any) -> None:
        """Take what came at each former door of a session, without what came here or at another of them as well."""
        session = self.sessions.get(client_id)
        if session is None or session.arrivals is None:
            return
        known, session.arrivals = session.arrivals, None
        for values in rests:
            try:
                parcels = [_parcel(value, now - self.wall_clock()) for value in values or ()]
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                self.statistics["malformed sessions of other doors"] += 1
                continue
            arrivals = known.copy()
            for parcel in parcels:
                key = parcel.run.topic, parcel.run.payloads[0]
                if arrivals[key]:
                    arrivals[key] -= 1
                    continue
                known[key] += 1
                if not self.is_denied(session, parcel.run.topic):
                    self.put(now, session, parcel)

    def left_over(self, now: float, session: Session) -> list[Any] | None:
        """The messages that a session got before this process began, for `give_late`: its client is at another door.

        A message of QoS 2 that is under way is not part of it: the client may have it. None: too much to move.
        """
        if not session.is_kept or session.client is not None:
            return []
        if not self._gather(now, session):
            return None
        parcels = [parcel.part(place, place + 1) for parcel, place in session.inflight.values() if parcel.qos == 1]
        parcels += [parcel.part(place, place + 1) for parcel in session.queue for place in range(parcel.run.count)]
        to_unix = self.wall_clock() - now
        return [_value(parcel, to_unix) for parcel in parcels if parcel.run.offset < self.recovered_to]

    def give_late(self, now: float, client_id: str, values: list[Any]) -> bool:
        """Take what has waited for a client at a door that was dead; returns whether its session is here."""
        session = self.sessions.get(client_id)
        if session is None:
            return False
        if session.is_fresh or session.expiry <= 0:
            return True  # its client wanted to begin anew
        try:
            parcels = [_parcel(value, now - self.wall_clock()) for value in values]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self.statistics["malformed sessions of other doors"] += 1
            return False
        for parcel in parcels:
            if not self.is_denied(session, parcel.run.topic):
                self.put(now, session, parcel)
        self.tell(f"{len(parcels)} messages for {client_id!r} come from a door that was dead")
        return True

    def others(self, now: float) -> list[dict[str, Any]]:
        """The sessions at no door, as a table shows them; empty if another door shows them."""
        return []

    def _session_value(self, now: float, session: Session) -> Any:
        if not self._gather(now, session):
            return None
        to_unix = self.wall_clock() - now
        inflight = [
            [number, _value(parcel.part(place, place + 1), to_unix)]
            for number, (parcel, place) in session.inflight.items()
        ]
        waiting = {} if session.will is None else {"will": [will_value(session.will), session.will_at + to_unix]}
        return {
            "client": session.client_id,
            "epoch": session.epoch,
            "expiry": session.expiry,
            "subscriptions": [[one.filter, one.options] for one in session.subscriptions.values()],
            "inflight": inflight,
            "released": list(session.released),
            "received": list(session.received),
            "queue": _queue_value(session, to_unix),
            **waiting,
        }

    def _gather(self, now: float, session: Session) -> bool:
        """Read all that waits for a session from the log; returns False if that is too much."""
        if self.store is not None and session.is_kept:
            self.unshelve(now, session)
            while session.read_at is not None and session.queued_bytes <= MOVED_BYTES:
                before = session.read_at
                self._read_all(now, session)
                if session.read_at == before:
                    break
        if session.queued_bytes > MOVED_BYTES:
            if session.is_kept:
                self.shelve(session)
            return False
        return True

    def _read_all(self, now: float, session: Session) -> None:
        """Read on in the log behind what waits already."""
        waiting, session.queue = session.queue, type(session.queue)()
        self.catch_up(now, session)
        waiting.extend(session.queue)
        session.queue = waiting

    def retained_values(self, now: float) -> list[Any]:
        """The retained messages, without those of the system, as values for `give_retained`."""
        to_unix = self.wall_clock() - now
        return [run_value(run, to_unix) for run in self.retained if not run.topic.startswith("$")]

    def give_retained(self, now: float, values: list[Any]) -> None:
        """Take retained messages of another door, unless there are newer ones. Malformed ones are counted."""
        to_monotonic = now - self.wall_clock()
        for value in values:
            try:
                run = read_run_value(value, to_monotonic)
                check_topic_name(run.topic)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, codes.ProtocolError):
                self.statistics["malformed retained messages of other doors"] += 1
                continue
            own = self.retained.get(run.topic)
            if not run.topic.startswith("$") and (own is None or own.at < run.at):
                self.retain_at(run, run.at)
                self.remember(now, run, None)

    def give(self, now: float, value: Any) -> None:
        """Take over a session of another door before its client comes. A malformed one is counted and left out."""
        session = self.take_in(now, value)
        if session is not None:
            self.leave(now, session, now + session.expiry)

    def take_in(self, now: float, value: Any) -> Session | None:
        """Take over a session of another door, and return it. Its client is neither connected nor away yet.

        A malformed one is counted and left out.
        """
        to_monotonic = now - self.wall_clock()
        try:
            session = Session(value["client"], self.limits.queue_messages, self.limits.queue_bytes)
            if not isinstance(session.client_id, str):
                raise ValueError(f"client id {session.client_id!r}")
            session.epoch = int(value["epoch"])
            session.expiry = min(self.limits.session_expiry, float(value["expiry"]))
            subscriptions = [_subscription(session, *one) for one in value["subscriptions"]]
            inflight = {_id(number): _parcel(one, to_monotonic) for number, one in value["inflight"]}
            session.released = {_id(number): None for number in value["released"]}
            session.received = {_id(number) for number in value["received"]}
            queue = [_parcel(one, to_monotonic) for one in value["queue"]]
            if (waiting := value.get("will")) is not None:
                session.will, session.will_at = _will(waiting[0]), float(waiting[1]) + to_monotonic
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, codes.ProtocolError) as error:
            self.statistics["malformed sessions of other doors"] += 1
            self.warn(f"a session of another door is not understood: {error!r:.200}")
            return None
        self.highest_epoch = max(self.highest_epoch, session.epoch)
        self.sessions[session.client_id] = session
        store = self.store
        if store is not None:
            session.is_kept = True
            store.note("open", session.client_id, session.expiry, session.epoch)
            store.note("next", session.client_id, store.end)
            if session.will is not None:
                store.note("will", session.client_id, will_value(session.will))
        for subscription in subscriptions:
            subscription.since = self.stored_to
            self.subscriptions.add(subscription)
            self.note_event(session, "sub", subscription.filter, subscription.options, subscription.since)
        self.note_event(session, "in", list(session.received))
        for number in session.released:
            self.note_event(session, "rec", number)
        for number, parcel in inflight.items():
            kept = self._addressed(now, session, parcel, None) if session.is_kept else parcel
            session.inflight[number] = (kept, 0)
            if session.is_kept:
                self.note_sent(session, kept, (number,))
        taken = [*session.inflight, *session.released]
        session.next_id = max(taken) % LAST_ID + 1 if taken else 1
        for parcel in queue:
            session.enqueue(self._addressed(now, session, parcel, None) if session.is_kept else parcel)
        self.statistics["sessions taken from other doors"] += 1
        self.tell(f"the session of {session.client_id!r} comes from another door, with {session.queued} messages")
        return session


def _queue_value(session: Session, to_unix: float) -> list[Any]:
    return [
        _value(parcel.part(place, place + 1), to_unix) for parcel in session.queue for place in range(parcel.run.count)
    ]


def _value(parcel: Parcel, to_unix: float) -> Any:
    return [run_value(parcel.run, to_unix), parcel.qos, parcel.retain, list(parcel.identifiers)]


def _parcel(value: Any, to_monotonic: float) -> Parcel:
    run_part, qos, retain, identifiers = value
    run = read_run_value(run_part, to_monotonic)
    if qos not in (1, 2):
        raise ValueError(f"QoS {qos}")
    return Parcel(run, qos, bool(retain), [int(one) for one in identifiers])


def _subscription(session: Session, topic_filter: str, options: int) -> Subscription:
    check_filter(topic_filter)
    if options & 3 > 2:
        raise ValueError(f"QoS {options & 3}")
    return Subscription(
        session, topic_filter, options & 3, bool(options >> 2 & 1), bool(options >> 3 & 1), options >> 4
    )


def _will(value: Any) -> Will:
    will = read_will(value)
    if will is None or will.qos not in (0, 1, 2):
        raise ValueError(f"will {value!r:.80}")
    check_topic_name(will.topic)
    return will


def _id(number: Any) -> int:
    if not isinstance(number, int) or not 0 < number <= LAST_ID:
        raise ValueError(f"packet id {number!r}")
    return number
