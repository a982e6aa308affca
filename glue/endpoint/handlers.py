"""The handler of a subscription: its types, and what is checked before the subscription is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glue.endpoint.callbacks import is_coroutine_function
from glue.endpoint.message import Message
from glue.errors import ConfigurationError

MessageHandler = Callable[[Message], Any]
"""A handler that is called with each message."""

PayloadHandler = Callable[[Any], Any]
"""A handler that is called with the payload alone, for a subscription with `payload_only`."""

Handler = MessageHandler | PayloadHandler
"""Either handler; an asyncio endpoint awaits what it returns, if that is awaitable."""


def check_payload_only(payload_only: bool, handler: Handler | None) -> None:
    """Raise ConfigurationError for `payload_only` without a handler."""
    if payload_only and handler is None:
        raise ConfigurationError("payload_only=True: that is for a handler; an iterator gives whole messages")


def is_awaited(handler: Handler | None) -> bool:
    """Tell whether a call of the handler, a function or an object, returns an awaitable.

    Raises ConfigurationError for a handler that cannot be called.
    """
    if handler is not None and not callable(handler):
        raise ConfigurationError(f"handler={handler!r}: expected something to call with each message, or None")
    return is_coroutine_function(handler)
