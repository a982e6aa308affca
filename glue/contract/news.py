"""News that a layer passes up to the application: about peers, messages and losses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from glue.contract.items import Address
from glue.contract.metadata import Metadata


class Delivery:
    """Messages of one topic from one publisher, for the application.

    * `payloads`: bytes or decoded JSON values, maybe created only when read.
    * `sequence`: the number of the first message. The others count up.
    * `tokens`: those of the matching subscriptions (see `Subscribe`).
    * `published_at`: the publisher's wall clock (Unix seconds) at the first message.
    * `retained`: true for a stored value for a late joiner.
    * `expires`: monotonic seconds after which the messages must not be handed over.
    * `length`: the size of each payload. None: unknown, different sizes, or not bytes. With properties, it is the bytes
      that each message is taken to weigh.
    * `age`: seconds that the messages were held on their way. Unset if 0 or unknown, as on the fast path, so that a
      plain message pays nothing for the age: `getattr(delivery, "age", 0.0)`.
    * `wrapped`: the wrapped topic on which the messages travelled. Unset for other messages, as `age` may be.
    * `via`: the id of the endpoint that sent a will; `publisher_id` is the id of the owner. Unset for other messages.
    * `metadata`: properties and codec. Unset if there is neither.
    * `encoded`: the payloads as they travelled. Set only once a codec has decoded them.
    """

    age: float
    wrapped: str
    via: str
    metadata: Metadata
    encoded: Sequence[bytes]
    __slots__ = (
        "age", "encoded", "expires", "incarnation", "length", "metadata", "payloads", "published_at", "publisher",
        "publisher_id", "retained", "sequence", "tokens", "topic", "type", "via", "wrapped",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        payloads: Sequence[Any],
        type: str | None,
        publisher: str,
        publisher_id: str,
        incarnation: int,
        sequence: int,
        published_at: float,
        retained: bool,
        tokens: Sequence[Hashable],
        expires: float = float("inf"),
        length: int | None = None,
    ) -> None:
        self.expires = expires
        self.length = length
        self.topic = topic
        self.payloads = payloads
        self.type = type
        self.publisher = publisher
        self.publisher_id = publisher_id
        self.incarnation = incarnation
        self.sequence = sequence
        self.published_at = published_at
        self.retained = retained
        self.tokens = tokens

    def to_owned(self) -> list[Any]:
        """Return `payloads` as independent objects. Keeping one then does not keep all others in memory."""
        if self.payloads.__class__ is not list:
            self.payloads = [*self.payloads]
        return self.payloads


class CodedDelivery(Delivery):
    """A delivery with payloads still encoded by `metadata.codec`; the endpoint turns it into a `Delivery`."""

    __slots__ = ()


class Missed:
    """From topics: `count` messages of a publisher on a topic will not come to these subscriptions, for this cause."""

    __slots__ = ("cause", "count", "publisher", "publisher_id", "tokens", "topic")

    def __init__(
        self, topic: str, publisher: str, publisher_id: str, count: int, cause: str, tokens: Sequence[Hashable]
    ) -> None:
        self.topic = topic
        self.publisher = publisher
        self.publisher_id = publisher_id
        self.count = count
        self.cause = cause
        self.tokens = tokens


class Rung:
    """From topics: an `Alarm` is due. Drivers pass the event to the alarm's token in turn, as a delivery."""

    __slots__ = ("tokens",)

    def __init__(self, token: Any) -> None:
        self.tokens = (token,)


class Surveyed:
    """From topics: the peers known now, each with id, name and interests (see `Survey`)."""

    __slots__ = ("peers", "token")

    def __init__(self, token: Any, peers: Sequence[tuple[str, str, Sequence[str]]]) -> None:
        self.token = token
        self.peers = peers


class Undelivered:
    """From transport: `count` messages to a peer were given up, for this cause ("peer removed", "expired", ...)."""

    __slots__ = ("cause", "count", "peer")

    def __init__(self, peer: str, count: int, cause: str) -> None:
        self.peer = peer
        self.count = count
        self.cause = cause


class FrameGap:
    """From transport: `count` frames of a peer to this endpoint will not come, for this cause."""

    __slots__ = ("cause", "count", "peer")

    def __init__(self, peer: str, count: int, cause: str) -> None:
        self.peer = peer
        self.count = count
        self.cause = cause


class Addressed:
    """From topics: a publication with a receipt went to these peers. A `Receipted` follows for each.

    `last` is the sequence number of its last message.
    """

    __slots__ = ("last", "peers", "receipt")

    def __init__(self, receipt: Hashable, peers: Sequence[str], last: int) -> None:
        self.receipt = receipt
        self.peers = peers
        self.last = last


class Receipted:
    """From transport: a peer has acknowledged a publication with a receipt. With a `cause`, it never will."""

    __slots__ = ("cause", "peer", "receipt")

    def __init__(self, receipt: Hashable, peer: str, cause: str = "") -> None:
        self.receipt = receipt
        self.peer = peer
        self.cause = cause


class FirstRoundOver:
    """From discovery: the first round is over, and peers that answered at once are known, with their interests.

    Late answers may come until `until` (monotonic seconds).
    """

    __slots__ = ("until",)

    def __init__(self, until: float) -> None:
        self.until = until


# ------------------------------------------------------------------------------------------------ peers


class PeerAdded:
    """From discovery: a peer is there. `restarted`: another life (incarnation) of the peer was known just before."""

    __slots__ = ("address", "incarnation", "name", "peer", "restarted")

    def __init__(self, peer: str, incarnation: int, name: str, address: Address, restarted: bool = False) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.name = name
        self.address = address
        self.restarted = restarted


class PeerRemoved:
    """From discovery: a peer's life is over.

    `reason` is "goodbye", "expired", "evicted", or "restarted" (another life follows).
    """

    __slots__ = ("incarnation", "name", "peer", "reason")

    def __init__(self, peer: str, incarnation: int, name: str, reason: str) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.name = name
        self.reason = reason


class PeerInterest:
    """From discovery: a peer's interests have changed by these topic patterns."""

    __slots__ = ("added", "peer", "removed")

    def __init__(self, peer: str, added: Sequence[str], removed: Sequence[str]) -> None:
        self.peer = peer
        self.added = added
        self.removed = removed


class PeerSleeps:
    """From discovery: a peer that is awake for moments only fell asleep (an odd `cycle`), or tells that it is awake.

    The peer counts its cycles from 0 on. The news of one cycle may come several times.
    """

    __slots__ = ("cycle", "peer")

    def __init__(self, peer: str, cycle: int) -> None:
        self.peer = peer
        self.cycle = cycle


class Awake:
    """From transport: this endpoint has woken up, and has received all that waited for it.

    `waited` messages came from `publishers` peers, which had to drop `dropped`. The peers `silent` did not
    answer, or not all that waited there has come.
    """

    __slots__ = ("cycle", "dropped", "publishers", "silent", "waited")

    def __init__(self, cycle: int, waited: int, dropped: int, publishers: int, silent: Sequence[str]) -> None:
        self.cycle = cycle
        self.waited = waited
        self.dropped = dropped
        self.publishers = publishers
        self.silent = silent


class NameClash:
    """From discovery: another live endpoint has this endpoint's id, and probably its name, at `address`."""

    __slots__ = ("address", "incarnation", "name")

    def __init__(self, name: str, incarnation: int, address: Address) -> None:
        self.name = name
        self.incarnation = incarnation
        self.address = address


class PathChanged:
    """From discovery: what goes to a peer takes another way from now on.

    `is_lost` tells that the former way has failed, so what is unacknowledged was most likely lost on it.
    """

    __slots__ = ("address", "is_lost", "peer")

    def __init__(self, peer: str, address: Address, is_lost: bool) -> None:
        self.peer = peer
        self.address = address
        self.is_lost = is_lost


News = (
    PeerAdded
    | PeerRemoved
    | PeerInterest
    | PathChanged
    | PeerSleeps
    | FirstRoundOver
    | NameClash
    | Undelivered
    | FrameGap
    | Addressed
    | Receipted
    | Awake
)
Event = Delivery | Missed | Rung | Surveyed | News
"""The events of a stack for the application."""
