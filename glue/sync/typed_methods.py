"""The method for typed topics of a threaded endpoint; `typed.py` is imported with the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from glue.endpoint.qos import QoS
    from glue.endpoint.type_news import Mismatch
    from glue.endpoint.typed import Types
    from glue.sync.typed import Plain, Topic

T = TypeVar("T")


class SyncTyped:
    """The method of `glue.Endpoint` for typed topics."""

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
        from glue.endpoint.plain_topic import PlainTopic
        from glue.endpoint.typed import Types, check_typed, check_untyped
        from glue.sync.typed import Topic

        endpoint: Any = self
        endpoint._running()
        if kind is None:
            check_untyped(codec, writable)
            return PlainTopic(endpoint, pattern, qos)
        check_typed(codec, writable, kind)
        if self._types is None or not self._types.is_of(endpoint._core):
            self._types = Types(
                endpoint._core, endpoint._owner, endpoint._order_quietly, endpoint._tell_mismatch, False
            )
        return Topic(endpoint, self._types, pattern, kind, codec, writable, qos)

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
