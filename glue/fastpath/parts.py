"""The parts of the layers, and of the network, that a session (`glue.fastpath.session`) calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from glue.contract import Address, Delivery, Partner

Numbers = tuple[Any, ...]
"""What a layer's groups of the pattern matched: bytes, mostly digits; None where an optional one did not."""


class SerializationPart(Protocol):
    """Headers and counters; a header begins with a group that tells the sender, b'"<id>",<incarnation>'."""

    def pattern(self, entry: bytes) -> bytes:
        """The regular expression of a header with this layer's entry and one more, matched by `entry`."""

    def write(self, entry: bytes, body: bytes) -> bytes:
        """The next datagram."""

    def commit(self, received: int, sent: int) -> None:
        """Count the datagrams of the session."""


class DiscoveryPart(Protocol):
    """The known peers."""

    @property
    def calm_until(self) -> float:
        """Until when (monotonic seconds) no other peer needs a datagram."""

    def find(self, id: str) -> Partner | None:
        """The peer of this id."""

    def commit(self, partner: Any, received_at: float) -> None:
        """Note when a peer was last received from."""


class ExchangePart(Protocol):
    """Transport's frames to and from one peer. `is_full`: whether nothing more may leave."""

    is_full: bool

    @property
    def waits_since(self) -> float:
        """Since when an answer is awaited; -inf: too little room for the frames of another `PERIOD`."""

    def take(self, now: float, numbers: Numbers) -> bool:
        """Take the frame with these numbers if it is the next; return whether it was. Else no state changes."""

    def write(self, now: float, body: bytes) -> bytes:
        """Number the next frame, with this body; return its header entry."""

    def commit(self) -> tuple[int, int]:
        """Complete the deferred work; return the frames received and sent. The exchange is not used afterwards."""


class TransportPart(Protocol):
    """All frames; `pattern` of their entry."""

    pattern: bytes

    def due(self, exchanges: Sequence[Any]) -> float:
        """When transport has work due that does not belong to these exchanges (monotonic seconds)."""

    def exchange(self, partner: Partner) -> ExchangePart | None:
        """The exchange of frames with a peer; None if frames have to take the ordinary way."""


class ReceiverPart(Protocol):
    """The receiver of one topic of one peer."""

    def read(self, numbers: Numbers, data: bytes, start: int) -> Delivery | None:
        """The next message, its payload being `data` from `start` on; None for any other. Changes no state."""

    def advance(self) -> None:
        """Expect the next message: the caller has taken this one."""

    def commit(self, now: float) -> None:
        """Complete the deferred work for the messages taken; `now` is when the last one arrived."""


class SenderPart(Protocol):
    """The sender of one topic with one receiving peer; `largest` is the payload limit in bytes."""

    peer: str
    largest: int

    def write(self, at: float, payload: bytes, json: bool) -> bytes:
        """Number and encode the next message, published `at` (Unix seconds): its index and payload."""

    def commit(self) -> None:
        """Complete the deferred work for the messages written."""


class TopicsPart(Protocol):
    """All topics; `pattern` matches the text before a payload, and its first group is the topic."""

    pattern: bytes

    def receiver(self, partner: Partner, topic: bytes) -> ReceiverPart | None:
        """One topic of a peer; None if it has to take the ordinary way."""

    def sender(self, topic: str, size: int) -> SenderPart | None:
        """A topic, for bodies of `size` bytes at most; None if it has to take the ordinary way."""


class PassivePart(Protocol):
    """A layer that lone messages only pass."""

    def largest_body(self) -> int:
        """The largest body (bytes) that the layer lets pass, 0 for none."""


class NetworkPart(Protocol):
    """The part of a network in a session, returned by its optional method `session_part`."""

    @property
    def is_eager(self) -> bool:
        """Whether answers come fast enough to justify polling, which occupies a core."""

    @property
    def source(self) -> Address:
        """The source address of the latest datagram of `glance`."""

    def glance(self, until: float) -> bytes | None:
        """Wait for a lone datagram of a peer until `until` (monotonic seconds); None if other work comes first.

        Only the thread that may `wait` calls this; another thread may `receive`. Anything else that arrives is received
        next, without a wait.
        """

    def keep(self, data: bytes) -> None:
        """Put back the latest datagram of `glance`, so that `receive` returns it next."""

    def take(self, data: bytes) -> None:
        """Mark the latest datagram of `glance` as taken."""

    def post(self, data: bytes, address: Address) -> None:
        """Send one datagram to a peer; a failure is counted."""

    def expect_answer(self) -> None:
        """Let the next `wait` end as soon as something can be received, whatever came before."""

    def commit(self) -> None:
        """Count the datagrams taken and posted."""
