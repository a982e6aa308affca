"""Requests of an application to a stack. *Orders* are those that also pass between layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from glue.contract.frozen import Frozen
from glue.contract.metadata import Metadata

URGENT, HIGH, NORMAL, LARGE, BULK = range(5)
"""The classes of data, most urgent first. Data of a class never wait behind data of a less urgent one.

Large messages of the class normal go as LARGE, so that small messages on other topics do not wait behind them.
"""


class Options(Frozen):
    """Options that most publications do not set.

    * `type`: the kind of the payloads.
    * `retain`: true to keep the last message for late joiners.
    * `lifespan`: seconds after which messages expire, None for never.
    * `reliable`: false for best effort.
    * `ordered`: false if messages may overtake earlier ones to other peers.
    * `receipt`: a token that is told which peers have the last message, None for none.
    * `metadata`: properties and codec, None for neither.
    * `key`: in a group, messages of one key stay in order at one member.
    """

    type: str | None = None
    retain: bool = False
    lifespan: float | None = None
    reliable: bool = True
    ordered: bool = True
    receipt: Hashable | None = None
    key: str | None = None
    metadata: Metadata | None = None


PLAIN: Final = Options()
"""The default options. An equal object has the same effect, but is recognized more slowly."""


class Publication:
    """Messages of one topic from the application, alike except for their payloads.

    `payloads` are bytes, or with `json` encoded JSON documents. The size of each payload is `length`; None: unknown, or
    different sizes. The wall clock at the first message is `published_at` (Unix seconds). The class of data is
    `priority`.
    """

    __slots__ = ("json", "length", "options", "payloads", "priority", "published_at", "topic")

    def __init__(
        self,
        topic: str,
        payloads: list[bytes],
        published_at: float,
        json: bool = False,
        length: int | None = None,
        priority: int = NORMAL,
        options: Options = PLAIN,
    ) -> None:
        self.topic = topic
        self.payloads = payloads
        self.published_at = published_at
        self.json = json
        self.length = length
        self.priority = priority
        self.options = options

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return sum(map(len, self.payloads)) if self.length is None else self.length * len(self.payloads)


class AnnotatedPublication(Publication):
    """A publication with properties: these count as bytes of each message, since each may have its own."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Bytes of payload and properties."""
        payloads = sum(map(len, self.payloads)) if self.length is None else self.length * len(self.payloads)
        metadata = self.options.metadata
        return payloads if metadata is None else payloads + metadata.size * len(self.payloads)


class Subscribe:
    """From the application to topics: deliver what matches `pattern` from now on, under `token` (any hashable).

    `others` are further patterns; a message that several match comes once. Without `local`, what this endpoint itself
    publishes does not come.
    """

    __slots__ = ("local", "patterns", "token")

    def __init__(self, token: Hashable, pattern: str, others: Sequence[str] = (), local: bool = True) -> None:
        self.token = token
        self.patterns = (pattern, *others)
        self.local = local


class Unsubscribe:
    """From the application to topics: end the subscription of this token."""

    __slots__ = ("token",)

    def __init__(self, token: Hashable) -> None:
        self.token = token


class Acknowledge:
    """From the application to topics: a member of a group has handled the messages `first` to `last`.

    `topic` is the wrapped topic of the messages (`Delivery.wrapped`), `publisher_id` the id of the publisher.
    """

    __slots__ = ("first", "last", "publisher_id", "topic")

    def __init__(self, topic: str, publisher_id: str, first: int, last: int) -> None:
        self.topic = topic
        self.publisher_id = publisher_id
        self.first = first
        self.last = last


class ExecuteWill:
    """From the application to topics: publish a will in the name of its lost owner, unless it was published already.

    The `owner` is name, id and incarnation. `number` counts the wills of this life. `published_at` is in Unix seconds.
    """

    __slots__ = ("json", "number", "owner", "payload", "published_at", "retain", "topic")

    def __init__(
        self,
        topic: str,
        payload: bytes,
        json: bool,
        retain: bool,
        owner: tuple[str, str, int],
        number: int,
        published_at: float,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.json = json
        self.retain = retain
        self.owner = owner
        self.number = number
        self.published_at = published_at


class Redeliver:
    """From the application to topics: hand a retained value to the subscriptions of this endpoint again.

    The value is given by its topic, its publisher, and its number there. A value that was replaced since is not handed
    over.
    """

    __slots__ = ("incarnation", "publisher_id", "sequence", "topic")

    def __init__(self, topic: str, publisher_id: str, incarnation: int, sequence: int) -> None:
        self.topic = topic
        self.publisher_id = publisher_id
        self.incarnation = incarnation
        self.sequence = sequence


Served = Acknowledge | ExecuteWill | Redeliver
"""Requests that topics serves at once."""


class Survey:
    """From the application to topics: pass up a `Surveyed` with this token, and all peers with their interests."""

    __slots__ = ("token",)

    def __init__(self, token: Any) -> None:
        self.token = token


class Record:
    """From the application to topics: give a `recorder` what is published on a pattern; None: no more.

    The recorder is called with the time (monotonic seconds), numbered messages, and when they expire.
    """

    __slots__ = ("patterns", "recorder")

    def __init__(self, pattern: str, recorder: Callable[[float, Any, float], None] | None) -> None:
        self.patterns = (pattern,)
        self.recorder = recorder


class Alarm:
    """From the application to topics: pass up a `Rung` with this token at `due` (monotonic seconds), once.

    A later alarm of the token replaces this one; `inf` takes it back. The token is what a driver hands events to.
    """

    __slots__ = ("due", "token")

    def __init__(self, token: Hashable, due: float) -> None:
        self.token = token
        self.due = due


class Interest:
    """From topics to discovery: announce the `added` interests, withdraw the `removed` ones.

    Interests are a set: each string counts once.
    """

    __slots__ = ("added", "removed")

    def __init__(self, added: Sequence[str], removed: Sequence[str]) -> None:
        self.added = added
        self.removed = removed


class Accept:
    """From the application to transport: accept data from peers (True), or let their windows run out (False)."""

    __slots__ = ("accepting",)

    def __init__(self, accepting: bool) -> None:
        self.accepting = accepting


class Leave:
    """From the application to discovery: say goodbye, because this endpoint leaves now."""

    __slots__ = ()


class LinkChanged:
    """From the network to discovery, by way of the driver: a link can be used from now on, or cannot."""

    __slots__ = ("is_up", "link")

    def __init__(self, link: str, is_up: bool) -> None:
        self.link = link
        self.is_up = is_up


class Sleep:
    """From the application to transport and discovery: this endpoint falls asleep, or wakes up.

    `cycle` counts these orders from 1 on. With an odd number the endpoint falls asleep.
    """

    __slots__ = ("cycle",)

    def __init__(self, cycle: int) -> None:
        self.cycle = cycle


Order = Interest | Accept | Leave | LinkChanged | Sleep
Request = Publication | Subscribe | Unsubscribe | Served | Survey | Alarm | Record | Order
"""The requests of an application to a stack."""
