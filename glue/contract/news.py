"""News: what a layer tells those above it, up to the application: of peers, of messages, of losses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from glue.contract.items import Address


class Delivery:
    """Messages of one topic from one publisher, for the application.

    `payloads` are bytes or decoded JSON values; their sequence numbers count up from `sequence`.
    `tokens` are those of the subscriptions that match (see `Subscribe`). `published_at` is the publisher's wall
    clock (Unix seconds) at the first. `retained`: a stored value for a late joiner, not a live message. After
    `expires` (monotonic seconds) it is not to be handed over. `length` is that of each payload; None: not known, or
    they differ, or are not bytes. Payloads may be made as one goes through them.

    `age` is how long they were under way, as far as their sender and receiver know (seconds). It is set only if it is
    not 0, so that a delivery costs no more for it: `getattr(delivery, "age", 0.0)`.
    """

    age: float
    __slots__ = (
        "age", "expires", "incarnation", "length", "payloads", "published_at", "publisher", "publisher_id", "retained",
        "sequence", "tokens", "topic", "type",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        payloads: Sequence[Any],
        type: str | None,
        publisher: str,
        publisher_id: str,
        incarnation: int,
        sequence: int,
        published_at: float,
        retained: bool,
        tokens: Sequence[Hashable],
        expires: float = float("inf"),
        length: int | None = None,
    ) -> None:
        self.expires = expires
        self.length = length
        self.topic = topic
        self.payloads = payloads
        self.type = type
        self.publisher = publisher
        self.publisher_id = publisher_id
        self.incarnation = incarnation
        self.sequence = sequence
        self.published_at = published_at
        self.retained = retained
        self.tokens = tokens

    def own(self) -> list[Any]:
        """`payloads` as objects that stay, for who keeps some of its messages: these hold on to all of it."""
        if self.payloads.__class__ is not list:
            self.payloads = [*self.payloads]
        return self.payloads


class Missed:
    """Topics: `count` messages of a publisher on a topic will not come to these subscriptions, for this cause."""

    __slots__ = ("cause", "count", "publisher", "publisher_id", "tokens", "topic")

    def __init__(
        self, topic: str, publisher: str, publisher_id: str, count: int, cause: str, tokens: Sequence[Hashable]
    ) -> None:
        self.topic = topic
        self.publisher = publisher
        self.publisher_id = publisher_id
        self.count = count
        self.cause = cause
        self.tokens = tokens


class Undelivered:
    """Transport: `count` messages to a peer were given up, for this cause ("peer removed", "expired", ...)."""

    __slots__ = ("cause", "count", "peer")

    def __init__(self, peer: str, count: int, cause: str) -> None:
        self.peer = peer
        self.count = count
        self.cause = cause


class Gap:
    """Transport: `count` frames that a peer sent to this endpoint will not come, for this cause."""

    __slots__ = ("cause", "count", "peer")

    def __init__(self, peer: str, count: int, cause: str) -> None:
        self.peer = peer
        self.count = count
        self.cause = cause


class Addressed:
    """Topics: a publication with a receipt went to these peers, each of which will be heard of."""

    __slots__ = ("peers", "receipt")

    def __init__(self, receipt: Hashable, peers: Sequence[str]) -> None:
        self.receipt = receipt
        self.peers = peers


class Receipted:
    """Transport: a peer has acknowledged a publication with a receipt; or, if there is a cause, never will."""

    __slots__ = ("cause", "peer", "receipt")

    def __init__(self, receipt: Hashable, peer: str, cause: str = "") -> None:
        self.receipt = receipt
        self.peer = peer
        self.cause = cause


class FirstRoundOver:
    """Discovery: the first round is over: peers that answer at once are known, with their interests.

    Late answers may come until `until` (monotonic seconds).
    """

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until


# ------------------------------------------------------------------------------------------------ peers


class PeerAdded:
    """Discovery: a peer is there; `restarted` if another life (incarnation) of it was known just before."""

    __slots__ = ("address", "incarnation", "name", "peer", "restarted")

    def __init__(self, peer: str, incarnation: int, name: str, address: Address, restarted: bool = False) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.name = name
        self.address = address
        self.restarted = restarted


class PeerRemoved:
    """Discovery: a peer's life is over. `reason`: "goodbye", "expired", "evicted" or "restarted" (another follows)."""

    __slots__ = ("incarnation", "name", "peer", "reason")

    def __init__(self, peer: str, incarnation: int, name: str, reason: str) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.name = name
        self.reason = reason


class PeerInterest:
    """Discovery: what a peer wants to hear has changed, by these interests (topic patterns)."""

    __slots__ = ("added", "peer", "removed")

    def __init__(self, peer: str, added: Sequence[str], removed: Sequence[str]) -> None:
        self.peer = peer
        self.added = added
        self.removed = removed


class NameClash:
    """Discovery: another live endpoint uses this endpoint's id (so most likely its name), from `address`."""

    __slots__ = ("address", "incarnation", "name")

    def __init__(self, name: str, incarnation: int, address: Address) -> None:
        self.name = name
        self.incarnation = incarnation
        self.address = address


News = PeerAdded | PeerRemoved | PeerInterest | FirstRoundOver | NameClash | Undelivered | Gap | Addressed | Receipted
Event = Delivery | Missed | News
"""What a stack hands to the application."""
