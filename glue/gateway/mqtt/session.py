"""A session and its connection: what a broker remembers of a client, whether it is connected or not.

Messages of QoS 1 and 2 wait in a bounded queue, get packet ids when the client has room for them, and are in flight
until the client has acknowledged them. After a reconnect those in flight are sent again, in order (3.1.1, section 4.4).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from glue.gateway.mqtt import codes, encoder
from glue.gateway.mqtt.codes import V5
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.identity import Identity, Remote
from glue.gateway.mqtt.packets import Connect, Packet, Publish, Will

FOREVER = float("inf")
LAST_ID = 65_535
LOST = -1
SHORTEST_ALIASED = 8
"""Characters of a topic that is sent with an alias, which takes three bytes itself."""


class Parcel:
    """A run of messages for one client: with its QoS, retain flag, and the identifiers of the subscriptions."""

    __slots__ = ("identifiers", "qos", "retain", "run")

    def __init__(self, run: Publish, qos: int, retain: bool = False, identifiers: Sequence[int] = ()) -> None:
        self.run = run
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers

    def part(self, start: int, stop: int) -> Parcel:
        """The messages from `start` to before `stop`."""
        return Parcel(self.run.part(start, stop), self.qos, self.retain, self.identifiers)


class Session:
    """The state of one client id."""

    __slots__ = (
        "arrivals",
        "claim",
        "client",
        "client_id",
        "dropped",
        "epoch",
        "expires_at",
        "expiry",
        "inflight",
        "is_fresh",
        "is_kept",
        "next_id",
        "queue",
        "queue_bytes",
        "queue_messages",
        "queued",
        "queued_bytes",
        "read_at",
        "received",
        "released",
        "shelved",
        "subscriptions",
        "will",
        "will_at",
    )  # fmt: skip

    def __init__(self, client_id: str, queue_messages: int, queue_bytes: int) -> None:
        """`queue_messages` and `queue_bytes` bound what waits."""
        self.client_id = client_id
        self.client: Client | None = None
        self.expiry = 0.0  # seconds that it outlives its connection
        self.expires_at = float("inf")
        self.subscriptions: dict[str, Subscription] = {}
        self.will: Will | None = None
        self.will_at = float("inf")
        self.next_id = 1
        self.inflight: dict[int, tuple[Parcel, int]] = {}  # packet id → parcel and the message's place in its run
        self.released: dict[int, None] = {}  # QoS 2: PUBREL was sent, PUBCOMP is awaited
        self.received: set[int] = set()  # QoS 2: PUBLISH has come, PUBREL is awaited
        self.queue: deque[Parcel] = deque()
        self.queued = self.queued_bytes = 0
        self.queue_messages = queue_messages
        self.queue_bytes = queue_bytes
        self.dropped = 0
        self.epoch = 0  # of its last connection, larger than those before at any door
        self.arrivals: Counter[tuple[str, bytes]] | None = None  # what came since it moved here, for a moment
        self.claim = 0  # in a cluster: the number of the claim on it, 0 for none, LOST once another door has it
        self.is_fresh = False  # whether its client asked for a new one
        self.is_kept = False  # whether it is in the log, too
        self.read_at: int | None = None  # where it reads on in the log; None if all messages are in its queue
        self.shelved: dict[int, tuple[int, int]] = {}  # while it is away: packet id → offset, QoS and retain flag << 2

    def put(self, parcel: Parcel, limit: int | None = None) -> int:
        """Let messages wait; returns how many of them found no room, the newest ones.

        With a `limit` of messages, those stay in the log, so they are not counted as dropped.
        """
        room = (self.queue_messages if limit is None else limit) - self.queued
        if self.queued_bytes + parcel.run.size > self.queue_bytes:
            room = min(room, _fitting(parcel.run, self.queue_bytes - self.queued_bytes))
        count = parcel.run.count
        if room < count:
            if limit is None:
                self.dropped += count - max(room, 0)
            if room <= 0:
                return count
            parcel = parcel.part(0, room)
        self.enqueue(parcel)
        return count - parcel.run.count

    def enqueue(self, parcel: Parcel) -> None:
        """Let messages wait, whether there is room or not."""
        self.queue.append(parcel)
        self.queued += parcel.run.count
        self.queued_bytes += parcel.run.size

    def withdraw(self, topics: Container[str]) -> None:
        """Forget what waits of some topics."""
        self.queue = deque(parcel for parcel in self.queue if parcel.run.topic not in topics)
        self.queued = sum(parcel.run.count for parcel in self.queue)
        self.queued_bytes = sum(parcel.run.size for parcel in self.queue)

    def take(self, now: float, room: int) -> Iterator[tuple[Parcel, Sequence[int]]]:
        """Give packet ids to at most `room` messages that wait; yields runs with their ids, to be sent."""
        while self.queue and room > 0:
            parcel = self.queue.popleft()
            self.queued -= parcel.run.count
            self.queued_bytes -= parcel.run.size
            if parcel.run.expires <= now:
                continue
            if parcel.run.count > room:
                rest = parcel.part(room, parcel.run.count)
                parcel = parcel.part(0, room)
                self.queue.appendleft(rest)
                self.queued += rest.run.count
                self.queued_bytes += rest.run.size
            room -= parcel.run.count
            yield parcel, self.number(parcel)

    def number(self, parcel: Parcel) -> Sequence[int]:
        """Give packet ids to the messages of a run, which are then in flight."""
        ids = self._free_ids(parcel.run.count)
        self.inflight.update(zip(ids, zip(repeat(parcel), range(len(ids)), strict=False), strict=True))
        return ids

    def _free_ids(self, count: int) -> Sequence[int]:
        first = self.next_id if self.next_id + count - 1 <= LAST_ID else 1
        ids = range(first, first + count)
        if self.inflight.keys().isdisjoint(ids) and self.released.keys().isdisjoint(ids):
            self.next_id = first + count if first + count <= LAST_ID else 1
            return ids
        found: list[int] = []
        number = self.next_id
        while len(found) < count:
            if number not in self.inflight and number not in self.released:
                found.append(number)
            number = number + 1 if number < LAST_ID else 1
        self.next_id = number
        return found

    @property
    def under_way(self) -> int:
        """Messages that the client has not acknowledged to the end."""
        return len(self.inflight) + len(self.released) + len(self.shelved)

    def acknowledge(self, ids: Iterable[int]) -> int:
        """Forget messages of QoS 1 that the client has; returns how many ids were not known."""
        unknown = 0
        pop = self.inflight.pop
        for number in ids:
            unknown += pop(number, None) is None
        return unknown

    def again(self) -> Iterator[tuple[int, Parcel]]:
        """The messages in flight, one at a time with its packet id, to be sent again after a reconnect."""
        for number, (parcel, place) in list(self.inflight.items()):  # one that is too large now is forgotten
            yield number, parcel.part(place, place + 1)


class Subscription:
    """A topic filter of a session, with options (MQTT 5, section 3.8.3.1)."""

    __slots__ = (
        "filter", "identifier", "is_early", "is_narrowed", "no_local", "order", "qos", "retain_as_published",
        "session", "since",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        topic_filter: str,
        qos: int,
        no_local: bool = False,
        retain_as_published: bool = False,
        identifier: int = 0,
    ) -> None:
        """`identifier` is 0 if the client gave none."""
        self.session = session
        self.filter = topic_filter
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.identifier = identifier
        self.order = 0
        self.is_early = False  # whether it waits for the retained messages of a cluster
        self.is_narrowed = False  # whether its client may not read some of its topics
        self.since = 0  # the offset in the log of the door from which on it gets messages

    @property
    def is_shared(self) -> bool:
        """Whether the messages go to one member of a group."""
        return self.filter.startswith("$share/")

    @property
    def options(self) -> int:
        """All options as one number."""
        return self.qos | self.no_local << 2 | self.retain_as_published << 3 | self.identifier << 4


class Client:
    """A connection. The shell writes `out`, in order, and then closes it if `is_closing`.

    `is_full` is true while the connection takes nothing more; `is_stuck` when this has lasted for too long.
    """

    __slots__ = (
        "alias_maximum", "aliases", "connect", "decoder", "dropped", "full_since", "given", "held", "holds",
        "identity", "inflight", "is_closing", "is_full", "is_resuming", "is_stuck", "last_heard", "link", "out",
        "packet_size", "promised", "reason", "received", "remote", "sent", "session", "since", "timeout",
        "unread_since", "version", "waits",
    )  # fmt: skip

    def __init__(self, link: Hashable, remote: Remote, now: float, limit: int) -> None:
        """`link` is the shell's own name for the connection; `limit` the largest packet in bytes."""
        self.link = link
        self.remote = remote
        self.decoder = Decoder(limit)
        self.version = 0
        self.connect: Connect | None = None
        self.session: Session | None = None
        self.identity: Identity | None = None
        self.waits: list[Packet] | None = None  # what came while its identity is being checked
        self.since = self.last_heard = now
        self.timeout = FOREVER
        self.out: list[bytes] = []
        self.is_closing = False
        self.reason = ""
        self.aliases: dict[int, str] = {}
        self.given: dict[str, int] = {}  # topic aliases that this end has set
        self.alias_maximum = 0  # how many the client takes
        self.inflight = 0  # messages of QoS 1 and 2 that may be under way to it
        self.packet_size = codes.LARGEST_PACKET + 5  # with its fixed header
        self.is_full = self.is_stuck = False
        self.full_since = FOREVER
        self.unread_since = FOREVER  # since when the shell reads nothing of it, so that its silence says nothing
        self.holds: set[Client] = set()  # publishers that wait for this connection
        self.held = 0  # connections that this publisher waits for
        self.received = self.sent = self.dropped = 0  # messages
        self.promised = 0  # packets that wait for a sync of the log
        self.is_resuming = False  # whether it first gets again what was under way, after a sync

    @property
    def name(self) -> str:
        """The client id, or the address before the CONNECT."""
        return self.session.client_id if self.session is not None else self.remote.address

    def send(self, parcel: Parcel, ids: Sequence[int], now: float, dup: bool = False) -> int:
        """Write a run of messages; returns how many were left out because they are larger than the client takes."""
        run = parcel.run
        qos, version = parcel.qos, self.version
        properties = _properties(parcel, now) if version == V5 else None
        if self.alias_maximum and len(run.topic) >= SHORTEST_ALIASED:
            return self._send_aliased(parcel, ids, now, dup, properties or {})
        if properties or qos or dup:
            data = encoder.publish(version, run, qos, parcel.retain, ids, dup, properties)
        else:
            key = (version, qos, parcel.retain)
            found = run.encoded.get(key)
            if found is None:
                found = run.encoded[key] = encoder.publish(version, run, qos, parcel.retain)
            data = found
        if len(data) > self.packet_size:
            return self._send_small(parcel, ids, now, dup)
        self.out.append(data)
        self.sent += run.count
        return 0

    def _send_aliased(
        self, parcel: Parcel, ids: Sequence[int], now: float, dup: bool, properties: dict[str, Any]
    ) -> int:
        """Write a run with a topic alias, without its topic if the client knows the alias; return as `send` does."""
        run, topic = parcel.run, parcel.run.topic
        alias, is_known = self.given.get(topic), topic in self.given
        if alias is None and len(self.given) < self.alias_maximum:
            alias = len(self.given) + 1
        if alias is not None:
            properties["topic_alias"] = alias
        data = encoder.publish(V5, run, parcel.qos, parcel.retain, ids, dup, properties, "" if is_known else None)
        if len(data) > self.packet_size:
            return self._send_small(parcel, ids, now, dup)
        if alias is not None:
            self.given[topic] = alias
        self.out.append(data)
        self.sent += run.count
        return 0

    def _send_small(self, parcel: Parcel, ids: Sequence[int], now: float, dup: bool) -> int:
        """Write a run message by message, without the messages that are too large for the client."""
        if parcel.run.count == 1:
            self.dropped += 1
            if self.session is not None:
                self.session.acknowledge(ids)
            return 1
        return sum(
            self.send(parcel.part(place, place + 1), ids[place : place + 1], now, dup)
            for place in range(parcel.run.count)
        )


def _properties(parcel: Parcel, now: float) -> dict[str, Any] | None:
    """The properties for a receiver: the publisher's properties, the time left, and the receiver's identifiers."""
    run = parcel.run
    if run.properties is None and not parcel.identifiers:
        return None
    properties = {} if run.properties is None else dict(run.properties)
    properties.pop("topic_alias", None)
    if "message_expiry_interval" in properties:
        properties["message_expiry_interval"] = max(1, round(run.expires - now))
    if parcel.identifiers:
        properties["subscription_identifier"] = list(parcel.identifiers)
    return properties


def is_expired(run: Publish, now: float) -> bool:
    """Whether the lifetime that the publisher gave is over."""
    return run.expires <= now


def _fitting(run: Publish, room: int) -> int:
    """How many messages of a run fit into so many bytes."""
    count = 0
    for payload in run.payloads:
        room -= len(payload)
        if room < 0:
            break
        count += 1
    return count
