"""Metadata of messages: properties as a program gives them, and payloads in a codec, encoded and decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from glue.contract import CodedDelivery, Delivery, Event, Missed
from glue.contract.logs import lazy_logger
from glue.contract.metadata import DELAYED, CodecTag, Metadata, fault_of_properties
from glue.endpoint.accounting import MISSED
from glue.errors import ConfigurationError, GlueError, MissingExtraError, PayloadError

UNKNOWN, MALFORMED = "unknown codec", "malformed payload"
"""Causes of gaps: the codec is not there, or it refused a payload."""

TOLD = 256
"""Codecs whose absence is told of; their names come from the network."""

logger = lazy_logger("glue")


def metadata_of(properties: Mapping[str, str] | None, tag: CodecTag | None) -> Metadata:
    """The metadata of a message, without what glue alone sets.

    Raises ConfigurationError for properties that cannot travel.
    """
    if not properties:
        return Metadata(None, tag)
    fault = fault_of_properties(properties)
    if fault:
        raise ConfigurationError(f"properties={properties!r:.80}: {fault}")
    kept = {name: value for name, value in properties.items() if name != DELAYED}
    return Metadata(MappingProxyType(kept) if kept else None, tag)


def encode(payload: Any, name: str) -> tuple[bytes, CodecTag]:
    """A payload as its codec encodes it, and the codec's tag.

    Raises ConfigurationError for an unknown codec, MissingExtraError, and PayloadError for what the codec refuses.
    """
    from glue.codecs import codec_for  # imported here: most programs publish bytes and JSON

    codec, tag = codec_for(name)
    try:
        data = codec.encode(payload)
        if data.__class__ is not bytes:
            data = _unchanging(data)
    except GlueError:
        raise
    except Exception as error:  # the codec's own affair
        raise PayloadError(f"the codec {name!r} cannot encode a {type(payload).__name__}: {error}") from error
    return data, tag  # type: ignore[return-value]  # a view serves as bytes


def _unchanging(data: Any) -> bytes | memoryview:
    """Return the output of a codec as read-only bytes; a view of read-only bytes stays a view."""
    view = memoryview(data)
    if view.readonly and view.contiguous and view.format == "B" and view.ndim == 1:
        return view
    return bytes(view)


class Decoder:
    """Decodes the deliveries of one endpoint; `statistics` are the endpoint's."""

    def __init__(self, statistics: Counter[str]) -> None:
        self._statistics = statistics
        self._told: set[CodecTag] = set()

    def taken(self, coded: CodedDelivery, hold: Callable[[Delivery], None]) -> list[Event]:
        """Decode a delivery that came in a turn, and count what it brought; `hold` counts what waits."""
        found: list[Event] = [*self.opened(coded)]
        for event in found:
            if isinstance(event, Delivery):
                hold(event)
                self._statistics["messages arrived"] += len(event.payloads) * len(event.tokens)
            elif isinstance(event, Missed):
                self._statistics[MISSED + event.cause] += event.count * len(event.tokens)
        return found

    def opened(self, coded: CodedDelivery) -> list[Delivery | Missed]:
        """Decode a delivery: what its codec decodes, and gaps for the rest."""
        tag = coded.metadata.codec
        assert tag is not None
        try:
            from glue.codecs import codec_of_tag  # as above

            codec = codec_of_tag(tag)
        except Exception as error:  # also of what an entry point imports
            self._tell(tag, coded, error)
            return [self._missed(coded, len(coded.payloads), UNKNOWN)]
        found: list[Delivery | Missed] = []
        run: Delivery | None = None
        for sequence, data in enumerate(coded.to_owned(), coded.sequence):
            try:
                value = codec.decode(data)
            except Exception:  # a peer's mistake, or the codec's
                run = None
                found.append(self._missed(coded, 1, MALFORMED))
                continue
            if run is None:
                run = _part(coded, sequence)
                found.append(run)
            run.payloads.append(value)  # type: ignore[attr-defined]  # a list
            run.encoded.append(data)  # type: ignore[attr-defined]
        return found

    def _missed(self, coded: Delivery, count: int, cause: str) -> Missed:
        self._statistics[f"messages dropped: {cause}"] += count
        return Missed(coded.topic, coded.publisher, coded.publisher_id, count, cause, coded.tokens)

    def _tell(self, tag: CodecTag, coded: Delivery, error: Exception) -> None:
        """Log once that a codec is not there."""
        if tag in self._told or len(self._told) >= TOLD:
            return
        self._told.add(tag)
        known = isinstance(error, GlueError | MissingExtraError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        logger.error("messages on %r from %s are dropped: %s", coded.topic, coded.publisher, reason)


def _part(coded: CodedDelivery, sequence: int) -> Delivery:
    """A delivery like this one, which begins with a message of this number and has no payloads yet."""
    it = coded
    source = (it.type, it.publisher, it.publisher_id, it.incarnation)
    part = Delivery(it.topic, [], *source, sequence, it.published_at, it.retained, it.tokens, it.expires)
    part.metadata, part.encoded = it.metadata, []
    if (age := getattr(it, "age", 0.0)) > 0:
        part.age = age
    if hasattr(it, "wrapped"):
        part.wrapped = it.wrapped
    part.length = it.length
    if part.length is None:
        part.length = -(-sum(map(len, it.payloads)) // len(it.payloads))
    return part
