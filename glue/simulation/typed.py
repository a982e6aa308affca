"""Typed topics in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from glue.endpoint.message import Message
from glue.endpoint.plain_topic import PlainTopic, PublishOptions, SubscribeOptions
from glue.endpoint.receipt import Receipt
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
from glue.simulation.subscription import SimulatedSubscription

if TYPE_CHECKING:  # imported when used: most programs name no quality of service
    from glue.endpoint.qos import QoS

T = TypeVar("T")

Plain = PlainTopic[Receipt | None, SimulatedSubscription]
"""A topic without a type."""


class SimulatedTypedSubscription(Generic[T]):
    """The typed messages of a topic; without a handler, `received` lists them."""

    def __init__(self, received: list[TypedMessage[T]], subscription: SimulatedSubscription) -> None:
        self.received = received
        self.subscription = subscription

    def close(self) -> None:
        """End the subscription. A second call does nothing."""
        self.subscription.close()


class SimulatedTopic(BaseTopic[T]):
    """A topic, or a pattern of topics, with messages that are values of one type; made by `Endpoint.topic`."""

    def publish(self, value: T, topic: str | None = None, **options: Unpack[PublishOptions]) -> Receipt | None:
        """Publish a value; `topic` names the topic if the pattern has wildcards. Options are those of `publish`.
        With the durability "persistent", and with `receipt`, it returns a receipt.

        Raises TopicError for a topic that the pattern does not match, PayloadError for a value that is none of the
        type, and what `Endpoint.publish` raises.
        """
        name = self._name(topic)
        found: Receipt | None = self._send(name, self._payload(value), {"codec": self._payload_codec, **options})
        return found

    def subscribe(
        self, handler: TypedHandler[T] | None = None, **options: Unpack[SubscribeOptions]
    ) -> SimulatedTypedSubscription[T]:
        """Receive typed messages; the handler is called with each `TypedMessage`. None: `received` lists them.

        Raises what `Endpoint.subscribe` raises.
        """
        self._types.announce(self, SUBSCRIBE)
        received: list[TypedMessage[T]] = []
        called = self._calls(received.append if handler is None else handler)
        return SimulatedTypedSubscription(received, self._receive(called, options))

    def _calls(self, handler: TypedHandler[T]) -> Callable[[Message], Any]:
        typed = self._typed

        def call(message: Message) -> None:
            found = typed(message)
            if found is not None:
                handler(found)

        return call


class SimulatedTyped:
    """The method of a simulated endpoint for typed topics."""

    _types: Types | None = None

    @overload
    def topic(self, pattern: str, *, qos: QoS | None = None) -> Plain: ...

    @overload
    def topic(
        self, pattern: str, kind: type[T], *, qos: QoS | None = None, codec: str | None = None, writable: bool = False
    ) -> SimulatedTopic[T]: ...

    def topic(
        self,
        pattern: str,
        kind: type[T] | None = None,
        *,
        qos: QoS | None = None,
        codec: str | None = None,
        writable: bool = False,
    ) -> SimulatedTopic[T] | Plain:
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
        return SimulatedTopic(endpoint, self._types, pattern, kind, codec, writable, qos)

    def _tell_mismatch(self, mismatch: Mismatch) -> bool:
        """Call the callback of mismatches; returns whether there is one."""
        endpoint: Any = self
        if endpoint.on_mismatch is None:
            return False
        endpoint.on_mismatch(mismatch)
        return True
