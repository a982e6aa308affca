"""The publications of a cluster: messages of QoS 1 and 2 go through the log, and every door delivers them from there.

A message is delivered by every door once it is committed, in the order of the log, and acknowledged then. Messages of
QoS 0 go from door to door as between all endpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from glue.gateway.mqtt import codes
from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.cluster.keys import Entry, fits, mark
from glue.gateway.mqtt.cluster.shared import LARGEST, Shared
from glue.gateway.mqtt.codes import ProtocolError
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.packets import Publish
from glue.gateway.mqtt.session import Client, Parcel, Session, Subscription
from glue.gateway.mqtt.subscriptions import receivers

NO_MAJORITY = "no majority of the doors is in reach"

TOO_LARGE = "larger than what the cluster keeps"

EARLY = 1 << 20
"""Bytes that wait until a door that comes has found the cluster."""


class Delivering(Broker):
    """A broker that proposes what it may acknowledge only when it is safe."""

    promises_subscriptions = True

    def __init__(self, access: Access, random: Random, shared: Shared, limits: Limits | None = None) -> None:
        """`random` draws client ids for clients that bring none."""
        super().__init__(access, random, limits)
        self.shared = shared
        self.store = shared
        shared.retained_limit = self.limits.retained
        self.wall_clock = shared.wall_clock
        self.is_chosen = False
        """Whether this door stores what endpoints publish, and clears the log."""
        self.has_joined = False
        """Whether this door has seen the cluster."""

    @property
    def stored_to(self) -> int:
        """Has grown if something is to be committed."""
        return self.shared.noted

    def joined(self, now: float) -> None:
        """Note that the door sees the cluster now; clients that came before get what is retained there."""
        self.has_joined = True
        early = [one for session in self.sessions.values() for one in session.subscriptions.values() if one.is_early]
        for subscription in early:
            subscription.is_early = False
            for message in self.retained.find(subscription.filter):
                self._give_retained(now, subscription.session, subscription, message)

    def _replay(self, now: float, session: Session, subscription: Subscription) -> None:
        super()._replay(now, session, subscription)
        subscription.is_early = not (self.has_joined or subscription.is_shared)

    # ---------------------------------------------------------------------------------------- publications

    def _publish(self, now: float, client: Client, run: Publish) -> None:
        if run.qos and max(map(len, run.payloads)) > LARGEST:
            raise ProtocolError(codes.PACKET_TOO_LARGE, f"a message of more than {LARGEST} bytes in a cluster")
        if run.qos and not self.shared.is_ready:
            self.end(now, client, codes.SERVER_BUSY, NO_MAJORITY)
            return
        super()._publish(now, client, run)

    def publish(self, now: float, run: Publish, sender: Client | None, ids: Sequence[int] = ()) -> None:
        """Propose a run of QoS 1 or 2, which is delivered once it is committed; deliver one of QoS 0 at once."""
        if run.qos and sender is not None and not fits(run, sender.name):
            raise ProtocolError(codes.PACKET_TOO_LARGE, f"a message {TOO_LARGE}")
        if sender is not None and self.watchers:
            self.note_publish(sender.name, run)
        if run.qos:
            name = "" if sender is None or sender.session is None else sender.session.client_id
            is_kept = sender is not None and sender.session is not None and sender.session.is_kept
            self.shared.offer(now, Entry(run, name), ids if is_kept else ())
            return
        if run.retain:
            reason = "" if fits(run) else TOO_LARGE
            if reason or not self._may_wait():
                self.statistics["retained messages refused"] += 1
                told = f"{run.topic!r:.200} is delivered and not retained: {reason or NO_MAJORITY}"
                self.refusals.tell(now, told, "not retained")
            else:
                self.shared.retain(now, run)
        self.route(now, run, sender)
        self.published.append(run)

    def remember(self, now: float, run: Publish, sender: Client | None, ids: Sequence[int] = ()) -> None:
        """Do nothing: what is to be kept was proposed."""

    def deliver(self, now: float, run: Publish) -> None:
        """Deliver a run that an endpoint published; sessions that stay get it from the log, if it has QoS 1 or 2."""
        self.keep_last(now, run)
        self.route(now, run, None)
        if run.qos and self.is_chosen and self.shared.replica.wanting(run.topic):
            if self._may_wait():
                self._offer(now, Entry(run, is_for_kept=True))
            else:
                self._count_drop(now, "too much waits for the cluster, or it has no majority", run.count)

    def _may_wait(self) -> bool:
        """Whether the cluster may still get what holds up no client: never more waits for it than it takes at a time.

        Without a majority nothing waits, as nobody knows how long; only a door that comes has a little time for it.
        """
        if self.shared.is_ready:
            return not self.shared.is_full
        return not self.has_joined and self.shared.size < EARLY

    def _give(self, now: float, run: Publish, subscriptions: list[Subscription], sender: Client | None) -> None:
        first = subscriptions[0]
        is_from_log = run.qos > 0 and first.session.is_kept and any(one.qos for one in subscriptions)
        if is_from_log and run.offset < 0 and not first.is_shared:
            return
        super()._give(now, run, subscriptions, sender)

    def put(self, now: float, session: Session, parcel: Parcel, sender: Client | None = None) -> None:
        """Send a run to a session; what only this one gets goes through the log first, if the session stays."""
        run = parcel.run
        if session.is_kept and parcel.qos and run.offset < 0:
            alone = Publish(run.topic, run.payloads, parcel.qos, parcel.retain, run.properties)
            alone.expires = run.expires
            name = "" if sender is None else sender.name
            self._offer(now, Entry(alone, name, session.client_id, parcel.identifiers))
            return
        super().put(now, session, parcel, sender)

    def _offer(self, now: float, entry: Entry) -> None:
        """Propose a run that holds up no client, without messages that are too large."""
        run = entry.run
        if fits(run, entry.sender, entry.to):
            self.shared.offer(now, entry)
        elif run.count == 1:
            self._count_drop(now, TOO_LARGE, 1)
        else:
            for place in range(run.count):
                part = run.part(place, place + 1)
                self._offer(now, Entry(part, entry.sender, entry.to, entry.identifiers, entry.is_for_kept))

    def arrived(self, now: float, entry: Entry) -> None:
        """Deliver a run that is committed."""
        run = entry.run
        if entry.to:
            session = self.sessions.get(entry.to)
            if session is not None and session.is_kept:
                self.put(now, session, Parcel(run, run.qos, run.retain, entry.identifiers))
            return
        author = self.sessions.get(entry.sender) if entry.sender else None
        if entry.is_for_kept:
            for session, subscriptions in receivers(self.subscriptions.match(run.topic), author):
                if session.is_kept:
                    self._give(now, run, subscriptions, None)
            return
        self.route(now, run, None if author is None else author.client)
        if entry.door == self.shared.door and self.shared.is_own(entry):
            self.published.append(run)

    def replay_from_network(self, now: float, subscription: Subscription, message: Publish, at: float) -> None:
        """Give a retained message of an endpoint to a new subscription; the cluster knows those of clients itself."""
        if mark(message.topic) not in self.shared.replica.retained:
            super().replay_from_network(now, subscription, message, at)
