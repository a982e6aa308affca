"""The items that travel between layers: trains of datagrams, runs of frames, messages on their way."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from glue.contract.borrowed import Borrowed
from glue.contract.pieces import Pieces, joined
from glue.contract.requests import NORMAL

Address = tuple[Any, ...]
"""A unicast address as `socket` spells it; opaque to every layer but network and discovery."""

RENDEZVOUS_PORT: Final = 37319
"""The UDP port where an endpoint receives unicast if that port is free and the settings name no other. One endpoint of
each machine does, so the name of a host alone is enough of an address. It is one below the default group's port."""

TO_PEERS: Final[Address] = ()
"""In place of a destination: the group, for peers that are known. (None is the group, for whoever listens.)"""

Flow = tuple[tuple[str, ...], int]
"""Peers (endpoint ids, sorted) and a class: what goes to these peers in this class keeps its order."""

Header = dict[str, list[Any]]
"""A frame's header: one key a layer, each a list. See `Inbound.header` for the rule of runs."""


def advanced(header: Header, count: int) -> Header:
    """The header of the frame `count` frames later in the run that `header` starts (see `Inbound.header`)."""
    return {
        key: [*entry[:-1], entry[-1] + count] if entry and entry[-1].__class__ is int else entry
        for key, entry in header.items()
    }


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
        """The first `at` bytes of all datagrams, one after the other, and the rest of each; that may be borrowed."""
        return joined(self.data, self.segment, 0, at), self.rests(at)

    def rests(self, at: int) -> Pieces:
        """All but the first `at` bytes of each datagram; they may be borrowed."""
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
    run have one length, but the last, which may be shorter. On the fast path they may be `Borrowed`.
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

    def to_owned(self) -> None:
        """Let the bodies stay as they are when the next train is read, if they were borrowed."""
        if self.bodies.__class__ is Borrowed:
            self.bodies = self.bodies.to_owned()


class Outbound:
    """Frames, or above fragmentation one whole message, on their way to peers.

    Set by topics: `peers` (the destinations, sorted, without this endpoint; never empty there), `bodies` (one
    body), `reliable`, `expires` (monotonic seconds after which it need not be sent at all, `inf` for never),
    `priority`, its class, and `after`: flows that its topics went in before; it must not overtake what went in those
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
        after: tuple[Flow, ...] = (),
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
