"""The content of a delivery: body, signature and description.

Signatures are those of Standard Webhooks (HMAC-SHA256 over `id.timestamp.body`); several secrets give several
signatures, so that a secret can be changed without a gap. The description is CloudEvents 1.0, binary content mode.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote

import orjson

from glue.errors import ConfigurationError
from glue.storage import JSON, Record

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
TOLERANCE: Final = 300.0
"""Seconds by which the time of a delivery may differ from the receiver's: a later replay is refused."""


class Item(NamedTuple):
    """A message of the log."""

    offset: int
    record: Record
    place: int
    """Its place among the messages of the record."""

    @property
    def payload(self) -> bytes:
        """The payload, JSON text if it was published as a JSON value."""
        return self.record.payloads[self.place]

    @property
    def sequence(self) -> int:
        """The number among the messages of its publisher and topic."""
        return self.record.sequence + self.place


def new_secret(entropy: Callable[[int], bytes]) -> str:
    """Make a secret from random bytes, such as those of `os.urandom`."""
    return PREFIX + base64.b64encode(entropy(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Return the key of a secret. Raises ConfigurationError."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if not 16 <= len(key) <= 64:
        raise ConfigurationError(
            "a secret is whsec_ and 16 to 64 bytes in base64; leave it out, and the door makes one"
        )
    return key


def signature(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> str:
    """Return the signatures of a delivery, one for each secret."""
    signed = f"{id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(key_of(secret), signed, "sha256")).decode() for secret in secrets
    )


def is_signed(secrets: Sequence[str], id: str, timestamp: str, body: bytes, signatures: str, now: float) -> bool:
    """Whether one of the signatures is right for one of the secrets, and the time is within five minutes."""
    try:
        if abs(int(timestamp) - now) > TOLERANCE:
            return False
        expected = signature(secrets, id, int(timestamp), body).split()
    except ValueError:
        return False
    given = signatures.encode(errors="replace").split()[:16]
    return any(hmac.compare_digest(one, right.encode()) for one in given for right in expected)


def message_id(subscription: str, item: Item) -> str:
    """Return the id of a delivery, the same at each attempt and at each door."""
    record = item.record
    text = f"{subscription}\n{record.origin}\n{record.life}\n{item.sequence}\n{record.topic}"
    return "msg_" + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def headers_of(subscription: str, secrets: Sequence[str], item: Item, body: bytes, unix_time: float) -> dict[str, str]:
    """Return the headers of a delivery."""
    record, id, timestamp = item.record, message_id(subscription, item), int(unix_time)
    headers = {
        "content-type": "application/json" if record.flags & JSON else _content_type(record.properties),
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "ce-specversion": "1.0",
        "ce-id": f"{record.life}/{item.sequence}",
        "ce-source": f"glue://{record.origin}/{quote(record.topic, safe='')}",
        "ce-type": quote(record.type or "glue.message", safe=" /"),
        "ce-subject": quote(record.topic, safe="/+ "),
        "ce-time": datetime.fromtimestamp(record.published_at, UTC).isoformat().replace("+00:00", "Z"),
        "ce-gluesequence": str(item.sequence),
        "ce-gluelife": str(record.life),
        "ce-gluepublisher": quote(record.name, safe=" "),
    }
    if secrets:
        headers["webhook-signature"] = signature(secrets, id, timestamp, body)
    return headers


def carrier_body(item: Item) -> bytes:
    """Return the body that a subscriber of Carrier's route gets: payload in base64, and its type."""
    record = item.record
    return orjson.dumps({"payload": base64.b64encode(item.payload).decode(), "payloadType": record.type or ""})


def _content_type(properties: Mapping[str, str]) -> str:
    told = properties.get("content-type", "")
    return told if told.isascii() and told.isprintable() and "/" in told else "application/octet-stream"
