"""The methods of `glue.aio.Endpoint` for receivers; what they need is imported at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glue.aio.model import Model
    from glue.aio.receivers import Receivers
    from glue.endpoint.receiver_methods import ReceiverParts
    from glue.receivers.store import Store

MODEL = "receivers"
"""The model that keeps owners and state, unless another one is given."""


class AioReceiving:
    """Receivers of an asyncio endpoint."""

    _receiving: ReceiverParts | None = None

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
    ) -> Receivers:
        """As `glue.Endpoint.receivers`; `receive`, `activate` and `deactivate` may be coroutine functions."""
        from glue.aio import receivers

        endpoint: Any = self
        endpoint._running()
        name = model.name if model is not None else MODEL
        if model is None and name not in endpoint._models:
            endpoint.model(name, voters=1)
        return receivers.host(
            endpoint, kind, factory, name, partitions=partitions, subnet=subnet, store=store, idle=idle,
            dead_letters=dead_letters,
        )  # fmt: skip

    def send(self, address: str, payload: Any) -> None:
        """As `glue.Endpoint.send`."""
        from glue.aio import receivers
        from glue.receivers.address import parse

        receivers.parts_of(self).runtime.send(parse(address), payload)

    async def close_receivers(self, timeout: float = 5.0) -> bool:
        """As `glue.Endpoint.close_receivers`."""
        from glue.aio import receivers

        return await receivers.close(self, timeout)

    async def ask(self, address: str, payload: Any, timeout: float = 5.0) -> Any:
        """As `glue.Endpoint.ask`."""
        from glue.aio import receivers
        from glue.receivers.address import parse

        return await receivers.ask(self, parse(address), payload, timeout)
