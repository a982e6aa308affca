"""What an application sees: a message, a gap between messages, and a peer."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glue.contract import Delivery, Missed

JSON_COST = 512  # bytes that a decoded JSON payload is taken to weigh while it waits for its handler
MESSAGE_COST = 64  # bytes of bookkeeping that any waiting message is taken to weigh


class Message:
    """One message as it arrived.

    `payload` is bytes, or the decoded value if it was published as a JSON value. `sequence` numbers the
    messages of this publisher on this topic, from 1.
    """

    __slots__ = ("delivery", "payload", "sequence")

    def __init__(self, payload: Any, sequence: int, delivery: Delivery) -> None:
        self.payload = payload
        self.sequence = sequence
        self.delivery = delivery

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self.delivery.topic

    @property
    def type(self) -> str | None:
        """The type tag given by the publisher, if any."""
        return self.delivery.type

    @property
    def publisher(self) -> str:
        """The publisher's name."""
        return self.delivery.publisher

    @property
    def publisher_id(self) -> str:
        """The publisher's endpoint id, 16 hex digits."""
        return self.delivery.publisher_id

    @property
    def incarnation(self) -> int:
        """Which life of the publisher it came from; another number after each restart."""
        return self.delivery.incarnation

    @property
    def published_at(self) -> float:
        """The publisher's wall clock (Unix seconds) at publishing, or at that of the first of its batch."""
        return self.delivery.published_at

    @property
    def retained(self) -> bool:
        """Whether it is a stored value, given to a late joiner, rather than a live message."""
        return self.delivery.retained

    def expired(self, now: float) -> bool:
        """Whether its lifespan is over, by the clock of whoever drives the endpoint (monotonic seconds)."""
        return self.delivery.expires < now

    def __repr__(self) -> str:
        payload = self.payload
        shown = f"{payload[:80]!r:.80}" if isinstance(payload, (bytes, str)) else reprlib.repr(payload)
        return f"<Message {self.topic} #{self.sequence} from {self.publisher}: {shown}>"


def messages(delivery: Delivery) -> Iterator[Message]:
    """The messages of a delivery, in order."""
    for sequence, payload in enumerate(delivery.to_owned(), delivery.sequence):
        yield Message(payload, sequence, delivery)


def rest(delivery: Delivery, sequence: int) -> Delivery:
    """What of a delivery begins with that number; there may be nothing."""
    it = delivery
    payloads = it.payloads[sequence - it.sequence :]
    source = (it.type, it.publisher, it.publisher_id, it.incarnation)
    return Delivery(it.topic, payloads, *source, sequence, it.published_at, it.retained, it.tokens, it.expires)


def weight(payload: Any) -> int:
    """Bytes that one message is taken to weigh while it waits."""
    return len(payload) + MESSAGE_COST if payload.__class__ is bytes else JSON_COST


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that a subscription will not get; told before the one that follows them."""

    cause: str
    """"overwritten", "refused" or "disconnected" by its policy; or what kept them from coming (docs/delivery.md)."""
    count: int
    pattern: str
    """Of the subscription."""
    topic: str
    """Their topic; empty if they are of several."""
    publisher: str
    """Its name; empty if they are of several."""
    publisher_id: str
    """Its endpoint id; likewise."""

    @classmethod
    def of(cls, missed: Missed, pattern: str) -> Gap:
        """As the subscription to this pattern sees it."""
        return cls(missed.cause, missed.count, pattern, missed.topic, missed.publisher, missed.publisher_id)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another endpoint on the network."""

    name: str
    id: str
    incarnation: int
    address: tuple[Any, ...]
    """Where it is reached: host and port (and for IPv6, flow and scope)."""
    restarted: bool = False
    """Whether an earlier life of it was known just before."""
    reason: str = ""
    """Why it is gone, in `on_peer_removed`: "goodbye", "expired", "restarted" or "evicted"."""
