"""Registries of endpoint addresses: the interface that discovery uses, and DNS-SD through `zeroconf`.

A registry supplies addresses only. The endpoints themselves find out which peers exist and are still alive.
`zeroconf` is an optional dependency, loaded only when a registry is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from glue.contract import Address
from glue.errors import MissingExtraError

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, ServiceStateChange, Zeroconf

SERVICE = "_glue._udp.local."
RESOLVE_TIMEOUT_MS = 3000
MAX_TXT_NAME = 200  # bytes: an entry of a TXT record, its key included, has at most 255 (RFC 6763, section 6.1)
SERVICES = 4096  # services remembered; those beyond are not looked at


class Registry(Protocol):
    """Announces this endpoint's address, and tells those of others."""

    def register(self) -> None:
        """Make this endpoint known and start to look for others; returns at once."""

    def poll(self) -> tuple[list[Address], list[Address]]:
        """Addresses found, and addresses lost, since the last call; never blocks."""

    def close(self) -> None:
        """Withdraw this endpoint and stop; may take a second. Harmless when repeated."""


class ZeroconfRegistry:
    """DNS-SD (RFC 6763) over multicast DNS (RFC 6762)."""

    def __init__(
        self,
        *,
        endpoint_id: str,
        incarnation: int,
        network_id: int,
        name: str,
        address: Address,
        interfaces: Sequence[str] | None = None,
    ) -> None:
        """`address` is where the endpoint is reached; `interfaces` are IP addresses, all of the host by default.

        Raises MissingExtraError without `zeroconf`.
        """
        try:
            import zeroconf
        except ImportError:
            raise MissingExtraError.of("discovery by DNS-SD", "zeroconf", "zeroconf") from None
        self._zeroconf = zeroconf
        self._interfaces = interfaces
        instance = f"{endpoint_id}-{incarnation:x}"
        host, port = address[:2]
        text = name.encode()[:MAX_TXT_NAME].decode(errors="ignore")
        self._info = zeroconf.ServiceInfo(
            SERVICE,
            f"{instance}.{SERVICE}",
            port=port,
            parsed_addresses=[host],
            server=f"glue-{instance}.local.",
            properties={"id": endpoint_id, "incarnation": str(incarnation), "network": str(network_id), "name": text},
        )
        self._address = address
        self._found: dict[str, Address] = {}  # by service; touched by the browser's thread alone
        self._changes: SimpleQueue[tuple[Address, bool]] = SimpleQueue()
        self._connection: zeroconf.Zeroconf | None = None
        self._browser: zeroconf.ServiceBrowser | None = None

    def register(self) -> None:
        """Make this endpoint known and start to look for others."""
        zeroconf = self._zeroconf
        interfaces = zeroconf.InterfaceChoice.All if self._interfaces is None else list(self._interfaces)
        connection = self._connection = zeroconf.Zeroconf(interfaces=interfaces)
        assert connection.loop is not None
        connection.loop.call_soon_threadsafe(self._publish, connection)
        self._browser = zeroconf.ServiceBrowser(connection, SERVICE, handlers=[self._changed])

    def poll(self) -> tuple[list[Address], list[Address]]:
        """Addresses found and lost since the last call."""
        latest: dict[Address, bool] = {}
        with suppress(Empty):
            while True:
                address, is_found = self._changes.get_nowait()
                latest[address] = is_found
        return [a for a, is_found in latest.items() if is_found], [a for a, is_found in latest.items() if not is_found]

    def close(self) -> None:
        """Withdraw this endpoint and stop."""
        if self._browser is not None:
            self._browser.cancel()  # closing the connection does not end its thread
            self._browser = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _publish(self, connection: Zeroconf) -> None:
        """Register the service; runs in the connection's thread, so that the caller does not wait."""
        assert connection.loop is not None
        # Probing for the name takes a second and is not needed: the name holds the incarnation and is unique.
        registration = connection.async_register_service(self._info, cooperating_responders=True)
        self._registration = connection.loop.create_task(registration)  # a loop keeps no reference to its tasks

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        """A service came, changed or went; called by the browser's thread, which may block."""
        if name == self._info.name:
            return
        address = None
        if state_change is not self._zeroconf.ServiceStateChange.Removed:
            info = zeroconf.get_service_info(service_type, name, timeout=RESOLVE_TIMEOUT_MS)
            if info is None:
                return  # no answer says nothing
            address = self._address_of(info)
        before = self._found.pop(name, None)
        if address is not None and len(self._found) < SERVICES:
            self._found[name] = address
            self._changes.put((address, True))
        if before is not None and before not in self._found.values():
            self._changes.put((before, False))

    def _address_of(self, info: ServiceInfo) -> Address | None:
        """As `socket` spells it in the family of this endpoint's own; None if the service is not for us."""
        is_version_6 = len(self._address) == 4
        version = self._zeroconf.IPVersion.V6Only if is_version_6 else self._zeroconf.IPVersion.V4Only
        hosts = info.parsed_addresses(version)
        if not hosts or not info.port or info.properties.get(b"network") != self._info.properties[b"network"]:
            return None
        if not is_version_6:
            return (hosts[0], info.port)
        return (hosts[0], info.port, 0, self._address[3] if hosts[0].startswith("fe80:") else 0)
