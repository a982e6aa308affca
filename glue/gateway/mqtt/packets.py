"""The packets of MQTT as objects. A `Publish` holds a run: like packets of one topic from one read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct

from glue.gateway.mqtt.codes import SUCCESS, V5
from glue.gateway.mqtt.properties import Properties

NEVER = 0xFFFFFFFF
"""A session expiry interval that means: no end (MQTT 5, section 3.1.2.11.2)."""


class Publish:
    """One message, or a run of messages that differ only in payload and packet id.

    The packets are in `raw` as they arrived, each `length` bytes long. The first `prefix` bytes of each packet come
    before the packet id (QoS 1 and 2) or the payload. The `ids` are empty for QoS 0.
    """

    __slots__ = (
        "_encoded", "_payloads", "at", "count", "dup", "expires", "ids", "length", "offset", "prefix", "properties",
        "qos", "raw", "retain", "topic", "version",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        payloads: Sequence[bytes] | None,
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
        dup: bool = False,
        ids: Sequence[int] = (),
        version: int = V5,
        raw: bytes = b"",
        length: int = 0,
        prefix: int = 0,
        count: int = 1,
    ) -> None:
        """Give `payloads`, or all of `raw`, `length`, `prefix` and `count`. A broker sets `expires`."""
        self.topic = topic
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.dup = dup
        self.ids = ids
        self.version = version
        self.raw = raw
        self.length = length
        self.prefix = prefix
        self.count = count if payloads is None else len(payloads)
        self.expires = float("inf")
        self.at = 0.0  # wall clock of a retained message, in seconds
        self.offset = -1  # of the first message in the log of the door, -1 if it is not there
        self._payloads = payloads
        self._encoded: dict[tuple[int, int, bool], bytes] | None = None

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads; cut from the packets when they are first asked for."""
        found = self._payloads
        if found is None:
            skipped = self.prefix + (2 if self.qos else 0)
            if self.count == 1:
                found = (self.raw[skipped:],)
            else:
                cut = Struct(f"{skipped}x{self.length - skipped}s")
                found = [payload for (payload,) in cut.iter_unpack(self.raw)]
            self._payloads = found
        return found

    @property
    def size(self) -> int:
        """Bytes of payload, or of the packets where these are known."""
        return len(self.raw) or sum(map(len, self.payloads))

    @property
    def encoded(self) -> dict[tuple[int, int, bool], bytes]:
        """Encoded packets that serve several receivers, by version, QoS and retain flag."""
        if self._encoded is None:
            self._encoded = {}
        return self._encoded

    def part(self, start: int, stop: int) -> Publish:
        """The messages from `start` to before `stop`, for receivers: without packet ids."""
        if (start, stop) == (0, self.count):
            return self
        found = Publish(self.topic, self.payloads[start:stop], self.qos, self.retain, self.properties)
        found.expires = self.expires
        if self.offset >= 0:
            found.offset = self.offset + start
        return found


@dataclass(slots=True)
class Will:
    """The message that the broker publishes when a client is lost."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Connect:
    """The first packet of a client. `clean` is clean session (MQTT 3) or clean start (MQTT 5).

    A bridge of another broker gets none of its own messages back, and retain flags as published.
    """

    version: int
    client_id: str
    clean: bool
    keep_alive: int
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = field(default_factory=dict)
    is_bridge: bool = False

    def expiry(self, longest: float) -> float:
        """Seconds that the session outlives its connection, at most `longest`."""
        if self.version != V5:
            return 0.0 if self.clean else longest
        asked = self.properties.get("session_expiry_interval", 0)
        return longest if asked == NEVER else min(float(asked), longest)


class Acknowledgement:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, of one message or of a run without reason codes."""

    __slots__ = ("code", "ids", "kind", "properties")

    def __init__(
        self, kind: int, ids: Sequence[int], code: int = SUCCESS, properties: Properties | None = None
    ) -> None:
        self.kind = kind
        self.ids = ids
        self.code = code
        self.properties = properties


@dataclass(slots=True)
class Wanted:
    """One topic filter of a SUBSCRIBE with its options."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(slots=True)
class Subscribe:
    """Asks for messages of some topic filters."""

    id: int
    wanted: list[Wanted]
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Unsubscribe:
    """Ends some subscriptions."""

    id: int
    filters: list[str]
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Ping:
    """Asks for a sign of life."""


@dataclass(slots=True)
class Disconnect:
    """Ends the connection; with another code than 0, the will is published."""

    code: int = SUCCESS
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True)
class Auth:
    """A step of enhanced authentication (MQTT 5)."""

    code: int = SUCCESS
    properties: Properties = field(default_factory=dict)


Packet = Publish | Connect | Acknowledgement | Subscribe | Unsubscribe | Ping | Disconnect | Auth
"""What a client sends."""
