"""The way of a publication to its clients: routes, queues, and connections that take nothing more.

A run goes to a receiver as a whole. A connection that takes nothing holds the publishers of its messages of QoS 0 for a
moment. After that the connection is stuck: messages of QoS 0 to this client are dropped and counted, and the publishers
go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.persisting import Persisting
from glue.gateway.mqtt.session import Client, Parcel, Session, Subscription, is_expired
from glue.gateway.mqtt.stored import Kept
from glue.gateway.mqtt.subscriptions import SharedGroup, receivers

SHARE = 16
"""Messages of a run that a member of a shared subscription gets in one piece: few enough to spread, and enough to
write together."""

ARRIVALS = 100_000
"""Messages remembered of those that came since a session moved here, in 3 s; later ones may come twice."""


class Routing(Persisting):
    """Delivers messages to sessions."""

    def remember(self, now: float, run: Publish, sender: Client | None, ids: Sequence[int] = ()) -> None:
        """Store a run if it is retained, or if a session keeps it. `ids`: the packet ids of QoS 2."""
        if self.store is None or run.offset >= 0:
            return
        is_kept = run.retain or (
            run.qos > 0
            and any(isinstance(one, Subscription) and self.keeps(one) for one in self.subscriptions.match(run.topic))
        )
        session = None if sender is None else sender.session
        if is_kept:
            name = "" if session is None else session.client_id
            self.store.add(now, Kept(run, name, "", ids if session is not None and session.is_kept else ()))
        elif ids and session is not None:
            self.note_event(session, "in", list(ids))

    def route(self, now: float, run: Publish, sender: Client | None) -> bool:
        """Deliver a run to all subscribers of its topic; returns whether there is one."""
        holders = self.subscriptions.match(run.topic)
        session = None if sender is None else sender.session
        only = holders[0] if len(holders) == 1 else None
        if isinstance(only, Subscription):
            if not (only.no_local and only.session is session):
                self._give(now, run, [only], sender)
            return True
        for _, subscriptions in receivers(holders, session):
            self._give(now, run, subscriptions, sender)
        for holder in holders:
            if isinstance(holder, SharedGroup):
                self._share(now, run, holder, sender)
        return bool(holders)

    def _share(self, now: float, run: Publish, group: SharedGroup, sender: Client | None) -> None:
        members = group.members.values()
        denied = [one for one in members if one.is_narrowed and self.is_denied(one.session, run.topic)]
        piece = max(1, min(SHARE, run.count // len(members)))
        for start in range(0, run.count, piece):
            part = run.part(start, min(start + piece, run.count))
            member = group.choose(denied)
            if member is None:
                self._count_drop(now, "no member of the shared subscription", part.count)
            else:
                self._give(now, _alone(part) if self.keeps(member) else part, [member], sender)

    def _give(self, now: float, run: Publish, subscriptions: list[Subscription], sender: Client | None) -> None:
        """Deliver a run to a session, once, with the highest QoS of its subscriptions."""
        first = subscriptions[0]
        if first.is_narrowed and not first.is_shared and self.is_denied(first.session, run.topic):
            return
        qos, retain = first.qos, run.retain and first.retain_as_published
        identifiers: tuple[int, ...] = (first.identifier,) if first.identifier else ()
        if len(subscriptions) > 1:
            qos = max(one.qos for one in subscriptions)
            retain = run.retain and any(one.retain_as_published for one in subscriptions)
            identifiers = tuple(one.identifier for one in subscriptions if one.identifier)
        self.put(now, first.session, Parcel(run, min(qos, run.qos), retain, identifiers), sender)

    def put(self, now: float, session: Session, parcel: Parcel, sender: Client | None = None) -> None:
        """Send a run to a session, or let it wait there."""
        client = session.client
        if parcel.qos == 0:
            if client is None:
                return  # 3.1.1, section 4.3.1: QoS 0 is for connected clients
            self._send_once(now, client, parcel, sender)
            return
        if session.arrivals is not None and len(session.arrivals) < ARRIVALS:
            session.arrivals.update((parcel.run.topic, payload) for payload in parcel.run.payloads)
        if session.is_kept and parcel.run.offset < 0:
            parcel = self._addressed(now, session, parcel, sender)
        if client is not None and client.is_full:
            self._hold(client, sender)
        room = 0
        if client is not None and not session.queue and not client.is_full and session.read_at is None:
            room = min(client.inflight - session.under_way, parcel.run.count)
        if room > 0 and client is not None:
            part = parcel if room == parcel.run.count else parcel.part(0, room)
            self._send(now, client, part, session)
        else:
            room = 0
        if room < parcel.run.count:
            rest = parcel.part(room, parcel.run.count) if room else parcel
            lost = self.put_kept(now, session, rest) if session.is_kept else session.put(rest)
            if lost:
                self._count_drop(now, f"the queue of {session.client_id} is full", lost)
            if room:  # if messages were too large for the client, there is room again
                self.fill(now, session)

    def _addressed(self, now: float, session: Session, parcel: Parcel, sender: Client | None) -> Parcel:
        """Store a run for one session, of which other sessions get nothing: shared or retained messages."""
        assert self.store is not None
        run = _alone(parcel.run)
        run.qos, run.retain = parcel.qos, parcel.retain
        name = "" if sender is None else sender.name
        self.store.add(now, Kept(run, name, session.client_id, identifiers=parcel.identifiers))
        return Parcel(run, parcel.qos, parcel.retain, parcel.identifiers)

    def _send_once(self, now: float, client: Client, parcel: Parcel, sender: Client | None) -> None:
        if client.is_full:
            if client.is_stuck:
                client.dropped += parcel.run.count
                self._count_drop(now, f"{client.name} takes nothing", parcel.run.count)
                return
            self._hold(client, sender)
        left_out = client.send(parcel, (), now)
        self._count_sent(now, client, parcel.run.count - left_out, left_out)

    def _send(self, now: float, client: Client, parcel: Parcel, session: Session) -> None:
        self._send_numbered(now, client, parcel, session.number(parcel), session)

    def _send_numbered(self, now: float, client: Client, parcel: Parcel, ids: Sequence[int], session: Session) -> None:
        """Send messages that have packet ids; for QoS 2, these are durable before."""
        if session.is_kept:
            self.note_sent(session, parcel, ids)
            if parcel.qos == 2 and self.store is not None:
                self.store.then(partial(self._send_durable, client, parcel, ids, session))
                return
        left_out = client.send(parcel, ids, now)
        self._count_sent(now, client, parcel.run.count - left_out, left_out)

    def _send_durable(self, client: Client, parcel: Parcel, ids: Sequence[int], session: Session, now: float) -> None:
        if session.client is client and not client.is_closing:
            left_out = client.send(parcel, ids, now)
            self._count_sent(now, client, parcel.run.count - left_out, left_out)
            if left_out:
                self.fill(now, session)

    def _count_sent(self, now: float, client: Client, sent: int, left_out: int) -> None:
        self.changed[client] = None
        self.statistics["messages sent"] += sent
        if left_out:
            self._count_drop(now, f"larger than {client.name} takes", left_out)

    def _count_drop(self, now: float, cause: str, count: int) -> None:
        self.statistics["messages dropped"] += count
        self.refusals.tell(now, f"{count} messages dropped: {cause}", cause)

    def fill(self, now: float, session: Session) -> None:
        """Send what waits, as far as the client has room for it."""
        client = session.client
        while client is not None and not (client.is_full or client.is_resuming):
            room = client.inflight - session.under_way
            if room <= 0:
                return
            if not session.queue and session.read_at is not None:
                self.catch_up(now, session)
            if not session.queue:
                return
            for parcel, ids in session.take(now, room):
                self._send_numbered(now, client, parcel, ids, session)

    def keep_last(self, now: float, run: Publish) -> None:
        """Keep the last message of a run as the one of its topic, if it is to be retained and there is room."""
        if run.retain and not self.retain(run):
            self.statistics["retained messages refused"] += 1
            full = f"{self.limits.retained} topics are retained"
            self.refusals.tell(now, f"no room to retain {run.topic!r:.200}: {full}", full)

    def retain(self, run: Publish) -> bool:
        """Keep the last message of a run as the one of its topic; returns whether there was room."""
        return self.retain_at(run, self.wall_clock())

    def retain_at(self, run: Publish, at: float) -> bool:
        """Keep the last message of a run, published at a time of the wall clock; returns whether there was room."""
        last = run.part(run.count - 1, run.count)
        kept = Publish(run.topic, (last.payloads[-1],), run.qos, True, run.properties)
        kept.expires, kept.at = run.expires, at
        if not self.retained.put(kept):
            return False
        about = "retained", run.topic
        if kept.payloads[0] and kept.expires < float("inf"):
            self.at(kept.expires, partial(self._forget_retained, kept), about)
        else:
            self.call_off(about)
        return True

    def _forget_retained(self, kept: Publish, now: float) -> None:
        """Give the room of a retained message to others, as its lifetime is over."""
        self.call_off(("retained", kept.topic))
        if self.retained.get(kept.topic) is kept:
            self.retained.put(Publish(kept.topic, (b"",), 0, True))
            self.statistics["messages expired"] += 1

    # -------------------------------------------------------------------------- connections that are full

    def _hold(self, client: Client, sender: Client | None) -> None:
        """Let a publisher wait for a connection that takes nothing more; the shell reads no more of it meanwhile."""
        if sender is not None and sender is not client and not client.is_stuck and sender not in client.holds:
            client.holds.add(sender)
            sender.held += 1
            self.changed[sender] = None

    def full(self, now: float, client: Client) -> None:
        """Note that a connection takes nothing more."""
        client.is_full, client.full_since = True, now
        self.at(now + self.limits.stuck_after, lambda then: self._check_stuck(then, client))

    def _check_stuck(self, now: float, client: Client) -> None:
        if client.is_full and not client.is_stuck and client.full_since + self.limits.stuck_after <= now:
            client.is_stuck = True
            self.statistics["connections stuck"] += 1
            self.refusals.tell(
                now,
                f"{client.name} has taken nothing for {self.limits.stuck_after} s; its messages of QoS 0 are dropped",
            )
            self.release(client)

    def free(self, now: float, client: Client) -> None:
        """Note that a connection takes bytes again."""
        client.is_full = client.is_stuck = False
        self.release(client)
        if client.session is not None and client.session.client is client:
            self.fill(now, client.session)

    def release(self, client: Client) -> None:
        """Let the publishers go on that wait for a connection."""
        released, client.holds = client.holds, set()
        for one in released:
            one.held -= 1
            self.changed[one] = None

    def is_expired(self, now: float, run: Publish) -> bool:
        """Whether the lifetime of a message is over; counts it."""
        if is_expired(run, now):
            self.statistics["messages expired"] += run.count
            return True
        return False


def _alone(run: Publish) -> Publish:
    """A run of its own with the same messages."""
    found = Publish(run.topic, run.payloads, run.qos, run.retain, run.properties)
    found.expires = run.expires
    return found
