"""Typed topics of a threaded endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, Unpack

from glue.endpoint.message import Message
from glue.endpoint.plain_topic import PlainTopic, PublishOptions, SubscribeOptions
from glue.endpoint.receipt import WaitingReceipt
from glue.endpoint.typed import BaseTopic, TypedHandler, TypedMessage
from glue.schema import SUBSCRIBE
from glue.sync.subscription import Subscription

T = TypeVar("T")

Plain = PlainTopic[WaitingReceipt | None, Subscription]
"""A topic without a type."""


class TypedSubscription(Generic[T]):
    """The typed messages of a topic; also a context manager. Iterate over it, unless it has a handler.

    A message that is no value of the type is left out, and told to `on_mismatch` with the message as it came.
    """

    def __init__(self, subscription: Subscription, typed: Callable[[Message], TypedMessage[T] | None]) -> None:
        self.subscription = subscription
        """The subscription underneath."""
        self._typed = typed

    def get(self, timeout: float | None = None) -> TypedMessage[T]:
        """The next typed message; raises what `Subscription.get` raises. A message left out restarts the timeout."""
        while True:
            found = self._typed(self.subscription.get(timeout))
            if found is not None:
                return found

    def __iter__(self) -> Iterator[TypedMessage[T]]:
        return self

    def __next__(self) -> TypedMessage[T]:
        while True:
            found = self._typed(next(self.subscription))
            if found is not None:
                return found

    def close(self) -> None:
        """End the subscription. A second call does nothing."""
        self.subscription.close()

    def __enter__(self) -> TypedSubscription[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Topic(BaseTopic[T]):
    """A topic, or a pattern of topics, with values of one type as messages. `Endpoint.topic` makes it."""

    def publish(self, value: T, topic: str | None = None, **options: Unpack[PublishOptions]) -> WaitingReceipt | None:
        """Publish a value; `topic` names the topic if the pattern has wildcards. Options are those of `publish`.
        With the durability "persistent", and with `receipt`, it returns a receipt.

        Raises TopicError for a topic that the pattern does not match, PayloadError for a value that is none of the
        type, and what `Endpoint.publish` raises.
        """
        name = self._name(topic)
        found: WaitingReceipt | None = self._send(name, self._payload(value), {"codec": self._payload_codec, **options})
        return found

    def subscribe(
        self, handler: TypedHandler[T] | None = None, **options: Unpack[SubscribeOptions]
    ) -> TypedSubscription[T]:
        """Receive typed messages; the handler is called with each `TypedMessage`. None: iterate over the result.

        Raises what `Endpoint.subscribe` raises.
        """
        self._types.announce(self, SUBSCRIBE)
        called = None if handler is None else self._calls(handler)
        return TypedSubscription(self._receive(called, options), self._typed)

    def _calls(self, handler: TypedHandler[T]) -> Callable[[Message], Any]:
        typed = self._typed

        def call(message: Message) -> None:
            found = typed(message)
            if found is not None:
                handler(found)

        return call

    def __enter__(self) -> Topic[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
