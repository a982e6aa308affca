"""The endpoint for asyncio: the same as `glue.Endpoint`, with `async with`, `async for` and awaitable `publish`."""

from glue.aio.endpoint import Endpoint
from glue.aio.model import Lock, Model, Watch
from glue.aio.subscription import Subscription

__all__ = ["Endpoint", "Lock", "Model", "Subscription", "Watch"]
