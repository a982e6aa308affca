"""SUBSCRIBE and UNSUBSCRIBE, and the retained messages that a new subscription gets."""

from __future__ import annotations

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.identity import READ
from glue.gateway.mqtt.packets import Publish, Subscribe, Unsubscribe, Wanted
from glue.gateway.mqtt.routing import Routing
from glue.gateway.mqtt.session import Client, Parcel, Session, Subscription
from glue.gateway.mqtt.subscriptions import SHARE


class Subscribing(Routing):
    """Changes subscriptions."""

    promises_subscriptions = False
    """Whether SUBACK and UNSUBACK of a kept session wait until the change is safe."""

    def _subscribe(self, now: float, client: Client, packet: Subscribe) -> None:
        session = client.session
        assert session is not None
        is_bridge = client.connect is not None and client.connect.is_bridge
        (identifier,) = packet.properties.get("subscription_identifier", [0])
        answers, replays = [], []
        for wanted in packet.wanted:
            code = self._refusal(client, session, wanted)
            if code != codes.SUCCESS:
                answers.append(code)
                continue
            no_local, as_published = wanted.no_local or is_bridge, wanted.retain_as_published or is_bridge
            subscription = Subscription(session, wanted.filter, wanted.qos, no_local, as_published, identifier)
            former = session.subscriptions.get(wanted.filter)
            is_new = self.subscriptions.add(subscription)
            if self.store is not None:
                subscription.since = self.store.end if former is None else former.since
                self.note_event(session, "sub", wanted.filter, subscription.options, subscription.since)
            answers.append(wanted.qos)
            if wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new):
                replays.append(subscription)
        is_promised = self.promises_subscriptions and session.is_kept
        self.promise(client, encoder.suback(client.version, packet.id, answers), is_promised)
        self.changed[client] = None
        for subscription in replays:
            self._replay(now, session, subscription)

    def _refusal(self, client: Client, session: Session, wanted: Wanted) -> int:
        """Return why a topic filter cannot be subscribed to; SUCCESS if it can."""
        assert client.identity is not None
        is_new = wanted.filter not in session.subscriptions
        if is_new and len(session.subscriptions) >= self.limits.subscriptions:
            self.warn(f"{client.name} has {self.limits.subscriptions} subscriptions, the most of a session")
            return codes.QUOTA_EXCEEDED
        hidden = wanted.filter.startswith("$glue/")
        if hidden or not self.access.authorize(client.identity, session.client_id, READ, wanted.filter):
            self.count_refusal(client, READ, wanted.filter)
            return codes.NOT_AUTHORIZED
        return codes.SUCCESS

    def count_refusal(self, client: Client, action: str, name: str, count: int = 1) -> None:
        """Count and log that a client may not do something."""
        self.statistics[f"refused to {action}"] += count
        user = client.identity.user if client.identity is not None else ""
        self.warn(f"{client.name} (user {user or 'anonymous'}) may not {action} {name!r}")

    def _replay(self, now: float, session: Session, subscription: Subscription) -> None:
        """Send the retained messages that match a new subscription; shared ones get none (MQTT 5, 4.8.2)."""
        if subscription.filter.startswith(SHARE):
            return
        for message in self.retained.find(subscription.filter):
            self._give_retained(now, session, subscription, message)
        self.fresh.append(subscription)

    def replay_from_network(self, now: float, subscription: Subscription, message: Publish, at: float) -> None:
        """Give a new subscription a retained message of another endpoint, published at `at` (wall clock, seconds).

        One that is older than a retained message of a client of this broker, on the same topic, is outdated.
        """
        session = subscription.session
        own = self.retained.get(message.topic)
        is_current = session.subscriptions.get(subscription.filter) is subscription
        if is_current and (own is None or own.at < at):
            self._give_retained(now, session, subscription, message)

    def _give_retained(self, now: float, session: Session, subscription: Subscription, message: Publish) -> None:
        """Send a retained message to a new subscription."""
        if not self.is_expired(now, message):
            identifiers = (subscription.identifier,) if subscription.identifier else ()
            self.put(now, session, Parcel(message, min(subscription.qos, message.qos), True, identifiers))

    def _unsubscribe(self, now: float, client: Client, packet: Unsubscribe) -> None:
        session = client.session
        assert session is not None
        answers = []
        for name in packet.filters:
            found = session.subscriptions.get(name)
            if found is not None:
                self.subscriptions.remove(found)
                self.note_event(session, "unsub", name)
            answers.append(codes.SUCCESS if found is not None else codes.NO_SUBSCRIPTION_EXISTED)
        is_promised = self.promises_subscriptions and session.is_kept
        self.promise(client, encoder.unsuback(client.version, packet.id, answers), is_promised)
        self.changed[client] = None
