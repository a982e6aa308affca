"""Typed topics of an asyncio endpoint."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from glue.aio.subscription import Subscription
from glue.endpoint.callbacks import is_coroutine_function
from glue.endpoint.message import Message
from glue.endpoint.plain_topic import PlainTopic, PublishOptions, SubscribeOptions
from glue.endpoint.receipt import AwaitableReceipt
from glue.endpoint.type_news import Mismatch
from glue.endpoint.typed import (
    BaseTopic,
    TypedHandler,
    TypedMessage,
    Types,
    check_typed,
    check_untyped,
)
from glue.schema import SUBSCRIBE

if TYPE_CHECKING:  # imported when used: most programs name no quality of service
    from glue.endpoint.qos import QoS

T = TypeVar("T")

Plain = PlainTopic[Awaitable[AwaitableReceipt | None], Subscription]
"""A topic without a type."""


class TypedSubscription(Generic[T]):
    """The typed messages of a topic; also an asynchronous context manager. Iterate over it, unless it has a handler.

    A message that is no value of the type is left out, and told to `on_mismatch` with the message as it came.
    """

    def __init__(self, subscription: Subscription, typed: Callable[[Message], TypedMessage[T] | None]) -> None:
        self.subscription = subscription
        """The subscription underneath."""
        self._typed = typed

    async def get(self, timeout: float | None = None) -> TypedMessage[T]:
        """The next typed message; raises what `Subscription.get` raises. A message left out restarts the timeout."""
        while True:
            found = self._typed(await self.subscription.get(timeout))
            if found is not None:
                return found

    def __aiter__(self) -> TypedSubscription[T]:
        return self

    async def __anext__(self) -> TypedMessage[T]:
        while True:
            found = self._typed(await anext(self.subscription))
            if found is not None:
                return found

    def close(self) -> None:
        """End the subscription. A second call does nothing."""
        self.subscription.close()

    async def __aenter__(self) -> TypedSubscription[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Topic(BaseTopic[T]):
    """A topic, or a pattern of topics, with values of one type as messages. `Endpoint.topic` makes it."""

    async def publish(
        self, value: T, topic: str | None = None, **options: Unpack[PublishOptions]
    ) -> AwaitableReceipt | None:
        """Publish a value; `topic` names the topic if the pattern has wildcards. Options are those of `publish`.
        With the durability "persistent", and with `receipt`, it returns a receipt.

        Raises TopicError for a topic that the pattern does not match, PayloadError for a value that is none of the
        type, and what `Endpoint.publish` raises.
        """
        name = self._name(topic)
        found: AwaitableReceipt | None = await self._send(
            name, self._payload(value), {"codec": self._payload_codec, **options}
        )
        return found

    def subscribe(
        self, handler: TypedHandler[T] | None = None, **options: Unpack[SubscribeOptions]
    ) -> TypedSubscription[T]:
        """Receive typed messages; the handler is called with each `TypedMessage`, and may be a coroutine function.

        Raises what `Endpoint.subscribe` raises.
        """
        self._types.announce(self, SUBSCRIBE)
        called = None if handler is None else self._calls(handler)
        return TypedSubscription(self._receive(called, options), self._typed)

    def _calls(self, handler: TypedHandler[T]) -> Callable[[Message], Any]:
        typed = self._typed

        def call(message: Message) -> Any:
            found = typed(message)
            return None if found is None else handler(found)

        async def call_and_wait(message: Message) -> None:
            result = call(message)
            if inspect.isawaitable(result):
                await result

        return call_and_wait if is_coroutine_function(handler) else call

    def __enter__(self) -> Topic[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AioTyped:
    """The method of `glue.aio.Endpoint` for typed topics."""

    _types: Types | None = None

    @overload
    def topic(self, pattern: str, *, qos: QoS | None = None) -> Plain: ...

    @overload
    def topic(
        self, pattern: str, kind: type[T], *, qos: QoS | None = None, codec: str | None = None, writable: bool = False
    ) -> Topic[T]: ...

    def topic(
        self,
        pattern: str,
        kind: type[T] | None = None,
        *,
        qos: QoS | None = None,
        codec: str | None = None,
        writable: bool = False,
    ) -> Topic[T] | Plain:
        """Give a topic, or a pattern of topics, a type and a quality of service.

        pattern: a topic, or a pattern with the wildcards `+` and `#`.
        kind: the type of messages: a dataclass, msgspec.Struct, pydantic model, protobuf message, or numpy.ndarray;
            without it, payloads are as those of `publish`.
        qos: a quality of service, such as `glue.EVENT`; see docs/qos.md.
        codec: how values of the type travel, such as "msgpack"; None: as JSON, protobuf or an array.
        writable: copy each arriving array, so that it can be changed.

        Raises TopicError, and ConfigurationError for a type that cannot travel, and for what is no QoS.
        """
        endpoint: Any = self
        endpoint._running()
        if kind is None:
            check_untyped(codec, writable)
            return PlainTopic(endpoint, pattern, qos)
        check_typed(codec, writable, kind)
        if self._types is None or not self._types.is_of(endpoint._core):
            self._types = Types(endpoint._core, endpoint._owner, endpoint._order_quietly, endpoint._tell_mismatch, True)
        return Topic(endpoint, self._types, pattern, kind, codec, writable, qos)

    def _tell_mismatch(self, mismatch: Mismatch) -> bool:
        """Call the callback of mismatches; returns whether there is one."""
        endpoint: Any = self
        if endpoint.on_mismatch is None:
            return False
        endpoint._callbacks.run(endpoint.on_mismatch, mismatch)
        return True
