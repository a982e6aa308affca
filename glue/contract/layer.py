"""What the layers say to each other: the items that travel, and the shape of a layer.

Every layer but network is a pure state machine. It owns no clock, no socket, no thread and no global
randomness: `now` (monotonic seconds) is an argument, randomness an injected `random.Random`. So the same
code runs on real sockets, in the simulator's virtual time and in the replay of a capture.

Items travel in lists, never one by one, and a whole *run* of frames is one item, so that a layer's work is
per batch rather than per datagram:

    direction   below serialization   up to fragmentation   topics and above
    up          Train                 Inbound, news         Inbound, news; then Delivery, Missed, news
    down        Train                 Outbound, orders      Publication, Subscribe, ...; then Outbound, orders

*News* (a peer came or went, an interest changed, something was lost) travels up between the data, *orders* (announce
this interest, stop accepting) travel down between the data. A layer passes on, unchanged and in their place, the news
and orders that are not its own. Bare numbers are seconds or bytes. Peers are named by endpoint id (16 hex digits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from glue.contract.items import Address, Inbound, Outbound, Train
from glue.contract.news import News
from glue.contract.requests import Order

Upward = Inbound | News
Downward = Outbound | Order

BelowUp = TypeVar("BelowUp")
AboveUp = TypeVar("AboveUp")
AboveDown = TypeVar("AboveDown")
BelowDown = TypeVar("BelowDown")


class Layer(Protocol[BelowUp, AboveUp, AboveDown, BelowDown]):
    """One layer of the stack: items in, items out, and when to be called next."""

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without items (monotonic seconds, `inf`: no timer is armed)."""

    @property
    def backlog(self) -> int:
        """Bytes of data taken from above that this layer still holds because they are not done with."""

    @property
    def unfinished(self) -> int:
        """Reliable messages on their way, once for each receiver, those too that count in no `backlog`.

        `Endpoint.flush` waits until backlog and this are 0 in all layers.
        """

    @property
    def statistics(self) -> Counter[str]:
        """What happened so far, by cause; every refusal and drop is counted here."""

    def commit(self) -> None:
        """Do the work that `receive` and the fast path deferred, because no message waits for it.

        Called after each turn, at the latest once what came up has been answered, and always before `deadline`,
        `backlog` and `unfinished` are read: these change nothing.
        """

    def fit(self, size: int) -> int:
        """Told the largest frame (bytes) the layer below takes, return the largest body this one takes."""

    def receive(self, now: float, items: list[BelowUp]) -> tuple[list[AboveUp], list[BelowDown]]:
        """Take items from below; return what goes up and what goes back down.

        Also called with no items once `deadline` has passed. Never raises for what a peer sent.
        """

    def send(self, now: float, items: list[AboveDown]) -> list[BelowDown]:
        """Take items from above; return what goes down now. Deliveries to oneself wait for `receive`."""


class Topics(Protocol):
    """What the topics layer offers beside `Layer`, to those who ask about routes."""

    def subscribers(self, topic: str) -> Sequence[str]:
        """Ids of the peers whose announced interests match `topic`."""


class Network(Protocol):
    """The bottom of the stack: datagrams in and out. Not a `Layer`: it is the one that touches the world."""

    @property
    def statistics(self) -> Counter[str]:
        """What happened so far, by cause."""

    @property
    def datagram_size(self) -> int:
        """The largest datagram (UDP payload bytes) that leaves without IP fragmentation."""

    @property
    def unicast_address(self) -> Address:
        """Where this endpoint is reached, as far as it knows itself."""

    def filenos(self) -> Sequence[int]:
        """File descriptors that become readable when there is something to receive (for asyncio)."""

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        """Block until something can be received, `wake` was called, or `timeout` seconds passed.

        `patient`: no answer is expected at once, so no core is kept busy with looking again and again.
        """

    def wake(self) -> None:
        """Make a `wait` in another thread return; safe from any thread."""

    def receive(self) -> Iterable[Train]:
        """What has arrived, bounded per call. Each train is read when it is asked for; a tuple is all.

        Never blocks, but directly after `wait`: then it may wait some milliseconds for the rest of what is being sent,
        unless `wake` is called.
        """

    def send(self, trains: Sequence[Train]) -> None:
        """Send, before it returns; a failure (no route, interface down) is counted and healed, never raised."""

    def maintain(self, now: float) -> float:
        """Look after interfaces and memberships; returns when to call again, if not before (monotonic seconds)."""

    def describe(self) -> dict[str, Any]:
        """The effective configuration: interface and the reason it was chosen, addresses, buffers, features."""

    def close(self) -> None:
        """Release the sockets."""
