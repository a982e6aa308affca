"""A registry of endpoint addresses: DNS-SD through `zeroconf`, an optional dependency."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from glue.contract import Address
from glue.errors import MissingExtraError

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, ServiceStateChange, Zeroconf

SERVICE = "_glue._udp.local."
RESOLVE_TIMEOUT_MS = 3000
MAX_TXT_NAME = 200  # bytes: an entry of a TXT record, its key included, has at most 255 (RFC 6763, section 6.1)
SERVICES = 4096  # services remembered; those beyond are not looked at


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
            import zeroconf.asyncio
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
        self._found: dict[str, Address] = {}  # by service
        self._tasks: dict[str, Any] = {}  # the asyncio.Task of what is under way, by service
        self._is_closing = False
        self._changes: SimpleQueue[tuple[Address, bool]] = SimpleQueue()
        self._connection: zeroconf.Zeroconf | None = None

    def register(self) -> None:
        """Make this endpoint known and start to look for others."""
        zeroconf = self._zeroconf
        interfaces = zeroconf.InterfaceChoice.All if self._interfaces is None else list(self._interfaces)
        connection = self._connection = zeroconf.Zeroconf(interfaces=interfaces)
        assert connection.loop is not None
        connection.loop.call_soon_threadsafe(self._begin, connection)

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
        if self._connection is not None:
            assert self._connection.loop is not None
            self._connection.loop.call_soon_threadsafe(self._end)
            self._connection.close()
            self._connection = None

    # What follows runs in the event loop of the connection, in a thread of its own. Nothing there may block: a service
    # that does not answer would hold up the news of all others.

    def _begin(self, connection: Zeroconf) -> None:
        self._browser = self._zeroconf.asyncio.AsyncServiceBrowser(connection, SERVICE, handlers=[self._changed])
        self._start(connection, self._info.name, self._announce(connection))

    def _end(self) -> None:
        """Stop before the goodbye is said: what is announced after it would undo it."""
        self._is_closing = True
        for task in self._tasks.values():
            task.cancel()

    def _start(self, connection: Zeroconf, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin what is to be done for a service."""
        assert connection.loop is not None
        task = self._tasks[name] = connection.loop.create_task(work)
        task.add_done_callback(lambda task: self._tasks.pop(name) if self._tasks.get(name) is task else None)

    async def _announce(self, connection: Zeroconf) -> None:
        """Announce this endpoint, three times."""
        # Probing for the name takes a second and is not needed: the name holds the incarnation and is unique.
        await (await connection.async_register_service(self._info, cooperating_responders=True))

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        """A service came, changed or went."""
        if name == self._info.name or self._is_closing:
            return
        if name in self._tasks:
            self._tasks.pop(name).cancel()
        if state_change is self._zeroconf.ServiceStateChange.Removed:
            self._is_at(name, None)
        elif len(self._tasks) < SERVICES:
            self._start(zeroconf, name, self._resolve(zeroconf, service_type, name))

    async def _resolve(self, zeroconf: Zeroconf, service_type: str, name: str) -> None:
        """Ask a service for its address, unless it is known; no answer says nothing."""
        info = self._zeroconf.asyncio.AsyncServiceInfo(service_type, name)
        if await info.async_request(zeroconf, RESOLVE_TIMEOUT_MS):
            self._is_at(name, self._address_of(info))

    def _is_at(self, name: str, address: Address | None) -> None:
        """A service is at this address; None if it has gone, or is not for us."""
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
