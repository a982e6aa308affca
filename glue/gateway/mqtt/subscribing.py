"""SUBSCRIBE and UNSUBSCRIBE, and the retained messages that a new subscription gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import V5
from glue.gateway.mqtt.identity import READ, WRITE
from glue.gateway.mqtt.packets import Publish, Subscribe, Unsubscribe, Wanted
from glue.gateway.mqtt.properties import Properties
from glue.gateway.mqtt.routing import Routing
from glue.gateway.mqtt.session import Client, Parcel, Session, Subscription
from glue.gateway.mqtt.subscriptions import SHARE

HIDDEN = {READ: "$glue/", WRITE: "$"}
"""The topics that no client may read or write: those of glue itself, and those of the broker, too."""

REASON = 1_000
"""Characters of a reason that clients are told."""


class Subscribing(Routing):
    """Changes subscriptions."""

    promises_subscriptions = False
    """Whether SUBACK and UNSUBACK of a kept session wait until the change is safe."""

    def _subscribe(self, now: float, client: Client, packet: Subscribe) -> None:
        session = client.session
        assert session is not None
        is_bridge = client.connect is not None and client.connect.is_bridge
        (identifier,) = packet.properties.get("subscription_identifier", [0])
        answers: list[int] = []
        replays: list[Subscription] = []
        reasons: dict[str, None] = {}
        for wanted in packet.wanted:
            code, reason = self._refusal(now, client, session, wanted)
            if code != codes.SUCCESS:
                answers.append(code)
                reasons[reason] = None
                continue
            no_local, as_published = wanted.no_local or is_bridge, wanted.retain_as_published or is_bridge
            subscription = Subscription(session, wanted.filter, wanted.qos, no_local, as_published, identifier)
            subscription.is_narrowed = self._narrows(client, wanted.filter)
            former = session.subscriptions.get(wanted.filter)
            is_new = self.subscriptions.add(subscription)
            if self.store is not None:
                subscription.since = self.store.end if former is None else former.since
                self.note_event(session, "sub", wanted.filter, subscription.options, subscription.since)
            answers.append(wanted.qos)
            if wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new):
                replays.append(subscription)
        is_promised = self.promises_subscriptions and session.is_kept
        answer = self.explained(client, "; ".join(reasons), partial(encoder.suback, client.version, packet.id, answers))
        self.promise(client, answer, is_promised)
        self.changed[client] = None
        for subscription in replays:
            self._replay(now, session, subscription)

    def _refusal(self, now: float, client: Client, session: Session, wanted: Wanted) -> tuple[int, str]:
        """Return why a topic filter cannot be subscribed to, also in words; SUCCESS if it can."""
        assert client.identity is not None
        is_new = wanted.filter not in session.subscriptions
        if is_new and len(session.subscriptions) >= self.limits.subscriptions:
            reason = f"{self.limits.subscriptions} subscriptions are the most of a session"
            self.refusals.tell(now, f"{client.name} may not subscribe to {wanted.filter!r:.200}: {reason}")
            return codes.QUOTA_EXCEEDED, reason
        if self.may(client, READ, wanted.filter):
            return codes.SUCCESS, ""
        return codes.NOT_AUTHORIZED, self.refuse(now, client, READ, wanted.filter)

    def may(self, client: Client, action: str, name: str) -> bool:
        """Whether a client may read a topic filter or write a topic."""
        identity, session = client.identity, client.session
        assert identity is not None
        assert session is not None
        if name.startswith(HIDDEN[action]):
            return False
        return self.access.authorize(identity, session.client_id, action, name)

    def _narrows(self, client: Client, name: str) -> bool:
        assert client.identity is not None
        assert client.session is not None
        return self.access.narrows(client.identity, client.session.client_id, name)

    def check_rights(self, now: float, client: Client) -> None:
        """End the subscriptions that a client may not have any more, and forget what waits of denied topics."""
        session = client.session
        assert session is not None
        for name, subscription in list(session.subscriptions.items()):
            subscription.is_narrowed = self._narrows(client, name)
            if not self.may(client, READ, name):
                self.subscriptions.remove(subscription)
                self.note_event(session, "unsub", name)
                self.refuse(now, client, READ, name)
        waiting: Counter[str] = Counter()
        for parcel in session.queue:
            waiting[parcel.run.topic] += parcel.run.count
        denied = set()
        for topic, count in waiting.items():
            if not self.may(client, READ, topic):
                self.refuse(now, client, READ, topic, count)
                denied.add(topic)
        if denied:
            session.withdraw(denied)

    def refuse(self, now: float, client: Client, action: str, name: str, count: int = 1) -> str:
        """Count and tell that a client may not do something; returns the rule."""
        identity, session = client.identity, client.session
        assert identity is not None
        assert session is not None
        self.statistics[f"refused to {action}"] += count
        if name.startswith(HIDDEN[action]):
            rule = f"no client may {action} topics below {HIDDEN[action]}"
        else:
            rule = self.access.refused_by(identity, session.client_id, action, name)
        who = f"{client.name} (user {identity.user or 'anonymous'})"
        self.refusals.tell(now, f"{who} may not {action} {name!r:.200}: {rule}")
        return rule

    def explained(self, client: Client, reason: str, answer: Callable[[Properties | None], bytes]) -> bytes:
        """An answer with a reason in words, if the client takes them (MQTT 5, 3.1.2.11.7)."""
        assert client.connect is not None
        if not reason or client.version != V5 or not client.connect.properties.get("request_problem_information", 1):
            return answer(None)
        found = answer({"reason_string": reason[:REASON]})
        return found if len(found) <= client.packet_size else answer(None)

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
        is_denied = subscription.is_narrowed and self.is_denied(session, message.topic)
        if not is_denied and not self.is_expired(now, message):
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
