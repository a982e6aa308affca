"""Messages of a recording, and the MCAP channels that describe them.

A channel's `message_encoding` is `json`, `msgpack` or `cbor`, the tag of another codec, or `application/octet-stream`.
Its metadata has only what is set:

* `publisher`, `publisher_id`, `incarnation`: name, endpoint id and life of the publisher
* `type`, `codec`, `retained` ("1"), `properties` (a JSON object)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from glue.contract.metadata import CodecTag, is_codec
from glue.errors import MissingExtraError

PROFILE: Final = "glue"
JSON: Final = "json"
BYTES: Final = "application/octet-stream"
ENCODINGS: Final[Mapping[CodecTag, str]] = {1: "msgpack", 2: "cbor"}
"""Codecs that other readers of MCAP know, by their tag on the wire."""


class RecordedMessage(NamedTuple):
    """A message of a recording.

    `time_ns` is when it arrived, `published_ns` when it was published, by the publisher's clock: nanoseconds since
    1970. `payload` is a JSON document if `json`. `publisher_id` is "" and `incarnation` 0 if the file does not tell.
    """

    time_ns: int
    published_ns: int
    topic: str
    sequence: int
    payload: bytes
    json: bool = False
    codec: CodecTag | None = None
    type: str | None = None
    retained: bool = False
    properties: Mapping[str, str] = {}
    publisher: str = ""
    publisher_id: str = ""
    incarnation: int = 0


def encoding_of(message: RecordedMessage) -> str:
    """Return the `message_encoding` of a message's channel."""
    if message.json:
        return JSON
    if message.codec is None:
        return BYTES
    return ENCODINGS.get(message.codec, str(message.codec))


def metadata_of(message: RecordedMessage) -> dict[str, str]:
    """Return the metadata of a message's channel."""
    found = {
        "publisher": message.publisher,
        "publisher_id": message.publisher_id,
        "incarnation": str(message.incarnation) if message.incarnation else "",
        "type": message.type or "",
        "codec": "" if message.codec is None else orjson.dumps(message.codec).decode(),
        "retained": "1" if message.retained else "",
        "properties": orjson.dumps(dict(message.properties)).decode() if message.properties else "",
    }
    return {name: value for name, value in found.items() if value}


def described(topic: str, encoding: str, metadata: Mapping[str, str]) -> RecordedMessage:
    """Return an empty message with what its channel tells; what another program wrote differently is left out."""
    codec, properties = _loaded(metadata.get("codec")), _loaded(metadata.get("properties"))
    known = next((tag for tag, name in ENCODINGS.items() if name == encoding), None)
    incarnation = metadata.get("incarnation", "")
    return RecordedMessage(
        0, 0, topic, 0, b"",
        json=encoding == JSON,
        codec=codec if is_codec(codec) else known,
        type=metadata.get("type") or None,
        retained=metadata.get("retained") == "1",
        properties=properties if _is_properties(properties) else {},
        publisher=metadata.get("publisher", ""),
        publisher_id=metadata.get("publisher_id", ""),
        incarnation=int(incarnation) if incarnation.isascii() and incarnation.isdigit() else 0,
    )  # fmt: skip


def _loaded(text: str | None) -> Any:
    try:
        return None if text is None else orjson.loads(text)
    except ValueError:
        return None


def _is_properties(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def missing_extra(error: ImportError) -> Exception:
    """Return what to raise if the package `mcap` cannot be imported."""
    if error.name is not None and error.name.partition(".")[0] != "mcap":
        return error
    return MissingExtraError.of("a recording in an MCAP file", "mcap", "mcap")
