"""The wishes of a subscription: patterns, and the options that reduce its messages."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from glue.contract import Subscribe
from glue.endpoint.core import EndpointCore, check_not_reserved
from glue.endpoint.handlers import Handler
from glue.endpoint.queues import Clock, Kept, MessageBuffer, PokedRoom
from glue.endpoint.sealing import require
from glue.errors import ConfigurationError, TopicError
from glue.topics import check_pattern
from glue.topics.names import is_wildcard
from glue.topics.wrapped import INTERVAL_LIMIT, limited

if TYPE_CHECKING:  # imported when used: most programs name no quality of service or group, and read no history
    from glue.endpoint.history_options import Start
    from glue.endpoint.qos import QoS
    from glue.endpoint.shared import Order

PATTERNS = 1024
"""Patterns of one subscription at most: each is announced to all peers."""

Queue = Kept | MessageBuffer | PokedRoom
"""Where the messages of a subscription wait."""

GROUP_NAME = 200
"""Characters in the name of a group at most."""

Pattern = str | Sequence[str]
"""One pattern, or several."""


class Asking(TypedDict, total=False):
    """Options of `subscribe`.

    * `local`: False leaves out what this endpoint itself publishes.
    * `max_rate`: messages a second and topic at most; the publisher leaves out all but the latest value.
    * `group`: the name of a group; each message goes to one of the members.
    * `deadline`: seconds after which `on_deadline` is called for a publisher that promised to publish as often.
    * `start`: begin with history: "earliest", "latest", "-10m", a datetime, or the number of a message.
    * `last`: begin with so many messages of each topic and publisher.
    * `consumer`: the name of a durable consumer, which goes on where it left off, or, if new, begins at `start`.
    * `ordered`: the messages of one topic go to one member of the consumer, in order.
    * `by_hand`: only `message.acknowledge()` acknowledges a message of the consumer, not the handler's return.
    * `qos`: a quality of service, which stands for `start` or `last`, `deadline`, `policy` and `limit`.
    """

    local: bool
    max_rate: float | None
    group: str | None
    deadline: float | None
    start: Start | None
    last: int | None
    consumer: str | None
    ordered: bool
    by_hand: bool
    qos: QoS | None


class Wanted:
    """The checked patterns and options of a subscription."""

    __slots__ = (
        "by_hand", "consumer", "deadline", "group", "interests", "last", "local", "name", "ordered", "patterns", "qos",
        "start",
    )  # fmt: skip

    def __init__(self, pattern: Pattern, asking: Asking, core: EndpointCore) -> None:
        """Raises TopicError, ConfigurationError; TypeError for an option that there is not."""
        unknown = asking.keys() - Asking.__annotations__.keys()
        if unknown:
            raise TypeError(f"subscribe() has no option {min(unknown)!r}")
        self.patterns = patterns = _patterns(pattern)
        require(core.guard, "subscribe", patterns)
        self.name = ", ".join(patterns)
        self.local = asking.get("local", True)
        if not isinstance(self.local, bool):
            raise ConfigurationError(f"local={self.local!r}: expected True or False")
        self.deadline = _seconds(asking.get("deadline"))
        self.start, self.last = asking.get("start"), asking.get("last")
        self.qos = asking.get("qos")
        self.consumer = asking.get("consumer")
        self.ordered, self.by_hand = asking.get("ordered", False), asking.get("by_hand", False)
        if self.qos is not None:
            self._request(self.qos, asking)
        if self.has_history and len(patterns) > 1:
            raise ConfigurationError("start and last are for a single pattern; subscribe to each")
        max_rate, self.group = asking.get("max_rate"), asking.get("group")
        self.interests = patterns
        if self.consumer is not None:
            self._consume(self.consumer, asking)
        elif self.ordered or self.by_hand:
            raise ConfigurationError("ordered and by_hand are for a subscription with consumer=…")
        elif self.group is not None:
            _check_group(self.group)
            others = max_rate, self.deadline, self.qos
            if any(one is not None for one in others) or not self.local or self.has_history:
                raise ConfigurationError(
                    "group=…: such a subscription has no max_rate, local, deadline, start, last, qos"
                )
            from glue.topics.shared.wire import interest_of, member_id

            member = member_id(core.identity.endpoint_id, core.identity.incarnation, core.next_member())
            self.interests = [interest_of(self.group, member, one) for one in patterns]
        elif max_rate is not None and self.has_history:
            raise ConfigurationError(f"max_rate={max_rate!r}: that is for a subscription without start and last")
        elif max_rate is not None:
            interval = _interval(max_rate)
            self.interests = [limited(interval, one) for one in patterns]
        for interest in self.interests:
            check_pattern(interest)  # which may be longer

    def _consume(self, consumer: str, asking: Asking) -> None:
        """Be a member of a durable consumer. Raises ConfigurationError."""
        others = asking.keys() & {"local", "max_rate", "group", "deadline", "last", "qos"}
        if others:
            raise ConfigurationError(f"consumer=…: such a subscription has no {min(others)}")
        if len(self.patterns) > 1:
            raise ConfigurationError("consumer=… is for a single pattern; subscribe to each")
        for name, value in (("ordered", self.ordered), ("by_hand", self.by_hand)):
            if not isinstance(value, bool):
                raise ConfigurationError(f"{name}={value!r}: expected True or False")
        _check_group(consumer, "consumer")
        self.interests = [f"$glue/consumer/member/{consumer}/{self.name}"]

    def _request(self, qos: QoS, asking: Asking) -> None:
        """Take from a quality of service what is not given beside it. Raises ConfigurationError."""
        from glue.endpoint.qos import check_qos

        check_qos(qos)
        if self.deadline is None and "deadline" not in asking:
            self.deadline = qos.deadline
        if qos.is_kept and self.start is None and self.last is None:
            if qos.history.depth is None:
                self.start = "earliest"
            else:
                self.last = qos.history.depth

    def queueing(self, policy: str, limit: int | None) -> tuple[str, int | None]:
        """Return the policy and the limit of the queue, with those of the quality of service where none is given."""
        if self.qos is None or policy != "block" or self.qos.overflow == "block":
            return policy, limit
        if limit is None and not any(map(is_wildcard, self.patterns)):
            limit = self.qos.history.depth
        return self.qos.overflow, limit

    def reader(
        self,
        handler: Handler | None,
        payload_only: bool,
        waiting: Queue,
        order: Order,
        clock: Clock,
        by_delivery: bool = False,
    ) -> tuple[Handler | None, bool, Queue]:
        """Return the handler, whether it gets payloads only, and the queue; those of a group acknowledge by `order`.

        `by_delivery`: the subscription tells the queue when a handler is done with a delivery.
        """
        if self.consumer is not None:
            room: Any = waiting
            return room.around(handler, payload_only), False, room
        if self.group is None:
            return handler, payload_only, waiting
        if not isinstance(waiting, Kept):
            raise ConfigurationError('group=…: a shared subscription has the policy "block", as it loses nothing')
        from glue.endpoint.shared import Acknowledger, SharedDeliveries, SharedMessages

        acknowledger = Acknowledger(order, clock)
        if handler is None:
            return None, False, SharedMessages(waiting.owner, clock, acknowledger)
        if payload_only and by_delivery:
            return handler, True, SharedDeliveries(waiting.owner, clock, acknowledger)
        return acknowledger.around(handler, payload_only), False, waiting

    @property
    def has_history(self) -> bool:
        """Whether the subscription begins with history."""
        return self.start is not None or self.last is not None

    def subscribe(self, token: Hashable) -> Subscribe:
        """Return the request that begins the subscription."""
        first, *others = self.interests
        return Subscribe(token, first, others, self.local)


def _patterns(pattern: Pattern) -> list[str]:
    """Return the patterns, checked."""
    patterns = [pattern] if isinstance(pattern, str) else pattern
    if not isinstance(patterns, (list, tuple, set, frozenset)):
        raise TopicError(f"pattern {pattern!r:.80}: expected a string, or several in a list")
    if not 1 <= len(patterns) <= PATTERNS:
        raise TopicError(f"{len(patterns)} patterns: expected 1 to {PATTERNS}")
    for one in patterns:
        check_pattern(one)
        check_not_reserved(one)
    return list(patterns)


def _check_group(group: str, option: str = "group") -> None:
    """Raise ConfigurationError unless it can be the name of a group."""
    is_text = isinstance(group, str) and 1 <= len(group) <= GROUP_NAME
    if not is_text or not {"/", "+", "#", "\0"}.isdisjoint(group):
        raise ConfigurationError(f"{option}={group!r:.80}: expected 1 to {GROUP_NAME} characters without / + and #")


def _seconds(deadline: float | None) -> float | None:
    """The deadline, checked."""
    is_number = isinstance(deadline, (int, float)) and not isinstance(deadline, bool)
    if deadline is not None and (not is_number or not 0.001 <= deadline < math.inf):
        raise ConfigurationError(f"deadline={deadline!r}: expected seconds, at least 0.001")
    return deadline


def _interval(max_rate: float) -> int:
    """Milliseconds between two messages of a topic."""
    is_number = isinstance(max_rate, (int, float)) and not isinstance(max_rate, bool)
    if not is_number or not 1000 / INTERVAL_LIMIT <= max_rate <= 1000:
        raise ConfigurationError(
            f"max_rate={max_rate!r}: expected messages a second, from {1000 / INTERVAL_LIMIT} to 1000"
        )
    return min(math.ceil(1000 / max_rate), INTERVAL_LIMIT)
