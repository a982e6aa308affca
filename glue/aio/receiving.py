"""The methods of `glue.aio.Endpoint` for receivers; what they need is imported at their first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glue.aio.model import Model
    from glue.aio.receivers import Receivers
    from glue.endpoint.receiver_methods import ReceiverParts
    from glue.receivers.store import Store


class AioReceiving:
    """Receivers of an asyncio endpoint."""

    _receiving: ReceiverParts | None = None
    _send_to: Callable[[Any, str, Any], Awaitable[None]] | None = None

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
        """As `glue.Endpoint.receivers`; `receive`, `activate` and `deactivate` may be coroutine functions."""
        from glue.aio import receivers
        from glue.endpoint.receiver_methods import model_named

        endpoint: Any = self
        endpoint._running()
        return receivers.host(
            endpoint, kind, factory, model_named(endpoint, model), partitions=partitions, subnet=subnet, store=store,
            idle=idle, dead_letters=dead_letters, messages=messages,
        )  # fmt: skip

    def send(self, address: str, payload: Any) -> Awaitable[None]:
        """Send a message to a receiver, as `glue.Endpoint.send` does; awaiting it waits for room.

        The message leaves at the call if there is room, and else only if the call is awaited.
        """
        send = self._send_to
        if send is None:
            from glue.aio import receivers

            send = self._send_to = receivers.send
        return send(self, address, payload)

    async def close_receivers(self, timeout: float = 5.0) -> bool:
        """As `glue.Endpoint.close_receivers`."""
        from glue.aio import receivers

        return await receivers.close(self, timeout)

    async def ask(self, address: str, payload: Any, timeout: float = 5.0) -> Any:
        """As `glue.Endpoint.ask`."""
        from glue.aio import receivers
        from glue.receivers.address import parse

        return await receivers.ask(self, parse(address), payload, timeout)
