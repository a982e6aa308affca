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
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from glue.contract.news import Addressed, Delivery, FirstRoundOver, Gap, Missed, Receipted, Undelivered
from glue.contract.pieces import Lent, Pieces, joined
from glue.contract.requests import NORMAL, Publication

Address = tuple[Any, ...]
"""A unicast address as `socket` spells it; opaque to every layer but network and discovery."""

TO_PEERS: Final[Address] = ()
"""In place of a destination: the group, for peers that are known. (None is the group, for whoever listens.)"""

Lane = tuple[tuple[str, ...], int]
"""Peers (endpoint ids, sorted) and a class: what goes to these peers in this class keeps its order."""

Header = dict[str, list[Any]]
"""A frame's header: one key a layer, each a list. See `Inbound.header` for the rule of runs."""


def advanced(header: Header, count: int) -> Header:
    """The header of the frame `count` frames later in the run that `header` starts (see `Inbound.header`)."""
    return {
        key: [*entry[:-1], entry[-1] + count] if entry and entry[-1].__class__ is int else entry
        for key, entry in header.items()
    }


# ------------------------------------------------------------------------------------------ data going up


class Train:
    """Datagrams that travel together: each `segment` bytes long, but the last, which may be shorter.

    `data` may hold more than one system call takes, or gives. Up: `address` is the source and `data`, and what it is
    split into, is valid until the next train is asked for. Down: `address` is the destination; None or TO_PEERS is the
    group. Whoever sends it takes `portions`, and within the call that it is handed over in: they may be made in memory
    that all trains of an endpoint share. Whoever keeps it asks for `data` there, for which they are joined.
    """

    __slots__ = ("address", "data", "segment")

    def __init__(self, address: Address | None, data: bytes | bytearray | memoryview, segment: int) -> None:
        self.address = address
        self.data = data
        self.segment = segment

    def split(self, at: int) -> tuple[bytes, Pieces]:
        """The first `at` bytes of all datagrams, one after the other, and the rest of each; that may be lent."""
        return joined(self.data, self.segment, 0, at), self.rests(at)

    def rests(self, at: int) -> Pieces:
        """All but the first `at` bytes of each datagram; they may be lent."""
        rests = joined(self.data, self.segment, at, self.segment)
        return Pieces([rests], self.segment - at, -(-len(self.data) // self.segment))

    def columns(self, places: Iterable[int]) -> list[bytes]:
        """For each of these places, the byte that stands there in all datagrams, which have one."""
        data, segment = self.data, self.segment
        return [bytes(data[place::segment]) for place in places]

    def portions(self) -> Iterable[bytes | bytearray | memoryview]:
        """The data in parts of whole datagrams; each may be made when it is asked for."""
        return (self.data,)


class Inbound:
    """A run of frames from one peer, upwards; above fragmentation each body is a whole message.

    `header` is that of the first frame. The rule of runs: in each layer's list, a last element that is an
    integer counts up by one from frame to frame of the run, and everything else stays the same. All bodies of a
    run have one length, but the last, which may be shorter. On the express way they may be `glue.contract.pieces.Lent`.
    `age`: how long ago the oldest of them was handed to its sender's transport; who lets them wait adds to it.
    `reliable`: whether they come in order, and none is missing unless `Gap` says so.
    `form`: the same object for all headers that differ in digits alone: they have the same keys, lists and strings, as
    far as these hold no digits, and in the same places integers from 0 to 10**15 - 1 (but in serialization's entry). So
    an entry found to be well-formed is so in each header of this form. None: nothing is known.
    """

    __slots__ = ("address", "age", "bodies", "form", "header", "incarnation", "peer", "reliable")

    def __init__(
        self,
        peer: str,
        incarnation: int,
        address: Address | None,
        header: Header,
        bodies: Sequence[bytes],
        age: float = 0.0,
        reliable: bool = True,
        form: bytes | None = None,
    ) -> None:
        self.form = form
        self.peer = peer
        self.incarnation = incarnation
        self.address = address
        self.header = header
        self.bodies = bodies
        self.age = age
        self.reliable = reliable

    def own(self) -> None:
        """Let the bodies stay as they are when the next train is read, if they were lent."""
        if self.bodies.__class__ is Lent:
            self.bodies = self.bodies.own()


# ------------------------------------------------------------------------------------------ news going up


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
Upward = Inbound | News
Event = Delivery | Missed | News
"""What a stack hands to the application."""


# ---------------------------------------------------------------------------------------- data going down


class Outbound:
    """Frames, or above fragmentation one whole message, on their way to peers.

    Set by topics: `peers` (the destinations, sorted, without this endpoint; never empty there), `bodies` (one
    body), `reliable`, `expires` (monotonic seconds after which it need not be sent at all, `inf` for never),
    `priority`, its class, and `after`: lanes that its topics went in before; it must not overtake what went in those
    earlier. `messages` is how many it holds, for the ledger; `receipts` those that are to hear of it (see `Receipted`).
    Fragmentation cuts `bodies` into frames and may add to `header` (the rule of runs of `Inbound` holds). Below
    transport `peers` is one peer, or () for all by multicast; discovery makes that `address` (see `Train`).
    """

    __slots__ = (
        "address", "after", "bodies", "expires", "header", "messages", "peers", "priority", "receipts", "reliable",
    )  # fmt: skip

    def __init__(
        self,
        peers: tuple[str, ...],
        bodies: Sequence[bytes],
        header: Header | None = None,
        reliable: bool = True,
        expires: float = float("inf"),
        after: tuple[Lane, ...] = (),
        address: Address | None = None,
        messages: int = 1,
        receipts: Sequence[Hashable] = (),
        priority: int = NORMAL,
    ) -> None:
        self.priority = priority
        self.messages = messages
        self.receipts = receipts
        self.peers = peers
        self.bodies = bodies
        self.header = {} if header is None else header
        self.reliable = reliable
        self.expires = expires
        self.after = after
        self.address = address


# --------------------------------------------------------------------------------------- orders going down


class Subscribe:
    """Application to topics: from now on deliver what matches `pattern` under `token` (any hashable)."""

    __slots__ = ("pattern", "token")

    def __init__(self, token: Hashable, pattern: str) -> None:
        self.token = token
        self.pattern = pattern


class Unsubscribe:
    """Application to topics: end the subscription of this token."""

    __slots__ = ("token",)

    def __init__(self, token: Hashable) -> None:
        self.token = token


class Interest:
    """Topics to discovery: announce these interests, withdraw those. Both are sets of strings, counted once."""

    __slots__ = ("added", "removed")

    def __init__(self, added: Sequence[str], removed: Sequence[str]) -> None:
        self.added = added
        self.removed = removed


class Accept:
    """Application to transport: go on accepting data from peers, or (False) let their windows run dry."""

    __slots__ = ("accepting",)

    def __init__(self, accepting: bool) -> None:
        self.accepting = accepting


class Leave:
    """Application to discovery: this endpoint goes now; say goodbye."""

    __slots__ = ()


Order = Interest | Accept | Leave
Downward = Outbound | Order
Request = Publication | Subscribe | Unsubscribe | Order
"""What an application hands to a stack."""


# ----------------------------------------------------------------------------------------------- the layer

BelowUp = TypeVar("BelowUp")
AboveUp = TypeVar("AboveUp")
AboveDown = TypeVar("AboveDown")
BelowDown = TypeVar("BelowDown")


class Layer(Protocol[BelowUp, AboveUp, AboveDown, BelowDown]):
    """One layer of the stack: items in, items out, and when to be called next."""

    @property
    def deadline(self) -> float:
        """When `receive` must be called even without items (monotonic seconds, `inf`: no timer is armed).

        Asked after each turn, at the latest once what came up has been answered. What could wait until then may be done
        only now, and when `backlog` is asked.
        """

    @property
    def backlog(self) -> int:
        """Bytes of data taken from above that this layer still holds because they are not done with."""

    @property
    def statistics(self) -> Counter[str]:
        """What happened so far, by cause; every refusal and drop is counted here."""

    def fit(self, size: int) -> int:
        """Told the largest frame (bytes) the layer below takes, return the largest body this one takes."""

    def receive(self, now: float, items: list[BelowUp]) -> tuple[list[AboveUp], list[BelowDown]]:
        """Take items from below; return what goes up and what goes back down.

        Also called with no items once `deadline` has passed. Never raises for what a peer sent.
        """

    def send(self, now: float, items: list[AboveDown]) -> list[BelowDown]:
        """Take items from above; return what goes down now. Deliveries to oneself wait for `receive`."""


class Partner(Protocol):
    """A peer with whom lone messages go back and forth (`glue.fastpath.session`), as discovery knows it."""

    id: str
    incarnation: int
    address: Address


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
