"""Which services of DNS-SD become addresses to ask, without a network."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zeroconf.asyncio

from glue.contract import Address
from glue.discovery.zeroconf_registry import SERVICE, ZeroconfRegistry


class Info(zeroconf.ServiceInfo):
    """What a service says of itself, known at once."""

    async def async_request(self, *arguments: Any, **options: Any) -> bool:
        return True


class Scene:
    """A registry of network 7, and services that come, change and go."""

    def __init__(self, address: Address = ("10.0.0.1", 5000), *hosts: str) -> None:
        """`hosts` are the addresses that services have."""
        self.registry = ZeroconfRegistry(endpoint_id="me", incarnation=1, network_id=7, name="me", address=address)
        self.hosts = [*hosts] or ["10.0.0.2"]

    def seen(self, name: str, change: str = "Added", network: str = "7", port: int | None = 5000) -> Any:
        """Tell of a service; returns the addresses found and lost."""
        name = f"{name}.{SERVICE}"
        info = Info(SERVICE, name, port=port, parsed_addresses=self.hosts, properties={"network": network})
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


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        (["fe80::2"], [("fe80::2", 5000, 0, 3)]),  # by the interface of this endpoint
        (["10.0.0.2", "fd00::2"], [("fd00::2", 5000, 0, 0)]),
        (["10.0.0.2"], []),
    ],
)
def test_an_endpoint_on_ipv6_asks_services_that_have_such_an_address(hosts: list[str], found: list[Address]) -> None:
    assert Scene(("fe80::1", 5000, 0, 3), *hosts).seen("other-1") == (found, [])


def test_an_endpoint_on_ipv4_asks_no_service_that_has_none() -> None:
    assert Scene(("10.0.0.1", 5000), "fd00::2").seen("other-1") == ([], [])
