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
        """The regular expression of a header with one more entry, of which that is the expression."""

    def write(self, entry: bytes, body: bytes) -> bytes:
        """The next datagram."""

    def commit(self, received: int, sent: int) -> None:
        """Count the datagrams of the session."""


class DiscoveryPart(Protocol):
    """The known peers."""

    @property
    def calm_until(self) -> float:
        """Before that (monotonic seconds) nothing is to be sent to any other peer."""

    def find(self, id: str) -> Partner | None:
        """The peer of this id."""

    def commit(self, partner: Any, received_at: float) -> None:
        """Note when a peer was last received from."""


class ExchangePart(Protocol):
    """Transport's frames to and from one peer. `is_full`: whether nothing more may leave."""

    is_full: bool

    @property
    def waits_since(self) -> float:
        """Since when anything waits for an answer; -inf: there is no room for what else may pass in `PERIOD`."""

    def take(self, now: float, numbers: Numbers) -> bool:
        """Take the frame with these numbers, if it is the next; else nothing was done."""

    def write(self, now: float, body: bytes) -> bytes:
        """The entry of the next frame, of this body."""

    def commit(self) -> tuple[int, int]:
        """Do the deferred work for all that passed; how many frames came and left. It is not used any more."""


class TransportPart(Protocol):
    """All frames; `pattern` of their entry."""

    pattern: bytes

    def due(self, exchanges: Sequence[Any]) -> float:
        """When anything is due to which none of these is an answer (monotonic seconds)."""

    def exchange(self, partner: Partner) -> ExchangePart | None:
        """What goes to and comes from a peer; None if that has to take the ordinary way."""


class ReceiverPart(Protocol):
    """What comes on one topic of one peer."""

    def read(self, numbers: Numbers, data: bytes, start: int) -> Delivery | None:
        """The message whose payload is the rest of the data, if it is the next; nothing was done yet."""

    def advance(self) -> None:
        """Go on to the next message: this one was taken."""

    def commit(self, now: float) -> None:
        """Do the deferred work for all that was taken, the last of it by then."""


class SenderPart(Protocol):
    """What goes on one topic that only one peer receives; `largest` is the largest payload (bytes)."""

    peer: str
    largest: int

    def write(self, at: float, payload: bytes, json: bool) -> bytes:
        """The next message, published `at` (Unix seconds): its index and payload."""

    def commit(self) -> None:
        """Do the deferred work for all that was written."""


class TopicsPart(Protocol):
    """All topics; `pattern`, the first group of which is the topic, of what stands before a payload."""

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
    """What a network offers, beside `glue.contract.Network`, by its method `session_part`."""

    @property
    def is_eager(self) -> bool:
        """Whether answers come so fast that it is worth a core to look for them again and again."""

    @property
    def source(self) -> Address:
        """Where the latest datagram of `glance` came from."""

    def glance(self, until: float) -> bytes | None:
        """The lone datagram that comes from a peer before that (monotonic seconds), if nothing else is to be done.

        For the thread that may `wait`, though another thread may `receive`. What else comes is received next, without
        a wait.
        """

    def keep(self, data: bytes) -> None:
        """Receive the latest datagram of `glance` next, after all."""

    def take(self, data: bytes) -> None:
        """Be done with the latest datagram of `glance`."""

    def post(self, data: bytes, address: Address) -> None:
        """Send one datagram to a peer; a failure is counted."""

    def commit(self) -> None:
        """Count what was taken and posted."""
