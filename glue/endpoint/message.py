"""The objects that an application receives: messages, gaps between messages, and peers."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from glue.contract import Delivery, Missed
from glue.contract.frozen import Frozen
from glue.contract.metadata import NO_PROPERTIES
from glue.errors import ConfigurationError
from glue.topics.wrapped import SHARED

JSON_COST = 512  # estimated bytes of a decoded JSON payload that waits for its handler
MESSAGE_COST = 64  # estimated bytes of bookkeeping for any waiting message


class Message:
    """A message as it arrived.

    `payload` is bytes, or the decoded value if it was published as a JSON value or with a codec. `sequence` numbers the
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

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties given by the publisher; empty without. They cannot be changed."""
        metadata = getattr(self.delivery, "metadata", None)
        return NO_PROPERTIES if metadata is None or metadata.properties is None else metadata.properties

    @property
    def codec(self) -> str | None:
        """The name of the codec that decoded the payload; None for bytes and JSON."""
        metadata = getattr(self.delivery, "metadata", None)
        if metadata is None or metadata.codec is None:
            return None
        from glue.codecs import name_of_tag  # imported here: most messages are bytes or JSON

        return name_of_tag(metadata.codec)

    @property
    def encoded(self) -> bytes | None:
        """The payload as it travelled, if a codec decoded it; else None."""
        encoded = getattr(self.delivery, "encoded", None)
        return None if encoded is None else bytes(encoded[self.sequence - self.delivery.sequence])

    @property
    def redelivered(self) -> bool:
        """Whether another member of the group may have handled it before: it left without an acknowledgement."""
        wrapped = getattr(self.delivery, "wrapped", "")
        return wrapped.startswith(SHARED) and wrapped.split("/", 5)[4] == "1"

    def acknowledge(self) -> None:
        """Mark this message as done, so that it never comes again; for messages of a durable consumer.

        Raises ConfigurationError for any other message.
        """
        raise ConfigurationError("message.acknowledge(): only a subscription with consumer=… acknowledges by hand")

    def refuse(self) -> None:
        """Have this message come again later; for messages of a durable consumer. Raises ConfigurationError."""
        raise ConfigurationError("message.refuse(): only a subscription with consumer=… gets a message again")

    def expired(self, now: float) -> bool:
        """Whether the message's lifespan is over at `now` (monotonic seconds, or virtual ones in the simulator)."""
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
    """Return the part of a delivery from a sequence number on; it may have no payloads."""
    it = delivery
    payloads = it.payloads[sequence - it.sequence :]
    source = (it.type, it.publisher, it.publisher_id, it.incarnation)
    part = Delivery(
        it.topic, payloads, *source, sequence, it.published_at, it.retained, it.tokens, it.expires, it.length
    )
    if hasattr(it, "wrapped"):
        part.wrapped = it.wrapped
    if (metadata := getattr(it, "metadata", None)) is not None:
        part.metadata = metadata
    if (encoded := getattr(it, "encoded", None)) is not None:
        part.encoded = encoded[sequence - it.sequence :]
    return part


def weight(message: Message) -> int:
    """Return the estimated bytes that one waiting message takes."""
    length = message.delivery.length
    if length is not None:
        return length + MESSAGE_COST
    payload = message.payload
    return len(payload) + MESSAGE_COST if payload.__class__ is bytes else JSON_COST


def delivery_weight(delivery: Delivery) -> int:
    """Estimate the bytes of a delivery while it waits for one subscription."""
    payloads, length = delivery.payloads, delivery.length
    if length is not None:
        return (length + MESSAGE_COST) * len(payloads)
    if payloads and payloads[0].__class__ is bytes:
        return sum(map(len, payloads)) + MESSAGE_COST * len(payloads)
    return JSON_COST * len(payloads)


class Gap(Frozen):
    """Messages that a subscription will not get; reported before the next message."""

    cause: str
    """"overwritten", "refused" or "disconnected" by the policy, or the cause of the loss (see docs/delivery.md)."""
    count: int
    pattern: str
    """The pattern of the subscription."""
    topic: str
    """The topic of the messages; empty for several topics."""
    publisher: str
    """Its name; empty if they are of several."""
    publisher_id: str
    """Its endpoint id; likewise."""

    @classmethod
    def of(cls, missed: Missed, pattern: str) -> Gap:
        """As the subscription to this pattern sees it."""
        return cls(missed.cause, missed.count, pattern, missed.topic, missed.publisher, missed.publisher_id)


class Peer(Frozen):
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
