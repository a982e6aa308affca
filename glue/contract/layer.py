"""The interface of a layer, and of the network below all layers.

Every layer but network is a pure state machine. It owns no clock, no socket, no thread and no global randomness: `now`
(monotonic seconds) is an argument, randomness an injected `random.Random`. Therefore the same code runs on real
sockets, in the simulator's virtual time and in the replay of a capture.

Items travel in lists, and a whole *run* of frames is one item. A layer therefore works per batch, not per datagram:

    direction   below serialization   up to fragmentation   topics and above
    up          Train                 Inbound, news         Inbound, news; then Delivery, Missed, news
    down        Train                 Outbound, orders      Publication, Subscribe, ...; then Outbound, orders

*News* (a peer came or left, an interest changed, something was lost) travel up between the data. *Orders* (announce an
interest, stop accepting) travel down between the data. A layer passes on the news and orders of other layers, unchanged
and in their place. Bare numbers are seconds or bytes. Peers are named by endpoint id (16 hex digits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

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
    """One layer of the stack: takes and returns items, and tells when it must be called next."""

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without items (monotonic seconds, `inf`: no timer is armed)."""

    @property
    def backlog(self) -> int:
        """Bytes of the items taken from above that this layer still holds."""

    @property
    def unfinished(self) -> int:
        """Reliable messages under way, counted once for each receiver, including messages outside of `backlog`.

        `Endpoint.flush` waits until `backlog` and `unfinished` of all layers are 0.
        """

    @property
    def statistics(self) -> Counter[str]:
        """Counters by cause; every refusal and drop is counted here."""

    def fit(self, size: int) -> int:
        """Take the size of the largest frame below (bytes); return that of the largest body for this layer."""

    def receive(self, now: float, items: list[BelowUp]) -> tuple[list[AboveUp], list[BelowDown]]:
        """Take items from below; return the items for above and those for below.

        Also called without items once `deadline` has passed. Never raises for what a peer sent.
        """

    def send(self, now: float, items: list[AboveDown]) -> list[BelowDown]:
        """Take items from above; return the items for below. Deliveries to this endpoint itself wait for `receive`."""


@runtime_checkable
class Deferring(Protocol):
    """The extension of `Layer` by layers that defer work for which no message waits."""

    def commit(self) -> None:
        """Run the work that `receive`, `send` and the fast path deferred.

        Called after each turn, at the latest once the received items have been answered, and always before `deadline`,
        `backlog` and `unfinished` are read: these change nothing.
        """


class TopicRoutes(Protocol):
    """The extension of `Layer` by the topics layer: it knows the routes."""

    def subscribers(self, topic: str) -> Sequence[str]:
        """Return the ids of the peers with announced interests that match `topic`."""


class Network(Protocol):
    """The bottom of the stack: sends and receives datagrams. Unlike a `Layer` it uses the operating system."""

    @property
    def statistics(self) -> Counter[str]:
        """Counters by cause."""

    @property
    def datagram_size(self) -> int:
        """The largest datagram (UDP payload bytes) that leaves without IP fragmentation."""

    @property
    def unicast_address(self) -> Address:
        """The unicast address of this endpoint, as far as it is known here."""

    def filenos(self) -> Sequence[int]:
        """Return the file descriptors that become readable when something arrives (for asyncio)."""

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        """Block until something can be received, `wake` was called, or `timeout` seconds have passed.

        With `patient`, no answer is expected at once, so the network does not poll before it sleeps.
        """

    def wake(self) -> None:
        """Make a `wait` in another thread return. Safe from any thread."""

    def receive(self) -> Iterable[Train]:
        """Return the trains that have arrived, bounded per call. A tuple means that the sockets are drained.

        Any other iterable reads each train when it is asked for. Never blocks, except directly after `wait`: then it
        may wait some milliseconds for the rest of a burst, unless `wake` is called.
        """

    def send(self, trains: Sequence[Train]) -> None:
        """Send these trains before returning. A failure (no route, link down) is counted and repaired, never raised."""

    def maintain(self, now: float) -> float:
        """Look after interfaces and memberships; returns the time of the next call (monotonic seconds)."""

    def describe(self) -> dict[str, Any]:
        """Return the effective configuration: interface and why it was chosen, addresses, buffers, features."""

    def close(self) -> None:
        """Close the sockets."""
