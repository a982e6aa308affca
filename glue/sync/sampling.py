"""Samples of topics for a threaded endpoint that watches others, such as `glue spy`; see `glue.topics.samples`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from glue.contract import Subscribe
from glue.endpoint.core import check_not_reserved
from glue.endpoint.handlers import MessageHandler
from glue.endpoint.queues import Kept
from glue.endpoint.sealing import require
from glue.topics import check_pattern
from glue.topics.wrapped import sampled

if TYPE_CHECKING:
    from glue.sync.endpoint import Endpoint
    from glue.sync.subscription import Subscription


def sample(
    endpoint: Endpoint, pattern: str, handler: MessageHandler, interval: float = 1.0, count: int = 1000
) -> Subscription:
    """Watch the topics that match a pattern, without being a subscriber.

    interval: seconds; each publisher sends one message of each topic in it.
    count: messages of all topics at most that each publisher sends in an interval, up to 10,000.

    The handler gets each sample as a `Message` with the sequence number of the message itself. `message.encoded` is the
    payload as it travelled; codecs are not applied. Raises TopicError, ForbiddenError, ClosedError.
    """
    check_pattern(pattern)
    check_not_reserved(pattern)
    require(endpoint._core.guard, "subscribe", (pattern,))
    driver = endpoint._running()
    subscription = endpoint._open(pattern, handler, Kept(endpoint._owner, time.monotonic), False)
    driver.order(Subscribe(subscription, sampled(max(1, round(interval * 1000)), count, pattern)))
    return subscription
