"""The methods of `glue.Endpoint` for receivers; what they need is imported at their first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glue.endpoint.receiver_methods import ReceiverParts
    from glue.receivers.store import Store
    from glue.sync.model import Model
    from glue.sync.receivers import Receivers


class SyncReceiving:
    """Receivers of a threaded endpoint."""

    _receiving: ReceiverParts | None = None
    _send_to: Callable[[Any, str, Any], None] | None = None

    def receivers(
        self,
        kind: str,
        factory: type[Any] | Callable[[Any, Any], Any],
        *,
        partitions: int = 64,
        subnet: str = "",
        model: Model | None = None,
        store: Store | str | None = None,
        idle: float = 300.0,
        dead_letters: str | None = None,
        messages: Sequence[type] = (),
    ) -> Receivers:
        """Host receivers of this kind: objects that handle one message at a time.

        kind: a name; receivers have the address `kind/id`, and are made when first spoken to.
        factory: a class with `receive(context, message)`, and perhaps `activate` and `deactivate`; or a function.
        partitions: the same number at all hosts of the kind.
        subnet: a name space of kinds; the address is then `subnet:kind/id`.
        model: keeps which host owns a partition, and the state; without it, a model of this endpoint as only voter.
        store: keeps the state instead: "sqlite:PATH", "redis://HOST", an entry point, or an object.
        idle: seconds without a message after which a receiver is put away.
        dead_letters: a topic on which messages are published that a receiver with `on_error` "park" fails on.
        messages: types that messages may have, such as dataclasses, unless the class says so in `messages`.

        Raises ConfigurationError, MissingExtraError, StorageError, ClosedError.
        """
        from glue.endpoint.receiver_methods import model_named
        from glue.sync import receivers

        endpoint: Any = self
        endpoint._running()
        return receivers.host(
            endpoint, kind, factory, model_named(endpoint, model), partitions=partitions, subnet=subnet, store=store,
            idle=idle, dead_letters=dead_letters, messages=messages,
        )  # fmt: skip

    def send(self, address: str, payload: Any) -> None:
        """Send a message to a receiver, `kind/id` or `subnet:kind/id`: at least once, in order.

        payload: bytes, any JSON value, or a value of a dataclass or another type that the receiver takes.
        While too many messages wait, it waits; but in a handler or a receiver it raises WouldBlockError instead. Raises
        ConfigurationError for a malformed address, PayloadError, MessageTooLargeError and ClosedError.
        """
        send = self._send_to
        if send is None:
            from glue.sync import receivers

            send = self._send_to = receivers.send
        send(self, address, payload)

    def close_receivers(self, timeout: float = 5.0) -> bool:
        """Put all receivers away and hand their partitions over; returns whether all were put away in time.

        `close` of the endpoint does so, too. Waits `timeout` seconds at most.
        """
        from glue.sync import receivers

        return receivers.close(self, timeout)

    def ask(self, address: str, payload: Any, timeout: float = 5.0) -> Any:
        """Send a message to a receiver, and return its answer.

        Raises RemoteError with what the receiver raised, RequestTimeoutError, ConfigurationError and PayloadError.
        """
        from glue.receivers.address import parse
        from glue.sync import receivers

        return receivers.ask(self, parse(address), payload, timeout)
