"""The client's side of MQTT, written from the specifications alone: packets of a client, and what a broker sends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from glue.gateway.mqtt.access import Access, Everybody
from glue.gateway.mqtt.broker import Broker
from glue.gateway.mqtt.identity import Remote
from glue.gateway.mqtt.limits import Limits
from glue.gateway.mqtt.recovery import recover
from glue.gateway.mqtt.session import Client
from glue.gateway.mqtt.store import Store
from glue.storage import Directory


def text(value: str | bytes) -> bytes:
    """A string or bytes with two bytes of length."""
    raw = value.encode() if isinstance(value, str) else value
    return len(raw).to_bytes(2, "big") + raw


def length(value: int) -> bytes:
    """A variable byte integer."""
    out = b""
    while True:
        value, byte = divmod(value, 128)
        if not value:
            return out + bytes((byte,))
        out += bytes((byte | 128,))


def packet(first: int, *parts: bytes) -> bytes:
    """A packet of a first byte and parts."""
    body = b"".join(parts)
    return bytes((first,)) + length(len(body)) + body


def properties(raw: bytes = b"") -> bytes:
    """Properties, already written, with their length."""
    return length(len(raw)) + raw


def connect(
    client_id: str = "c",
    version: int = 4,
    clean: bool = True,
    keep_alive: int = 0,
    will: tuple[str, bytes, int, bool] | None = None,
    user: str | None = None,
    password: bytes | None = None,
    raw: bytes = b"",
    will_raw: bytes = b"",
) -> bytes:
    """A CONNECT; `raw` and `will_raw` are properties, already written."""
    flags = clean << 1 | (user is not None) << 7 | (password is not None) << 6
    parts = []
    if will is not None:
        topic, payload, qos, retain = will
        flags |= 4 | qos << 3 | retain << 5
        parts += [properties(will_raw)] if version == 5 else []
        parts += [text(topic), text(payload)]
    parts += [text(user)] if user is not None else []
    parts += [text(password)] if password is not None else []
    head = text("MQIsdp" if version == 3 else "MQTT") + bytes((version, flags)) + keep_alive.to_bytes(2, "big")
    return packet(0x10, head, properties(raw) if version == 5 else b"", text(client_id), *parts)


def publish(
    topic: str,
    payload: bytes,
    qos: int = 0,
    number: int = 0,
    retain: bool = False,
    dup: bool = False,
    version: int = 4,
    raw: bytes = b"",
) -> bytes:
    """A PUBLISH."""
    middle = number.to_bytes(2, "big") if qos else b""
    return packet(
        0x30 | dup << 3 | qos << 1 | retain, text(topic), middle, properties(raw) if version == 5 else b"", payload
    )


def subscribe(number: int, *filters: tuple[str, int], version: int = 4, raw: bytes = b"") -> bytes:
    """A SUBSCRIBE of filters with their options."""
    tail = b"".join(text(name) + bytes((options,)) for name, options in filters)
    return packet(0x82, number.to_bytes(2, "big"), properties(raw) if version == 5 else b"", tail)


def unsubscribe(number: int, *filters: str, version: int = 4) -> bytes:
    """An UNSUBSCRIBE."""
    tail = b"".join(map(text, filters))
    return packet(0xA2, number.to_bytes(2, "big"), properties() if version == 5 else b"", tail)


def acknowledge(kind: int, number: int) -> bytes:
    """A PUBACK (4), PUBREC (5), PUBREL (6) or PUBCOMP (7)."""
    return bytes((kind << 4 | (2 if kind == 6 else 0), 2)) + number.to_bytes(2, "big")


PING = b"\xc0\x00"
DISCONNECT = b"\xe0\x00"


class Sent(NamedTuple):
    """A packet of the broker."""

    kind: int
    flags: int
    body: bytes


class Publication(NamedTuple):
    """A PUBLISH of the broker."""

    topic: str
    payload: bytes
    qos: int
    number: int
    retain: bool
    dup: bool
    properties: bytes


def split(data: bytes) -> Iterator[Sent]:
    """The packets in the bytes of a broker; all must be whole."""
    at = 0
    while at < len(data):
        first, at = data[at], at + 1
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        assert at + size <= len(data), "the broker sent a part of a packet"
        yield Sent(first >> 4, first & 15, data[at : at + size])
        at += size


def publication(sent: Sent, version: int = 4) -> Publication:
    """Read a PUBLISH."""
    assert sent.kind == 3
    stop = 2 + int.from_bytes(sent.body[:2], "big")
    topic, rest, qos, number, raw = sent.body[2:stop].decode(), sent.body[stop:], sent.flags >> 1 & 3, 0, b""
    if qos:
        number, rest = int.from_bytes(rest[:2], "big"), rest[2:]
    if version == 5:
        size = rest[0]
        assert size < 128, "tests use short properties"
        raw, rest = rest[1 : 1 + size], rest[1 + size :]
    return Publication(topic, rest, qos, number, bool(sent.flags & 1), bool(sent.flags & 8), raw)


class Device:
    """A client at a `Bench`."""

    def __init__(self, bench: Bench, client: Client, version: int) -> None:
        self.client = client
        self.version = version
        self._bench = bench

    def send(self, *packets: bytes) -> None:
        """Send packets in one write."""
        self._bench.broker.receive(self._bench.now, self.client, b"".join(packets))

    def read(self) -> list[Sent]:
        """What the broker has written since."""
        out, self.client.out = self.client.out, []
        return list(split(b"".join(out)))

    def messages(self) -> list[Publication]:
        """The messages since; nothing else may have come."""
        return [publication(sent, self.version) for sent in self.read()]

    def payloads(self) -> list[bytes]:
        """The payloads of `messages`."""
        return [message.payload for message in self.messages()]

    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self.client.is_closing

    def leave(self) -> None:
        """Break the connection."""
        self._bench.broker.lost(self._bench.now, self.client)

    def disconnect(self) -> None:
        """Say goodbye, and close."""
        self.send(DISCONNECT)
        self.leave()


class Bench:
    """A broker in virtual time."""

    def __init__(
        self, access: Access | None = None, limits: Limits | None = None, directory: Directory | None = None,
        now: float = 1_000.0,
    ) -> None:  # fmt: skip
        """With a directory, what it stores is taken over and stored there; see `sync`."""
        self.now = now
        self.broker = Broker(access or Everybody(), Random(1), limits)
        self._links = 0
        self.store: Store | None = None
        if directory is not None:
            self.store = Store(directory, Random(2), lambda: self.now + 1e9, segment_size=4096)
            recover(now, self.broker, self.store)

    def sync(self) -> None:
        """Make what was stored durable, with what follows from it."""
        assert self.store is not None
        while self.store.deadline < float("inf") or self.store.is_pending:
            self.store.sync(self.now)

    def save(self) -> None:
        """Make a snapshot, and remove what is no longer needed."""
        assert self.store is not None
        self.sync()
        snapshot, needed = self.store.snapshot(self.broker.state_events(self.now)), self.broker.needed_from()
        self.store.save(snapshot)
        self.store.trim(needed)

    def link(self, version: int = 4, is_local: bool = True) -> Device:
        """A connection that has not said anything."""
        self._links += 1
        client = self.broker.open(self.now, self._links, Remote(f"10.0.0.1:{self._links}", "", is_local))
        return Device(self, client, version)

    def connect(self, client_id: str = "c", version: int = 4, **options: Any) -> Device:
        """A client that is connected; what the broker answered has been read."""
        device = self.link(version)
        device.send(connect(client_id, version, **options))
        (answer,) = device.read()[:1]
        assert answer.kind == 2, answer
        assert answer.body[1] == 0, answer
        return device

    def subscriber(self, *filters: tuple[str, int], client_id: str = "s", version: int = 4, **options: Any) -> Device:
        """A client with subscriptions; retained messages have been read."""
        device = self.connect(client_id, version, **options)
        device.send(subscribe(1, *filters, version=version))
        device.read()
        return device

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        until = self.now + seconds
        while self.broker.deadline <= until:
            self.now = max(self.now, self.broker.deadline)
            self.broker.advance(self.now)
        self.now = until


def chunks(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Data in pieces of these sizes, in turn."""
    at = place = 0
    while at < len(data):
        size = sizes[place % len(sizes)]
        yield data[at : at + size]
        at, place = at + size, place + 1
