"""The endpoint for asyncio: the same as `glue.Endpoint`, with `async with`, `async for` and awaitable `publish`."""

from typing import TYPE_CHECKING

from glue._lazy import lazy_imports
from glue.aio.endpoint import Endpoint
from glue.aio.requests import Responder
from glue.aio.subscription import Subscription
from glue.aio.typed import Topic, TypedSubscription

if TYPE_CHECKING:
    from glue.aio.model import Lock, Model, Watch

__all__ = ["Endpoint", "Lock", "Model", "Responder", "Subscription", "Topic", "TypedSubscription", "Watch"]

if not TYPE_CHECKING:  # else every name would be taken to be there
    __getattr__, __dir__ = lazy_imports(__name__, {"glue.aio.model": ("Lock", "Model", "Watch")})
