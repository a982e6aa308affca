"""The fixture that opens doors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import pytest

import glue.aio
from glue.gateway.http.gateway import Gateway
from glue.gateway.thread import in_thread
from tests.gateway.http.doors import Doors
from tests.support.lan import PATIENCE, Lan


@pytest.fixture
def door(lan: Lan) -> Doors:
    """Opens a door on the private network, on a free port of loopback."""

    def opened(name: str = "door", models: tuple[str, ...] = (), **options: Any) -> AbstractContextManager[Gateway]:
        @asynccontextmanager
        async def entered() -> AsyncIterator[Gateway]:
            async with glue.aio.Endpoint(name, **lan.settings) as endpoint:
                chosen = {"port": 0, "host": "127.0.0.1", "deliver_to": ["127.0.0.0/8"], **options}
                opened = {model: endpoint.model(model, voters=1, election_timeout=0.1) for model in models}
                for model in opened.values():
                    await model.wait_until_ready(PATIENCE)
                async with Gateway(endpoint, models=opened, **chosen) as gateway:
                    yield gateway

        return in_thread(entered)

    return opened
