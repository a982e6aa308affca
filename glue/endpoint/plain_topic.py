"""A topic, or a pattern of topics, with a quality of service: what typed and plain topics have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from glue.endpoint.core import check_not_reserved
from glue.endpoint.durability import Acks
from glue.endpoint.options import Policy, Priority, Reliability
from glue.errors import TopicError
from glue.requests.directory import matches
from glue.topics import check_pattern, check_topic
from glue.topics.names import is_wildcard

if TYPE_CHECKING:  # imported when used: most programs name no quality of service
    from glue.endpoint.message import Message
    from glue.endpoint.qos import QoS
    from glue.endpoint.qos_methods import Offer

Published = TypeVar("Published", covariant=True)
Subscribed = TypeVar("Subscribed", covariant=True)


class PublishOptions(TypedDict, total=False):
    """Options of a topic's `publish`: those of `Endpoint.publish`."""

    retain: bool
    lifespan: float | None
    reliability: Reliability
    priority: Priority
    properties: Mapping[str, str] | None
    block: bool
    receipt: bool
    acks: Acks | None


class SubscribeOptions(TypedDict, total=False):
    """Options of a topic's `subscribe`: those of `Endpoint.subscribe`."""

    policy: Policy
    limit: int | None


class NamedTopic:
    """Topics of an endpoint, with a quality of service or without."""

    def __init__(self, endpoint: Any, pattern: str, qos: QoS | None) -> None:
        """`endpoint` is of any kind. Raises TopicError, and ConfigurationError for what is no QoS."""
        check_pattern(pattern)
        check_not_reserved(pattern)
        if qos is not None:
            from glue.endpoint.qos import check_qos

            check_qos(qos)
        self.pattern = pattern
        self.qos = qos
        """The quality of service, as given."""
        self._endpoint = endpoint
        self._offer: Offer | None = None

    def announce(self) -> None:
        """Offer the quality of service before the first publication, as a hot standby does that is silent so far.

        `publish` does so by itself. Without a quality of service, this does nothing. Raises ConfigurationError,
        ClosedError.
        """
        if self.qos is not None and self._offer is None:
            self._offer = self._endpoint._offer(self.qos, self.pattern)

    def _name(self, topic: str | None) -> str:
        """The topic to publish to. Raises TopicError."""
        if topic is None:
            if is_wildcard(self.pattern):
                raise TopicError(f"{self!r} stands for many topics: publish(value, topic) names the one")
            return self.pattern
        check_topic(topic)
        if not matches(self.pattern, topic):
            raise TopicError(f"topic {topic!r:.80} does not match {self!r}")
        return topic

    def _send(self, topic: str, payload: Any, options: Mapping[str, Any]) -> Any:
        """Publish; options that are given beside the quality of service count."""
        if self.qos is not None:
            self.announce()
            assert self._offer is not None
            options = {**self._offer.options, **options}
        return self._endpoint.publish(topic, payload, **options)

    def _receive(self, handler: Callable[[Message], Any] | None, options: Mapping[str, Any]) -> Any:
        """Subscribe; options that are given beside the quality of service count."""
        if self.qos is not None:
            options = {"qos": self.qos, **options}
        return self._endpoint.subscribe(self.pattern, handler, **options)

    def close(self) -> None:
        """Take back what announces the topic. Subscriptions go on until they are closed, and history stays."""
        offer, self._offer = self._offer, None
        if offer is not None:
            offer.close()


class PlainTopic(NamedTopic, Generic[Published, Subscribed]):
    """A topic, or a pattern of topics, without a type: `Endpoint.topic(pattern, qos=…)` makes it. A context manager."""

    def publish(self, payload: Any, topic: str | None = None, **options: Unpack[PublishOptions]) -> Published:
        """Publish a payload as `Endpoint.publish` does, with the quality of service; to be awaited in asyncio.

        `topic` names the topic if the pattern has wildcards. With the durability "persistent", and with `receipt`, it
        returns a receipt. Raises TopicError for a topic that the pattern does not match, and what `Endpoint.publish`
        raises.
        """
        return self._send(self._name(topic), payload, options)  # type: ignore[no-any-return]

    def subscribe(
        self, handler: Callable[[Message], Any] | None = None, **options: Unpack[SubscribeOptions]
    ) -> Subscribed:
        """Subscribe as `Endpoint.subscribe` does, with the quality of service. Raises what that raises."""
        return self._receive(handler, options)  # type: ignore[no-any-return]

    def __enter__(self) -> PlainTopic[Published, Subscribed]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Topic {self.pattern!r}>"
