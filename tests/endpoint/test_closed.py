"""Every call of an endpoint that is closed says so, and a closed one is not opened by it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import glue
import glue.aio

ARGUMENTS: dict[str, Any] = {
    "topic": "t", "pattern": "t", "payload": 1, "payloads": [1], "handler": lambda *_: None, "name": "n",
    "to": "latest", "address": "lamp/1", "kind": "lamp", "factory": lambda: None, "model": "m", "path": "/nowhere",
    "seconds": 0.1, "store": None, "voters": 1, "writable": False,
}  # fmt: skip
ANSWERS = {
    "close", "statistics", "describe", "close_receivers", "start", "unsubscribe", "forget", "subscribers", "peers",
    "responder", "responders",
}  # fmt: skip
"""These answer, too, or say something of their own."""


def calls(endpoint: Any) -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """The public methods of an endpoint, with arguments that would do."""
    found = []
    for name, _ in inspect.getmembers(type(endpoint), inspect.isfunction):
        if name.startswith("_") or name in ANSWERS:
            continue
        method = getattr(endpoint, name)
        needed = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is parameter.empty and parameter.kind in (0, 1, 3)
        ]
        found.append((name, method, {one: ARGUMENTS[one] for one in needed if one in ARGUMENTS}))
    return found


async def closed(kind: type[glue.Endpoint | glue.aio.Endpoint]) -> glue.Endpoint | glue.aio.Endpoint:
    """An endpoint that was open."""
    endpoint = kind("closed", interface="lo")
    if isinstance(endpoint, glue.Endpoint):
        endpoint.start().close()
    else:
        async with endpoint:
            pass
    return endpoint


@pytest.mark.parametrize("kind", [glue.Endpoint, glue.aio.Endpoint])
def test_each_call_of_a_closed_endpoint_says_so(kind: type[glue.Endpoint | glue.aio.Endpoint]) -> None:
    async def answered() -> list[str]:
        found = []
        for name, method, arguments in calls(await closed(kind)):
            try:
                result = method(**arguments)
                if inspect.isawaitable(result):
                    await result
                elif inspect.isasyncgen(result):
                    await anext(result)
                elif inspect.isgenerator(result):
                    next(result)
                found.append(name)
            except glue.ClosedError:
                pass
            except Exception as error:
                found.append(f"{name}: {error!r}")
        return found

    assert asyncio.run(answered()) == []
