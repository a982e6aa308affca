"""One connection of a client, as the broker sees it: what it has said of itself, and what is to be written to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glue.gateway.mqtt import encoder
from glue.gateway.mqtt.access import Identity, Remote
from glue.gateway.mqtt.codes import V5
from glue.gateway.mqtt.decoder import Decoder
from glue.gateway.mqtt.packets import Connect, Packet, Publish
from glue.gateway.mqtt.session import Parcel, Session

if TYPE_CHECKING:
    from collections.abc import Hashable

FOREVER = float("inf")


class Client:
    """A connection. The shell writes `out`, in order, and then closes it if `is_closing`.

    `is_full` is true while the connection takes nothing more; `is_stuck` when this has lasted for too long.
    """

    __slots__ = (
        "aliases", "connect", "decoder", "dropped", "full_since", "held", "holds", "identity",
        "inflight", "is_closing", "is_full", "is_stuck", "last_heard", "link", "out", "packet_size", "reason",
        "received", "remote", "sent", "session", "since", "timeout", "version", "waits",
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
        self.inflight = 0  # messages of QoS 1 and 2 that may be under way to it
        self.packet_size = FOREVER
        self.is_full = self.is_stuck = False
        self.full_since = FOREVER
        self.holds: set[Client] = set()  # publishers that wait for this connection
        self.held = 0  # connections that this publisher waits for
        self.received = self.sent = self.dropped = 0  # messages

    @property
    def name(self) -> str:
        """The client id, or the address before the CONNECT."""
        return self.session.client_id if self.session is not None else self.remote.address

    def send(self, parcel: Parcel, ids: Sequence[int], now: float, dup: bool = False) -> int:
        """Write a run of messages; returns how many were left out because they are larger than the client takes."""
        run = parcel.run
        qos, version = parcel.qos, self.version
        properties = _properties(parcel, now) if version == V5 else None
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

    def _send_small(self, parcel: Parcel, ids: Sequence[int], now: float, dup: bool) -> int:
        """Write those of a run that are not too large for the client, one by one."""
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
    """The properties that a receiver gets: those of the publisher, the time that is left, its own identifiers."""
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
