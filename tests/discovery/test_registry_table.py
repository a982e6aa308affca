"""What DNS-SD tells of services, and which addresses come of it: without sockets."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from zeroconf import ServiceStateChange

from glue.discovery import zeroconf_registry as module
from glue.discovery.zeroconf_registry import MAX_TXT_NAME, SERVICE, ZeroconfRegistry

HERE = ("127.0.0.1", 7)
ADDED, REMOVED = ServiceStateChange.Added, ServiceStateChange.Removed


class Registry(ZeroconfRegistry):
    """A registry that notes what it would begin, and begins nothing."""

    def __init__(self, address: Any = HERE, name: str = "own") -> None:
        super().__init__(endpoint_id="a" * 16, incarnation=255, network_id=5, name=name, address=address)
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    def _start(self, connection: Any, name: str, work: Coroutine[Any, Any, None]) -> None:
        work.close()
        self.begun.append(name)
        self._tasks[name] = SimpleNamespace(cancel=lambda: self.cancelled.append(name))

    def change(self, name: str, change: ServiceStateChange = ADDED) -> None:
        self._changed(None, SERVICE, name, change)  # type: ignore[arg-type]


def test_an_endpoint_is_announced_with_its_life_its_network_and_what_fits_of_its_name() -> None:
    info = Registry(name="ä" * 150)._info
    assert (info.name, info.server) == (f"{'a' * 16}-ff.{SERVICE}", f"glue-{'a' * 16}-ff.local.")
    assert (info.port, info.parsed_addresses()) == (7, ["127.0.0.1"])
    assert info.properties == {
        b"id": b"a" * 16, b"incarnation": b"255", b"network": b"5", b"name": ("ä" * 100).encode(),
    }  # fmt: skip
    assert (MAX_TXT_NAME, module.RESOLVE_TIMEOUT_MS, module.SERVICES) == (200, 3000, 4096)
    assert Registry(name="x" * 199 + "ä")._info.properties[b"name"] == b"x" * 199


def test_services_are_asked_for_their_address_but_not_the_own_one_and_none_at_the_end() -> None:
    one = Registry()
    one.change(one._info.name)
    assert one.begun == []
    one.change("b")
    one.change("b")
    assert (one.begun, one.cancelled) == (["b", "b"], ["b"]), "what was under way is out of date"
    one.change("b", REMOVED)
    assert (one.begun, one.cancelled, one._tasks) == (["b", "b"], ["b", "b"], {})
    one.change("c")
    one._end()
    assert one.cancelled == ["b", "b", "c"]
    one.change("d")
    assert one.begun == ["b", "b", "c"]


def test_it_is_closed_once() -> None:
    one, did = Registry(), list[Any]()
    one.close()
    loop = SimpleNamespace(call_soon_threadsafe=did.append)
    connection: Any = SimpleNamespace(loop=loop, close=lambda: did.append("closed"))
    one._connection = connection
    one.close()
    one.close()
    assert did == [one._end, "closed"]


def test_no_more_services_are_asked_or_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVICES", 2)
    one = Registry()
    for name in "bcd":
        one.change(name)
        one._is_at(name, (name, 1))
    assert one.begun == ["b", "c"]
    assert one.poll() == ([("b", 1), ("c", 1)], [])
    one._is_at("b", ("e", 1))  # it has a place
    assert one.poll() == ([("e", 1)], [("b", 1)])


def test_addresses_are_found_and_lost_once_and_kept_while_any_service_is_there() -> None:
    one = Registry()
    assert one.poll() == ([], [])
    one._is_at("b", ("x", 1))
    one._is_at("c", ("x", 1))
    assert one.poll() == ([("x", 1)], [])
    one._is_at("b", None)
    assert one.poll() == ([], [])
    one.change("c", REMOVED)
    assert one.poll() == ([], [("x", 1)])
    one._is_at("c", None)
    assert one.poll() == ([], [])
    one._is_at("c", ("x", 1))
    one._is_at("c", None)
    assert one.poll() == ([], [("x", 1)]), "the latest news counts"


@pytest.mark.parametrize(
    ("own", "hosts", "port", "network", "address"),
    [
        (HERE, ["10.0.0.9"], 9, b"5", ("10.0.0.9", 9)), (HERE, ["10.0.0.9"], 9, b"6", None),
        (HERE, ["10.0.0.9"], 0, b"5", None), (HERE, [], 9, b"5", None), (HERE, ["10.0.0.9"], 9, None, None),
        (("fe80::1", 7, 0, 3), ["fe80::9"], 9, b"5", ("fe80::9", 9, 0, 3)),
        (("fe80::1", 7, 0, 3), ["fd00::9"], 9, b"5", ("fd00::9", 9, 0, 0)),
    ],
)  # fmt: skip
def test_the_address_of_a_service_is_of_the_own_family_and_network(
    own: Any, hosts: list[str], port: int, network: bytes | None, address: Any
) -> None:
    asked = []

    def parsed_addresses(version: Any) -> list[str]:
        asked.append(version.name)
        return hosts

    info: Any = SimpleNamespace(parsed_addresses=parsed_addresses, port=port, properties={b"network": network})
    assert Registry(own)._address_of(info) == address
    assert asked == ["V6Only" if len(own) == 4 else "V4Only"]
