"""The limits of a broker, with their arithmetic. Each is told to clients of MQTT 5 where the protocol can say it."""

from __future__ import annotations

from dataclasses import dataclass

from glue.gateway.mqtt.codes import LARGEST_PACKET


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one broker. Times are in seconds, sizes in bytes."""

    packet_size: int = LARGEST_PACKET
    """The largest packet of a client, without its fixed header of at most five bytes."""

    clients: int = 20_000
    """Connections at a time; at 15 kB each they take 300 MB."""

    inflight: int = 1_024
    """Messages of QoS 1 and 2 under way to a client at a time, unless it asks for fewer. Twenty, as some brokers have,
    bound a client at 1 ms of round trip to 20,000 messages a second."""

    receive_maximum: int = 1_024
    """Messages of QoS 2 under way from a client."""

    queue_messages: int = 100_000
    """Messages that wait for a client that is away or slow; what comes on top is dropped and counted."""

    queue_bytes: int = 64 << 20
    """Bytes of these messages."""

    sessions: int = 100_000
    """Sessions of clients that are away; beyond it the one that has been away longest is ended."""

    session_expiry: float = 7 * 86_400.0
    """How long the session of an absent client is kept at most; a client of MQTT 3 cannot ask for less."""

    retained: int = 1_000_000
    """Retained messages."""

    topic_aliases: int = 256
    """Topic aliases of a client of MQTT 5: at 65,535 bytes each they take 16 MB."""

    subscriptions: int = 10_000
    """Topic filters of a session."""

    keep_alive: int = 65_535
    """The longest keep-alive of a client of MQTT 5, which is told. A client that asks for none has none."""

    connect_timeout: float = 10.0
    """Time from a connection to its CONNECT."""

    stuck_after: float = 0.5
    """How long publishers wait for a receiver whose connection takes nothing; then it is slow, and they go on."""
