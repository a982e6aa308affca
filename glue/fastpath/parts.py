"""The parts of the layers, and of the network, that a rally (`glue.fastpath.session`) calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from glue.contract import Address, Delivery, Partner

Numbers = tuple[Any, ...]
"""What a layer's groups of the pattern matched: bytes, mostly digits; None where an optional one did not."""


class Datagrams(Protocol):
    """Serialization's part.

    A header begins with a group that tells the sender, b'"<id>",<incarnation>'.
    """

    def pattern(self, entry: bytes) -> bytes:
        """The regular expression of a header with one more entry, of which that is the expression."""

    def write(self, entry: bytes, body: bytes) -> bytes:
        """The next datagram."""

    def book(self, heard: int, said: int) -> None:
        """So many datagrams came and left."""


class Partners(Protocol):
    """Discovery's part."""

    @property
    def calm_until(self) -> float:
        """Before that (monotonic seconds) nothing is to be said to anybody else."""

    def find(self, id: str) -> Partner | None:
        """The peer of this id."""

    def book(self, partner: Any, heard_at: float) -> None:
        """A peer was heard, at last then."""


class Exchange(Protocol):
    """Transport's part of what goes to, and comes from, one peer.

    `is_full`: whether nothing more may leave.
    """

    is_full: bool

    @property
    def waits_since(self) -> float:
        """Since when anything waits for an answer; -inf: there is no room for what else may pass in `PERIOD`."""

    def take(self, now: float, numbers: Numbers) -> bool:
        """Take the frame with these numbers, if it is the next; else nothing was done."""

    def write(self, now: float, body: bytes) -> bytes:
        """The entry of the next frame, of this body."""

    def book(self) -> tuple[int, int]:
        """Do the rest for all that passed; how many frames came and left. It is not used any more."""


class Frames(Protocol):
    """Transport's part; `pattern` of its entry."""

    pattern: bytes

    def due(self, exchanges: Sequence[Any]) -> float:
        """When anything is due to which none of these is an answer (monotonic seconds)."""

    def exchange(self, partner: Partner) -> Exchange | None:
        """What goes to and comes from a peer; None if that is out of the ordinary."""


class Hearing(Protocol):
    """Topics' part of one topic of one peer."""

    def read(self, numbers: Numbers, data: bytes, start: int) -> Delivery | None:
        """The message whose payload is the rest of the data, if it is the next; nothing was done yet."""

    def go_on(self) -> None:
        """It was taken."""

    def book(self, now: float) -> None:
        """Do the rest for all that was taken, the last of it by then."""


class Saying(Protocol):
    """Topics' part of one topic that only one peer hears; `largest` is the largest payload (bytes)."""

    peer: str
    largest: int

    def write(self, at: float, payload: bytes, json: bool) -> bytes:
        """The next message, published `at` (Unix seconds): its index and payload."""

    def book(self) -> None:
        """Do the rest for all that was written."""


class Streams(Protocol):
    """Topics' part; `pattern`, the first group of which is the topic, of what stands before a payload."""

    pattern: bytes

    def hearing(self, partner: Partner, topic: bytes) -> Hearing | None:
        """One topic of a peer, if nothing is out of the ordinary."""

    def saying(self, topic: str, size: int) -> Saying | None:
        """A topic, if nothing is out of the ordinary; `size`: of the largest body (bytes)."""


class Court(Protocol):
    """What a network offers, beside `glue.contract.Network`, by its method `rally`, if they are to be played there."""

    @property
    def is_eager(self) -> bool:
        """Whether answers come so fast that it is worth a core to look for them again and again."""

    @property
    def source(self) -> Address:
        """Where the latest came from that was glanced at."""

    def glance(self, until: float) -> bytes | None:
        """The lone datagram that comes from a peer before that (monotonic seconds), if nothing else is to be done.

        By who may `wait`, though another thread may `receive`. What else comes is received next, without a wait.
        """

    def keep(self, data: bytes) -> None:
        """What was glanced at last is received next, after all."""

    def take(self, data: bytes) -> None:
        """It is done with."""

    def post(self, data: bytes, address: Address) -> None:
        """Send one datagram to a peer; a failure is counted."""

    def settle(self) -> None:
        """Count what was taken and posted."""


Passage = Callable[[], int]
"""What a layer offers that has no part in lone messages: the largest body (bytes) that it lets pass, 0 for none."""
