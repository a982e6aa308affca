"""The state that all routes of a door share: endpoint, subscriptions, streams and rights."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from glue.aio import Endpoint
from glue.endpoint.durability import Acks
from glue.gateway.http.delivering import Delivering
from glue.gateway.http.feed import Feed
from glue.gateway.http.idempotency import Answer, Idempotency
from glue.gateway.http.limits import Limits
from glue.gateway.http.paths import Paths
from glue.gateway.http.problems import ProblemError
from glue.gateway.http.publishing import ACKS_TIME, Publisher
from glue.gateway.http.tokens import Access
from glue.gateway.http.typed import TypedTopics
from glue.gateway.refusals import Refusals
from glue.gateway.rights import Rights

logger = logging.getLogger("glue.http")


class Door:
    """The parts of a running door."""

    def __init__(
        self, endpoint: Endpoint, access: Access, limits: Limits, delivering: Delivering, feed: Feed,
        idempotency: Idempotency, models: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.endpoint = endpoint
        self.access = access
        self.limits = limits
        self.delivering = delivering
        self.feed = feed
        self.idempotency = idempotency
        self.models = models
        self.paths = Paths(endpoint)
        self.typed = TypedTopics(endpoint)
        guard = endpoint._core.guard
        self.rules = None if guard is None else Rights("http", guard)
        """The rules of the group; None without identities."""
        self._publisher = Publisher(endpoint)
        self.statistics: Counter[str] = Counter()
        self.refusals = Refusals(logger.warning)
        """What clients are refused, for the log."""
        self.describe: Callable[[], dict[str, Any]] = dict
        """Returns the OpenAPI description of the routes; set by the server."""
        self.streams = 0
        """Streams of clients that are open now."""

    @property
    def rights_revision(self) -> tuple[int, int]:
        """Another value after each change of tokens or rules."""
        return self.access.revision, 0 if self.rules is None else self.rules.revision

    async def publish(self, topic: str, payload: Any, acks: Acks | str | None, options: Mapping[str, Any]) -> Answer:
        """Publish a message; returns once it is as durable as asked.

        Without `acks`, this is the door's disk if the door keeps the topic there, else nothing is waited for. Raises
        ProblemError, and what `Endpoint.publish` raises.
        """
        journal = self.delivering.journal
        if acks is None:
            acks = "disk" if journal.data_dir is not None and journal.keeps(topic) else "sent"
        self.statistics["messages published"] += 1
        wanted: Any = None if acks == "sent" else acks
        if not options:
            keepers = await self._publisher.publish(topic, payload, wanted)
        elif wanted is None:
            await self.endpoint.publish(topic, payload, **options)
        else:
            keepers = await self._publish_alone(topic, payload, wanted, options)
        return 202, {"topic": topic, "acks": acks} if wanted is None else {
            "topic": topic, "acks": acks, "durable": keepers,
        }  # fmt: skip

    async def _publish_alone(self, topic: str, payload: Any, acks: Any, options: Mapping[str, Any]) -> list[str]:
        """Publish a message with options, and wait for its keepers."""
        asked: Any = {**options, "receipt": True, "acks": acks}
        receipt = await self.endpoint.publish(topic, payload, **asked)
        try:
            async with asyncio.timeout(ACKS_TIME):
                is_durable = await receipt
        except TimeoutError:
            raise ProblemError(504, f"no acknowledgement within {ACKS_TIME:g} s; the message may be stored") from None
        if not is_durable:
            raise ProblemError(503, f"not as durable as asked: {receipt.failure}", {"retry-after": "1"})
        return list(receipt.durable)
