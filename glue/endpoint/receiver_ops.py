"""Operations of a receiver, as a driver sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glue.endpoint.model_calls import ModelCall


class Ask:
    """Wait for the answer to a question to the model."""

    __slots__ = ("call", "model")

    def __init__(self, model: str, call: ModelCall[Any]) -> None:
        self.model = model
        self.call = call


class Work:
    """Wait for a function that blocks, such as a store's."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function


class Awaitable:
    """Wait for an awaitable of the receiver."""

    __slots__ = ("awaitable",)

    def __init__(self, awaitable: Any) -> None:
        self.awaitable = awaitable


class Known:
    """Wait for nothing: the result is here."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Operation = Ask | Work | Awaitable

Runtime = Any
"""`glue.endpoint.receiver_runtime.ReceiverRuntime`, which imports what uses this."""
