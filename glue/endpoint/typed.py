"""Typed topics, as every kind of endpoint shares them: announced types, fetched schemas, mismatches, typed messages.

A topic's first subscription, and its first publication, announce the type by an interest (`glue.schema.announced`).
Each endpoint keeps the schemas of its own types as retained values on `$glue/schema/HASH`. When a type elsewhere has
another hash than the type here on a common topic, the schema is fetched by a subscription, and both are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson

from glue import schema
from glue.contract import Delivery, Event, Options, Publication, Subscribe, Unsubscribe
from glue.contract.logs import lazy_logger
from glue.contract.matching import meet
from glue.endpoint.core import EndpointCore
from glue.endpoint.message import Message
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.plain_topic import NamedTopic
from glue.endpoint.receivers import Announcement, Receiver
from glue.endpoint.type_news import Mismatch
from glue.errors import ClosedError, ConfigurationError
from glue.requests.directory import matches
from glue.schema import PUBLISH, SUBSCRIBE, AnnouncedType, type_interest
from glue.topics import check_pattern

if TYPE_CHECKING:  # imported when used: most programs name no quality of service, and no types
    from glue.endpoint.qos import QoS
    from glue.schema import Adapter

T = TypeVar("T")

SCHEMA: Final = "$glue/schema/"
TOPICS: Final = 1024
"""Typed topics of an endpoint: each is announced to all peers."""
FETCHING: Final = 256
"""Schemas that are fetched at once, and pairs of types that wait for one."""
MET: Final = 4096
"""Pairs of types that were compared, so that each is told once."""

logger = lazy_logger("glue")


class TypedMessage(Generic[T]):
    """A message with a value of the topic's type; `message` is the message as it came."""

    __slots__ = ("message", "value")

    def __init__(self, value: T, message: Message) -> None:
        self.value = value
        self.message = message

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self.message.topic

    @property
    def publisher(self) -> str:
        """The publisher's name."""
        return self.message.publisher

    def __repr__(self) -> str:
        return f"<TypedMessage {self.topic} from {self.publisher}: {self.value!r:.80}>"


TypedHandler = Callable[[TypedMessage[T]], Any]
"""A handler that is called with each typed message."""


class SchemaReceiver(Receiver):
    """Receives the schema with one hash, for the types compared with it."""

    def __init__(self, hash: str, types: Types) -> None:
        super().__init__()
        self.hash = hash
        self.waiting: list[tuple[BaseTopic[Any], str, AnnouncedType]] = []
        self._types = types

    def _deliver(self, event: Event) -> None:
        if isinstance(event, Delivery):
            self._types.take(self, event)


class Types:
    """The typed topics of one endpoint. `order` passes a request to the stack, from any thread."""

    def __init__(
        self,
        core: EndpointCore,
        owner: SubscriptionOwner,
        order: Callable[[Any], None],
        tell: Callable[[Mismatch], bool],
        counts: bool,
    ) -> None:
        """`tell` calls the program's callback, and returns whether there is one.

        `counts`: handled deliveries are counted here, not by the driver.
        """
        self._core = core
        self._owner = owner
        self.order = order
        self._tell = tell
        self._counts = counts
        self._topics: list[BaseTopic[Any]] = []
        self._receivers: dict[str, SchemaReceiver] = {}
        self._met: dict[tuple[str, str, AnnouncedType], None] = {}
        core.types.tell = self._told

    def is_of(self, core: EndpointCore) -> bool:
        """Whether these are the topics of this life of the endpoint."""
        return self._core is core

    # ------------------------------------------------------------------------------------ from the program

    def announce(self, topic: BaseTopic[Any], way: str) -> None:
        """Announce that the program publishes or subscribes to a topic; compare with what is announced elsewhere."""
        if way in topic.ways:
            return
        adapter = topic.adapter
        interest = type_interest(way, adapter.name, adapter.hash, topic.pattern)
        with self._core.requests.lock:
            if way in topic.ways:
                return
            is_first = not topic.ways
            if is_first and len(self._topics) >= TOPICS:
                raise ConfigurationError(f"{topic!r}: {TOPICS} typed topics are open at this endpoint")
            topic.ways[way] = Announcement(self._drop)
            if is_first:
                self._topics.append(topic)
        if is_first:
            name, now = SCHEMA + adapter.hash, self._core.requests.unix_time()
            options = Options(retain=True)
            self.order(Publication(name, [adapter.document], now, True, len(adapter.document), options=options))
        self.order(Subscribe(topic.ways[way], interest))
        for peer, told in self._core.types.directory:
            self._compare(topic, way, peer, told)

    def close(self, topic: BaseTopic[Any]) -> None:
        """Take back what announces a topic."""
        if topic in self._topics:
            self._topics.remove(topic)
        ways, topic.ways = topic.ways, {}
        for announcement in ways.values():
            with suppress(ClosedError):
                self.order(Unsubscribe(announcement))

    def unreadable(self, topic: BaseTopic[Any], message: Message, error: schema.MismatchedValueError) -> None:
        """Tell of a message that is no value of the topic's type."""
        self._core.statistics["typed messages that do not fit"] += 1
        there = next(
            (told.label for peer, told in self._core.types.directory
             if peer == message.publisher_id and told.way == PUBLISH and matches(told.pattern, message.topic)),
            "",
        )  # fmt: skip
        here = topic.adapter.label
        self._mismatch(
            Mismatch(message.topic, message.publisher, message.publisher_id, here, there, (str(error),), message)
        )

    @property
    def announced(self) -> list[tuple[AnnouncedType, bytes]]:
        """The announced topics, with the schema of each as JSON."""
        return [
            (AnnouncedType(way, topic.adapter.name, topic.adapter.hash, topic.pattern), topic.adapter.document)
            for topic in self._topics.copy() for way in [*topic.ways]
        ]  # fmt: skip

    # --------------------------------------------------------------------------------------- from the peers

    def _told(self, peer: str, told: AnnouncedType) -> None:
        for topic in self._topics.copy():
            for way in [*topic.ways]:
                self._compare(topic, way, peer, told)

    def _compare(self, topic: BaseTopic[Any], way: str, peer: str, told: AnnouncedType) -> None:
        """Fetch a schema if it may not fit a topic."""
        if told.way == way or told.hash == topic.adapter.hash or not meet(told.pattern, topic.pattern):
            return
        pair = topic.adapter.hash + topic.pattern, peer, told
        if pair in self._met:
            return
        if len(self._met) >= MET:
            self._met.clear()
        self._met[pair] = None
        receiver = self._receivers.get(told.hash)
        if receiver is not None:
            if len(receiver.waiting) < FETCHING:
                receiver.waiting.append((topic, peer, told))
        else:
            if len(self._receivers) >= FETCHING:  # endpoints may announce unknown hashes: the oldest goes
                self._end(self._receivers.pop(next(iter(self._receivers))))
            receiver = self._receivers[told.hash] = SchemaReceiver(told.hash, self)
            receiver.waiting.append((topic, peer, told))
            self._core.outbox.order(Subscribe(receiver, SCHEMA + told.hash))

    def _end(self, receiver: SchemaReceiver) -> None:
        with suppress(ClosedError):
            self.order(Unsubscribe(receiver))

    def take(self, receiver: SchemaReceiver, delivery: Delivery) -> None:
        """Take a schema, and tell of the mismatches."""
        for payload in delivery.payloads:
            if self._receivers.get(receiver.hash) is receiver:
                self._take_schema(receiver, payload)
        self._owner.settled("handled", len(delivery.payloads))
        if self._counts:
            self._owner.handled(delivery)

    def _take_schema(self, receiver: SchemaReceiver, payload: Any) -> None:
        try:
            document = orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # bytes
            document = b""
        if len(document) > schema.SCHEMA_LIMIT or schema.hash_of(document) != receiver.hash:
            self._core.statistics["malformed schemas"] += 1
            return
        del self._receivers[receiver.hash]
        self._end(receiver)
        for topic, peer, told in receiver.waiting:
            here = topic.adapter.schema
            found = schema.differences(*((here, payload) if told.way == SUBSCRIBE else (payload, here)))
            if found:
                name = self._core.requests.name_of(peer)
                self._mismatch(Mismatch(topic.pattern, name, peer, topic.adapter.label, told.label, tuple(found)))

    def _mismatch(self, mismatch: Mismatch) -> None:
        self._core.statistics["mismatched types"] += 1
        if not self._tell(mismatch) and mismatch.message is None:
            logger.warning("%s", mismatch)

    def _drop(self, delivery: Delivery) -> None:
        self._core.statistics["messages to types that are none"] += len(delivery.payloads)
        self._owner.settled("unread", len(delivery.payloads))
        if self._counts:
            self._owner.handled(delivery)


class BaseTopic(NamedTopic, Generic[T]):
    """A topic, or a pattern of topics, with values of one type as messages."""

    def __init__(
        self,
        endpoint: Any,
        types: Types,
        pattern: str,
        kind: type[T],
        codec: str | None,
        writable: bool,
        qos: QoS | None = None,
    ) -> None:
        """Use `Endpoint.topic`. Raises TopicError, and ConfigurationError for a type that cannot travel."""
        super().__init__(endpoint, pattern, qos)
        self.adapter: Adapter[T] = schema.adapter_of(kind)
        check_pattern(type_interest(SUBSCRIBE, self.adapter.name, self.adapter.hash, pattern))  # which is longer
        self.ways: dict[str, Announcement] = {}
        self._types = types
        self._codec = codec
        self._writable = writable

    @property
    def type(self) -> str:
        """The type's name and the hash of its schema, as in `Temperature#1a2b3c4d`."""
        return self.adapter.label

    def _payload(self, value: T) -> Any:
        """Return the payload of a value; announce the type before the first."""
        payload = self.adapter.encode(value)
        self._types.announce(self, PUBLISH)
        return payload if self._codec is None or self.adapter.is_coded else orjson.loads(bytes(payload))

    @property
    def _payload_codec(self) -> str | None:
        return None if self.adapter.is_coded else self._codec

    def _typed(self, message: Message) -> TypedMessage[T] | None:
        """Decode the value of a message; report one that does not fit, and return None."""
        try:
            value = self.adapter.decode(message.payload)
        except schema.MismatchedValueError as error:
            self._types.unreadable(self, message, error)
            return None
        if self._writable:
            value = value.copy()  # type: ignore[attr-defined]  # an array
        return TypedMessage(value, message)

    def close(self) -> None:
        """Take back what announces the topic. Subscriptions go on until they are closed, and history stays."""
        super().close()
        self._types.close(self)

    def __repr__(self) -> str:
        return f"<Topic {self.pattern!r} of {self.type}>"


def check_typed(codec: str | None, writable: bool, kind: Any) -> None:
    """Raise ConfigurationError for options that a typed topic has not."""
    if codec is not None:
        from glue.codecs import codec_for

        codec_for(codec)
    if writable and not hasattr(kind, "setflags"):
        raise ConfigurationError(f"writable=True is for arrays; {kind!r:.80} is none")


def check_untyped(codec: str | None, writable: bool) -> None:
    """Raise ConfigurationError for options that a topic without a type has not."""
    if codec is not None or writable:
        raise ConfigurationError(f"codec={codec!r}, writable={writable!r}: they are for a topic with a type")
