"""Typed topics of a threaded endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, Unpack

from glue.endpoint.message import Message
from glue.endpoint.type_news import Mismatch
from glue.endpoint.typed import (
    BaseTopic,
    PublishOptions,
    SubscribeOptions,
    TypedHandler,
    TypedMessage,
    Types,
    check_typed,
)
from glue.schema import SUBSCRIBE
from glue.sync.subscription import Subscription

T = TypeVar("T")


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
    """A topic, or a pattern of topics, whose messages are values of one type. `Endpoint.topic` makes it."""

    def __init__(
        self, endpoint: Any, types: Types, pattern: str, kind: type[T], codec: str | None, writable: bool
    ) -> None:
        """Use `Endpoint.topic`; `endpoint` is that endpoint, whose file imports this one."""
        super().__init__(types, pattern, kind, codec, writable)
        self._endpoint = endpoint

    def publish(self, value: T, topic: str | None = None, **options: Unpack[PublishOptions]) -> None:
        """Publish a value; `topic` names the topic if the pattern has wildcards. Options are those of `publish`.

        Raises TopicError for a topic that the pattern does not match, PayloadError for a value that is none of the
        type, and what `Endpoint.publish` raises.
        """
        name = self._name(topic)
        self._endpoint.publish(name, self._payload(value), codec=self._payload_codec, **options)

    def subscribe(
        self, handler: TypedHandler[T] | None = None, **options: Unpack[SubscribeOptions]
    ) -> TypedSubscription[T]:
        """Receive typed messages; the handler is called with each `TypedMessage`. None: iterate over the result.

        Raises what `Endpoint.subscribe` raises.
        """
        self._types.announce(self, SUBSCRIBE)
        called = None if handler is None else self._calls(handler)
        return TypedSubscription(self._endpoint.subscribe(self.pattern, called, **options), self._typed)

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


class SyncTyped:
    """The method of `glue.Endpoint` for typed topics."""

    _types: Types | None = None

    def topic(self, pattern: str, kind: type[T], *, codec: str | None = None, writable: bool = False) -> Topic[T]:
        """Give a topic, or a pattern of topics, a type: its messages are values of the type.

        pattern: a topic, or a pattern with the wildcards `+` and `#`.
        kind: a dataclass, msgspec.Struct, pydantic model, protobuf message, or numpy.ndarray.
        codec: how values travel, such as "msgpack"; None: as JSON, protobuf or an array.
        writable: copy each array that arrives, so that it can be changed.

        Raises TopicError, and ConfigurationError for a type that cannot travel.
        """
        endpoint: Any = self
        check_typed(codec, writable, kind)
        endpoint._running()
        if self._types is None or not self._types.is_of(endpoint._core):
            self._types = Types(
                endpoint._core, endpoint._owner, endpoint._order_quietly, endpoint._tell_mismatch, False
            )
        return Topic(endpoint, self._types, pattern, kind, codec, writable)

    def _tell_mismatch(self, mismatch: Mismatch) -> bool:
        """Call the callback of mismatches; returns whether there is one."""
        endpoint: Any = self
        if endpoint.on_mismatch is None:
            return False
        try:
            endpoint.on_mismatch(mismatch)
        except BaseException:  # the program's own affair
            endpoint._callback_failed(mismatch)
        return True
