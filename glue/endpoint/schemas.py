"""The schemas of all typed topics: retained values on `$glue/schema/HASH`, checked against their hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from glue import schema
from glue.contract import Delivery, Event
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receivers import Receiver
from glue.endpoint.type_news import TypeNews
from glue.endpoint.typed import SCHEMA
from glue.requests.directory import matches
from glue.schema import PUBLISH

if TYPE_CHECKING:  # imported when used: most programs record nothing
    from glue.recording import RecordedMessage
    from glue.recording.writer import Schema

DOCUMENTS: Final = 4096
"""Schemas that are remembered, of 64 kB each at most; those of a network are some kB each."""


class Schemas(Receiver):
    """Receives the schemas of all typed topics: subscribe it to `$glue/schema/+`. Finds them again."""

    def __init__(self, types: TypeNews, owner: SubscriptionOwner, counts: bool) -> None:
        """`counts`: as for `Kept`."""
        super().__init__()
        self._types = types
        self._owner = owner
        self._counts = counts
        self._documents: dict[str, bytes] = {}

    def _deliver(self, event: Event) -> None:
        """Take schemas."""
        if not isinstance(event, Delivery):
            return
        for payload in event.payloads:
            self._take(event.topic.removeprefix(SCHEMA), payload)
        self._owner.settled("handled", len(event.payloads))
        if self._counts:
            self._owner.handled(event)

    def _take(self, hash: str, payload: Any) -> None:
        """Remember a schema if it is the one of this hash: any endpoint may publish there."""
        try:
            document = orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # bytes, or nested too deep
            return
        is_small = len(document) <= schema.SCHEMA_LIMIT and len(self._documents) < DOCUMENTS
        if is_small and schema.hash_of(document) == hash:
            self._documents[hash] = document

    def find(self, hash: str) -> bytes | None:
        """Return the schema of a hash as JSON; None if it has not come. May be called from any thread."""
        return self._documents.get(hash)

    def schema_of(self, message: RecordedMessage) -> Schema | None:
        """Return the schema of the type as which the publisher announced a topic. May be called from any thread."""
        from glue.recording.writer import Schema

        for peer, told in self._types.directory:
            if peer == message.publisher_id and told.way == PUBLISH and matches(told.pattern, message.topic):
                document = self._documents.get(told.hash)
                return None if document is None else Schema(told.name, document)
        return None
