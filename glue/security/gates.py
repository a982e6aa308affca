"""Two thin layers that enforce the rules, below and above topics.

The lower gate drops interests that a peer may not have, so nothing is sent there. The upper gate drops messages that a
publisher may not send. Both count refusals.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from math import inf
from typing import Any

from glue.contract import (
    CONSUMED,
    Delivery,
    Inbound,
    Options,
    Outbound,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Subscribe,
    Unsubscribe,
)
from glue.contract.counters import Counters
from glue.security.guard import DURABLE, REFUSED, TOPIC, Guard
from glue.security.layer import Sealing
from glue.security.protection import Protection


class Gate:
    """The common part of both gates: everything passes both ways, except what `_passes` refuses on its way up."""

    backlog = unfinished = 0
    deadline = inf

    def __init__(self, guard: Guard) -> None:
        self.statistics = Counters()
        self._guard = guard

    def fit(self, size: int) -> int:
        """Nothing is added."""
        return size

    def send(self, now: float, items: list[Any]) -> list[Any]:
        """All passes down."""
        return items

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        """Pass up what the rules allow."""
        return [kept for item in items if (kept := self._passed(item)) is not None], []

    def receive_one(self, now: float, item: Any) -> Any:
        """The item, if the rules allow it; see `glue.contract.fastpath`."""
        kept = self._passed(item)
        return CONSUMED if kept is None else kept

    def send_one(self, now: float, item: Any) -> Any:
        """The item, unchanged."""
        return item

    def session_part(self) -> None:
        """None: a session would pass the gates by."""

    def _passed(self, item: Any) -> Any | None:
        raise NotImplementedError


class InterestGate(Gate):
    """The gate below topics."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.protection: Any = None  # a `Protection`, set before use
        self._wanted: dict[str, dict[str, bool]] = {}  # by peer: each interest, and whether it passed
        self._changes = guard.changes

    @property
    def deadline(self) -> float:  # type: ignore[override]
        """At once when the rules have changed."""
        return inf if self._changes == self._guard.changes else -inf

    def send(self, now: float, items: list[Any]) -> list[Any]:
        """Pass all down; bundles of signed and private topics protected."""
        if self._guard.rules.has_marks:
            for item in items:
                if item.__class__ is Outbound:
                    self.protection.protect(now, item)
        return items

    def send_one(self, now: float, item: Any) -> Any:
        """The item, protected if its topic asks for it."""
        return self.send(now, [item])[0]

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        """Pass up what the rules allow; when they have changed, also what is allowed or refused since."""
        if self._changes != self._guard.changes:
            self.protection.forget()
        up: list[Any] = []
        for item in items:
            if item.__class__ is Inbound:
                up += self.protection.opened(item)
            elif (kept := self._passed(item)) is not None:
                up.append(kept)
        if self._changes != self._guard.changes:
            self._changes = self._guard.changes
            up += self._judged_again()
        return up, []

    def receive_one(self, now: float, item: Any) -> Any:
        """The item; None if it is news, if the rules have changed, or if some of several bundles are protected."""
        if self._changes != self._guard.changes:
            return None
        if item.__class__ is not Inbound:
            return super().receive_one(now, item)
        if not self._guard.rules.has_marks and not self.protection.is_protected(item):
            return item
        if len(item.bodies) > 1:
            return None
        found = self.protection.opened(item)
        return found[0] if found else CONSUMED

    def _passed(self, item: Any) -> Any | None:
        if item.__class__ is PeerInterest:
            return self._filtered(item)
        if item.__class__ is PeerAdded or item.__class__ is PeerRemoved:
            self.protection.forget(item.peer)
        if item.__class__ is PeerRemoved:
            self._wanted.pop(item.peer, None)
        return item

    def _filtered(self, item: PeerInterest) -> PeerInterest | None:
        wanted = self._wanted.setdefault(item.peer, {})
        removed = [pattern for pattern in item.removed if wanted.pop(pattern, False)]
        added = []
        for pattern in item.added:
            wanted[pattern] = self._guard.lets_hear(item.peer, pattern)
            if wanted[pattern]:
                added.append(pattern)
            else:
                self.statistics["refused: interest"] += 1
        return PeerInterest(item.peer, added, removed) if added or removed else None

    def _judged_again(self) -> list[PeerInterest]:
        news = []
        for peer, wanted in self._wanted.items():
            before = dict(wanted)
            wanted.update({pattern: self._guard.lets_hear(peer, pattern) for pattern in wanted})
            added = [pattern for pattern, passes in wanted.items() if passes and not before[pattern]]
            removed = [pattern for pattern, passes in wanted.items() if not passes and before[pattern]]
            if added or removed:
                news.append(PeerInterest(peer, added, removed))
        return news


class DeliveryGate(Gate):
    """The gate above topics. It also takes newer policies from the bus, and publishes its own for late joiners."""

    def __init__(self, guard: Guard, own_id: str) -> None:
        super().__init__(guard)
        self._own_id = own_id
        self._refused = REFUSED + own_id
        self._has_subscribed = False
        self._patterns: dict[Hashable, tuple[str, ...]] = {}  # of this endpoint's subscriptions, by token

    @property
    def deadline(self) -> float:  # type: ignore[override]
        """At once until it has subscribed, and if a refusal is to be told."""
        return -inf if not self._has_subscribed or self._guard.refusals else inf

    @property
    def guard(self) -> Guard:
        """The guard, for what the application itself may do."""
        return self._guard

    def send(self, now: float, items: list[Any]) -> list[Any]:
        """Pass everything down; subscriptions are noted."""
        for item in items:
            self._note(item)
        return items

    def send_one(self, now: float, item: Any) -> Any:
        """The item, unchanged; subscriptions are noted."""
        self._note(item)
        return item

    def _note(self, item: Any) -> None:
        if item.__class__ is Subscribe:
            self._patterns[item.token] = item.patterns
        elif item.__class__ is Unsubscribe:
            self._patterns.pop(item.token, None)

    def receive(self, now: float, items: list[Any]) -> tuple[list[Any], list[Any]]:
        """Pass up what the rules allow; a policy, and refusals to be told, go down."""
        down: list[Any] = []
        if not self._has_subscribed:
            self._has_subscribed = True
            down = [Subscribe(self, TOPIC, (), False), Subscribe((self, REFUSED), self._refused, (), False)]
            down += self._published()
        before = self._guard.changes
        up, _ = super().receive(now, items)
        if self._guard.changes != before:
            down += self._published()
            self._guard.recheck(dict.fromkeys(chain.from_iterable(self._patterns.values())))
        refusals, self._guard.refusals = self._guard.refusals, []
        down += [Publication(REFUSED + peer, [refusal.encode()], 0.0) for peer, refusal in refusals]
        return up, down

    def receive_one(self, now: float, item: Any) -> Any:
        """The item, if the rules allow it; None for a policy and for a refusal."""
        if self._guard.refusals or (item.__class__ is Delivery and item.topic in (TOPIC, self._refused)):
            return None
        return super().receive_one(now, item)

    def _published(self) -> list[Publication]:
        policy = self._guard.policy
        if policy is None:
            return []
        return [Publication(TOPIC, [policy.to_text().encode()], 0.0, options=Options(retain=True))]

    def _passed(self, item: Any) -> Any | None:
        if item.__class__ is Delivery and item.topic == TOPIC:
            for payload in item.payloads:
                if payload.__class__ is bytes and not self._guard.take(payload):
                    self.statistics["policy not taken"] += 1
            return None
        if item.__class__ is Delivery and item.topic == self._refused:
            self.statistics["refusals of others"] += len(item.payloads)
            for payload in item.payloads:
                if payload.__class__ is bytes:
                    self._guard.hear(item.publisher, payload)
            return None
        if item.__class__ is Delivery:
            sender = getattr(item, "via", item.publisher_id)  # of a will: not its owner
            if sender != self._own_id and not self._guard.lets_say(sender, item.topic):
                self.statistics["refused: message"] += len(item.payloads)
                return None
            if item.topic.startswith(DURABLE) and sender != self._own_id:
                allowed = [one for one in item.payloads if self._guard.lets_acknowledge(sender, one)]
                self.statistics["refused: message"] += len(item.payloads) - len(allowed)
                item.payloads = allowed
                return item if allowed else None
        return item


def guarded(who: Any, security: Sealing) -> tuple[InterestGate, DeliveryGate]:
    """Return the gates of an endpoint with an identity; `who` is its `glue.stack.Identity`."""
    secrets, own_id = who.secrets, who.endpoint_id
    guard = Guard(
        secrets.identity.certificate,
        secrets.key.authority,
        secrets.policy,
        security.members.get,
        who.tell or (lambda cause, address: None),
        secrets.on_policy or (lambda policy: None),
    )
    lower = InterestGate(guard)
    assert security.wrapper is not None
    lower.protection = Protection(guard, security.wrapper, own_id, who.incarnation, secrets.entropy, lower.statistics)
    return lower, DeliveryGate(guard, own_id)
