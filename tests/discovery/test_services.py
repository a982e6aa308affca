"""Which services of DNS-SD become addresses to ask, without a network."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zeroconf.asyncio

from glue.discovery.zeroconf_registry import SERVICE, ZeroconfRegistry


class Info(zeroconf.ServiceInfo):
    """What a service says of itself, known at once."""

    async def async_request(self, *arguments: Any, **options: Any) -> bool:
        return True


class Scene:
    """A registry of network 7, and services that come, change and go."""

    def __init__(self) -> None:
        self.registry = ZeroconfRegistry(
            endpoint_id="me", incarnation=1, network_id=7, name="me", address=("10.0.0.1", 5000)
        )

    def seen(self, name: str, change: str = "Added", network: str = "7", port: int | None = 5000) -> Any:
        """Tell of a service; returns the addresses found and lost."""
        name = f"{name}.{SERVICE}"
        info = Info(SERVICE, name, port=port, parsed_addresses=["10.0.0.2"], properties={"network": network})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(zeroconf.asyncio, "AsyncServiceInfo", lambda kind, name: info)
            asyncio.run(self._tell(name, zeroconf.ServiceStateChange[change]))
        return self.registry.poll()

    async def _tell(self, name: str, change: Any) -> None:
        connection = SimpleNamespace(loop=asyncio.get_running_loop())
        self.registry._changed(cast(Any, connection), SERVICE, name, change)
        await asyncio.gather(*self.registry._tasks.values())


ADDRESS = ("10.0.0.2", 5000)


def test_a_service_of_this_network_is_found_and_lost() -> None:
    scene = Scene()
    assert scene.seen("other-1") == ([ADDRESS], [])
    assert scene.seen("other-1", "Removed") == ([], [ADDRESS])


def test_a_service_of_another_network_or_without_a_port_is_not_asked() -> None:
    scene = Scene()
    assert scene.seen("other-1", network="8") == ([], [])
    assert scene.seen("other-2", port=0) == ([], [])
    assert scene.seen("other-3", port=None) == ([], [])


def test_a_service_that_moves_to_another_network_is_lost() -> None:
    scene = Scene()
    scene.seen("other-1")
    assert scene.seen("other-1", "Updated", network="8") == ([], [ADDRESS])


def test_an_endpoint_does_not_find_itself() -> None:
    assert Scene().seen("me-1") == ([], [])
