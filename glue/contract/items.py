"""The items that travel between layers: trains of datagrams, runs of frames, and messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from glue.contract.borrowed import Borrowed
from glue.contract.pieces import Pieces, joined
from glue.contract.requests import NORMAL

Address = tuple[Any, ...]
"""A unicast address as `socket` represents it. Only network and discovery read its parts."""

RENDEZVOUS_PORT: Final = 37319
"""The UDP port for unicast, if it is free and the settings name no other.

One endpoint of each machine gets it, so a host name alone is a sufficient address. It is one below the port of the
default group.
"""

TO_PEERS: Final[Address] = ()
"""The multicast group as a destination, for known peers. (None is the group, for every listener.)"""

Flow = tuple[tuple[str, ...], int]
"""Peers (endpoint ids, sorted) and a class of data: data of one flow stay in order."""

Header = dict[str, list[Any]]
"""A frame's header: a list for each layer, by key. See `Inbound` for the rule of runs."""


def advanced(header: Header, count: int) -> Header:
    """Return the header of the frame `count` frames later in the run that starts with `header` (see `Inbound`)."""
    return {
        key: [*entry[:-1], entry[-1] + count] if entry and entry[-1].__class__ is int else entry
        for key, entry in header.items()
    }


class Train:
    """Datagrams that travel together: each is `segment` bytes long, but the last may be shorter.

    `data` may be more than one system call takes or gives.

    * On the way up, `address` is the source. `data`, and the parts split from it, are valid until the next train is
      read.
    * On the way down, `address` is the destination; None or TO_PEERS is the group. The network sends the `chunks`
      within the call that passes the train, because all trains of an endpoint may share their memory. A layer that
      keeps a train reads `data` within that call. This joins the chunks.
    """

    __slots__ = ("address", "data", "segment")

    def __init__(self, address: Address | None, data: bytes | bytearray | memoryview, segment: int) -> None:
        self.address = address
        self.data = data
        self.segment = segment

    def split(self, at: int) -> tuple[bytes, Pieces]:
        """Return the first `at` bytes of all datagrams, joined, and the rests as pieces, which may be borrowed."""
        return joined(self.data, self.segment, 0, at), self.rests(at)

    def rests(self, at: int) -> Pieces:
        """Return all but the first `at` bytes of each datagram as pieces, which may be borrowed."""
        rests = joined(self.data, self.segment, at, self.segment)
        return Pieces([rests], self.segment - at, -(-len(self.data) // self.segment))

    def columns(self, places: Iterable[int]) -> list[bytes]:
        """Return, for each place, the bytes at this place of all datagrams. Every datagram must have the place."""
        data, segment = self.data, self.segment
        return [bytes(data[place::segment]) for place in places]

    def to_owned(self) -> Train:
        """Return the train with data that stays."""
        return Train(self.address, bytes(self.data), self.segment)

    def chunks(self, extra: int = 0) -> Iterable[bytes | bytearray | memoryview]:
        """Return the data in parts of whole datagrams. A part may be made only when it is read.

        `extra`: bytes by which the caller makes each datagram longer before a system call sends as many as it takes.
        """
        return (self.data,)


class Inbound:
    """A run of frames from one peer, on the way up. Above fragmentation each body is a whole message.

    `header` is that of the first frame. The rule of runs: the last element of a layer's list counts up by one from
    frame to frame if it is an integer, and everything else stays the same. All bodies of a run have one length, but the
    last may be shorter. On the fast path the bodies may be `Borrowed`.

    * `age`: seconds since the oldest frame was given to its sender's transport. Each layer that holds frames adds to
      it.
    * `reliable`: frames come in order, and none is missing without a `FrameGap`.
    * `form`: the same object for all headers that differ only in digits (serialization's entry aside). They have the
      same keys, lists and strings, and integers from 0 to 10**15 - 1 at the same places. An entry that is well-formed
      in one header is well-formed in all headers of this form. None means that nothing is known.
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
        """Copy borrowed bodies, so that they stay valid when the next train is read."""
        if self.bodies.__class__ is Borrowed:
            self.bodies = self.bodies.to_owned()


class Outbound:
    """Frames for peers, on the way down. Above fragmentation an item holds one whole message.

    Topics sets these fields:

    * `peers`: sorted, without this endpoint, not empty.
    * `bodies`: one body.
    * `reliable`, and `priority`, the class of data.
    * `expires`: monotonic seconds after which the message need not be sent, `inf` for never.
    * `after`: the flows that earlier messages of its topics used. The message must not overtake these.
    * `messages`: the number of messages inside, for the counters.
    * `receipts`: tokens that are told of each acknowledgement (see `Receipted`).

    Fragmentation cuts `bodies` into frames and may add to `header` (the rule of runs of `Inbound` holds). Below
    transport `peers` is one peer, or () for all by multicast. Discovery replaces it by `address` (see `Train`).
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
