"""Several interfaces at once: a network for each of them, below one network for the stack.

Each interface is a *link* with sockets of its own, the unicast socket bound to the interface's address. So the source
of a datagram tells its link, and both sides can tell the links apart. A link whose interface has no address, or does
not exist, is opened as soon as it has. Addresses carry the name of the link (`glue.contract.links`).

Announcements leave through every link, data for known peers through the links that discovery names. Discovery is told
at once when a link goes down or comes up: the kernel's notice of it wakes whoever waits.
"""

from __future__ import annotations

import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any

from glue.contract import Address, GroupOn, Train, link_of, on_link, without_link
from glue.contract.counters import Counters
from glue.contract.logs import lazy_logger
from glue.errors import ConfigurationError, InterfaceError, PortInUseError
from glue.network.changes import InterfaceChanges
from glue.network.choice import existing
from glue.network.group import parse_group
from glue.network.interfaces import Interface, find_interface, list_interfaces
from glue.network.multicast import LARGEST_MTU, LOOK_ANYWAY, MAINTENANCE_INTERVAL, MulticastNetwork
from glue.network.waiter import Waiter

logger = lazy_logger("glue.network")

LOOK_SPACING = 0.1  # seconds between two looks at the interfaces because of failed sends
ADDRESSES = 4096  # addresses remembered with and without their link: four of each of 1,024 peers


class ForwardedTrain(Train):
    """A train that goes to a plain address; the bytes are those of the train it stands for."""

    __slots__ = ("_train",)

    def __init__(self, address: Address | None, train: Train) -> None:
        self.address = address
        self.segment = train.segment
        self._train = train

    @property
    def data(self) -> bytes | bytearray | memoryview:  # type: ignore[override]  # it is never set
        """The datagrams in one piece."""
        return self._train.data

    def chunks(self, extra: int = 0) -> Iterable[bytes | bytearray | memoryview]:
        """The datagrams, a part at a time."""
        return self._train.chunks(extra)


class Link:
    """One interface: its present state, and its network while it has an address."""

    __slots__ = ("addresses", "filenos", "interface", "is_up", "name", "network")

    def __init__(self, name: str) -> None:
        self.name = name
        self.network: MulticastNetwork | None = None
        self.interface: Interface | None = None  # as it was when the network was opened
        self.filenos: frozenset[int] = frozenset()
        self.is_up = True  # until it turns out not to be, as discovery takes it
        self.addresses: dict[Address, Address] = {}  # plain addresses, and those that tell this link

    def tagged(self, address: Address) -> Address:
        """Return a plain address as one of this link."""
        found = self.addresses.get(address)
        if found is None:
            if len(self.addresses) >= ADDRESSES:
                self.addresses.clear()
            found = self.addresses[address] = on_link(address, self.name)
        return found


class LinkedNetwork:
    """`glue.contract.Network` over several interfaces. Linux only. `wake` is thread-safe, nothing else."""

    def __init__(
        self,
        *,
        interfaces: Sequence[str],
        multicast_address: str,
        listen_port: int,
        receive_buffer: int,
        offload: bool,
        spin: float = 0.0,
        sched_batch: bool = True,
    ) -> None:
        """Open a link for each interface. The arguments are the settings of the same names.

        Raises InterfaceError if none of the interfaces exists; one that is missing is waited for. Raises
        ConfigurationError on systems other than Linux, PortInUseError for a port in use.
        """
        if sys.platform != "linux":
            raise ConfigurationError(f"interface={interfaces!r}: several interfaces at once need Linux; name one")
        self._group = parse_group(multicast_address)
        self._listen_port = listen_port
        self._options: dict[str, Any] = {
            "multicast_address": multicast_address, "receive_buffer": receive_buffer, "offload": offload,
            "sched_batch": sched_batch,
        }  # fmt: skip
        self._links = {name: Link(name) for name in interfaces}
        self._check_names()
        self._counted = Counters()  # by links that were closed, and by this network itself
        self._ways: dict[Address, tuple[Link | None, Address]] = {}
        self._own: dict[Address, Link] = {}
        self._on_change: Callable[[str, bool], object] | None = None
        self._look_at = self._failed_at = 0.0
        self._closed = False
        with ExitStack() as cleanup:
            self._changes = InterfaceChanges()
            cleanup.callback(self._changes.close)
            self._epoll = select.epoll()
            cleanup.callback(self._epoll.close)
            for fileno in self._changes.filenos:
                self._epoll.register(fileno, select.EPOLLIN)
            self._waiter = Waiter(self.filenos(), spin)
            cleanup.callback(self._waiter.close)
            cleanup.callback(self._close_links)
            self._look(time.monotonic(), is_first=True)
            self._cleanup = cleanup.pop_all()

    def _check_names(self) -> None:
        interfaces = list_interfaces()
        missing = [name for name in self._links if name not in {interface.name for interface in interfaces}]
        if len(missing) == len(self._links):
            raise InterfaceError(f"interface={missing!r}: there are no such interfaces; {existing(interfaces)}")
        for name in missing:
            logger.warning("interface %s: there is no such interface yet; waiting for it", name)

    def follow_links(self, on_change: Callable[[str, bool], object]) -> None:
        """Call this with the name of each link that goes down or comes up, and whether it is up; at once if down."""
        self._on_change = on_change
        for link in self._links.values():
            if not link.is_up:
                on_change(link.name, False)

    # ------------------------------------------------------------------------------------------ datagrams

    def filenos(self) -> Sequence[int]:
        """One descriptor that stands for all sockets and for the kernel's notices; the same until `close`."""
        return (self._epoll.fileno(),)

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        """Block until something can be received, `wake` was called, or `timeout` seconds passed (at most an hour)."""
        self._waiter.wait(timeout, patient)

    def wake(self) -> None:
        """Make a `wait` in another thread return; safe from any thread, also after `close`."""
        self._waiter.wake()

    def receive(self) -> Iterable[Train]:
        """Return the trains that have arrived on the links; follow what the kernel says of the interfaces."""
        ready = {fileno for fileno, _ in self._epoll.poll(0)}
        if not ready.isdisjoint(self._changes.filenos):
            self._changes.take()
            self._look(time.monotonic())
        found = [self._received(link) for link in self._links.values() if not ready.isdisjoint(link.filenos)]
        if all(trains.__class__ is tuple for trains in found):
            return tuple(chain.from_iterable(found))
        return chain.from_iterable(found)

    def _received(self, link: Link) -> Iterable[Train]:
        if link.network is None:
            return ()
        trains = link.network.receive()
        return tuple(self._tagged(link, trains)) if trains.__class__ is tuple else self._tagged(link, trains)

    def _tagged(self, link: Link, trains: Iterable[Train]) -> Iterator[Train]:
        for train in trains:
            assert train.address is not None
            if self._own.get(train.address, link) is not link:
                self._counted["own trains passed by"] += 1  # both links lead to one segment
                continue
            train.address = link.tagged(train.address)
            yield train

    def send(self, trains: Sequence[Train]) -> None:
        """Send each train through the link of its address, or through several; what cannot be sent is counted."""
        for train in trains:
            links, address = self._route(train.address)
            if len(links) == 1:
                self._send(links[0], ForwardedTrain(address, train))
            elif train.address is None:  # sealed for each, or receivers would take the second copy for a replay
                for link in links:
                    self._send(link, ForwardedTrain(address, train))
            elif links:
                data = train.data  # put together, and sealed, once for all; a copy too many is refused by its number
                for link in links:
                    self._send(link, Train(address, data, train.segment))
            if not links:
                self._count_unsent(train)

    def _count_unsent(self, train: Train) -> None:
        self._counted["not sent: no interface"] += -(-len(train.data) // train.segment)

    def _send(self, link: Link, train: Train) -> None:
        if link.network is None:  # closed by a look that another link of this train has caused
            self._count_unsent(train)
            return
        link.network.send((train,))
        if link.network.take_broken() and (now := time.monotonic()) >= self._failed_at + LOOK_SPACING:
            self._failed_at = now
            self._look(now)

    def _route(self, address: Address | None) -> tuple[list[Link], Address | None]:
        """Return the links for a destination that can be used now, and the plain address."""
        if address:
            way = self._ways.get(address) or self._way(address)
            links = [*self._links.values()] if way[0] is None else [way[0]]
            address = way[1]
        else:
            only = address.links if isinstance(address, GroupOn) else None
            links = [link for link in self._links.values() if only is None or link.name in only]
        return [link for link in links if link.network is not None and link.is_up], address

    def _way(self, address: Address) -> tuple[Link | None, Address]:
        """Return the link that an address names, if it names one, and the plain address."""
        if len(self._ways) >= ADDRESSES:
            self._ways.clear()
        way = self._ways[address] = self._links.get(link_of(address)), without_link(address)
        return way

    # ------------------------------------------------------------------------------------------ interfaces

    @property
    def datagram_size(self) -> int:
        """The largest datagram that leaves through every link."""
        sizes = [link.network.datagram_size for link in self._links.values() if link.network is not None]
        return min(sizes, default=LARGEST_MTU - self._group.overhead)

    @property
    def unicast_address(self) -> Address:
        """The address of the first link; the wildcard address while there is none."""
        for link in self._links.values():
            if link.network is not None and link.is_up:
                return link.network.unicast_address
        return self._group.socket_address("::" if ":" in self._group.host else "0.0.0.0", self._listen_port, 0)

    def maintain(self, now: float) -> float:
        """Look after the links; to be called again some second later."""
        if self._changes.take() or now >= self._look_at or not all(link.is_up for link in self._links.values()):
            self._look(now)
        for link in self._links.values():
            if link.network is not None:
                link.network.maintain(now)
        return now + MAINTENANCE_INTERVAL

    def _look(self, now: float, is_first: bool = False) -> None:
        """Follow the interfaces as they are now: open and close links, and tell which of them can be used."""
        self._look_at = now + LOOK_ANYWAY
        for link in self._links.values():
            found = find_interface(link.name, link.interface)
            if link.network is not None and not self._stands(link, found):
                self._close(link)
            if link.network is None and found is not None and found.addresses(self._group.family):
                self._open(link, found, is_first)
            if link.network is not None:
                link.network.maintain(now)
            is_up = link.network is not None and link.network.is_settled
            if is_up != link.is_up:
                link.is_up = is_up
                if self._on_change is not None:
                    logger.info("link %s is %s", link.name, "up" if is_up else "down")
                    self._on_change(link.name, is_up)

    def _stands(self, link: Link, found: Interface | None) -> bool:
        """Whether the sockets of a link still fit its interface: the same device, with the same address."""
        opened, family = link.interface, self._group.family
        if opened is None or found is None or found.number != opened.number:
            return False
        return opened.addresses(family)[0] in found.addresses(family)

    def _open(self, link: Link, interface: Interface, is_first: bool) -> None:
        """Open the sockets of a link, at the port of the other links if it is free there."""
        others = [other.network.unicast_address[1] for other in self._links.values() if other.network is not None]
        ports = [self._listen_port] if self._listen_port else [*others[:1], 0]
        for port in ports:
            try:
                network = MulticastNetwork(interface=link.name, listen_port=port, source=interface, **self._options)
            except (PortInUseError, ConfigurationError, InterfaceError, OSError) as error:  # too many open files
                if port == ports[-1]:
                    if is_first and isinstance(error, PortInUseError):
                        raise
                    self._counted["links not opened"] += 1
                    logger.warning("link %s: %s", link.name, error)
                continue
            link.network, link.interface, link.filenos = network, interface, frozenset(network.filenos())
            for fileno in network.filenos():
                self._epoll.register(fileno, select.EPOLLIN)
            self._own[network.unicast_address] = link
            return

    def _close(self, link: Link) -> None:
        """Close the sockets of a link; what it counted stays."""
        network = link.network
        if network is None:
            return
        for fileno in network.filenos():
            self._epoll.unregister(fileno)
        self._forget(link, network)

    def _forget(self, link: Link, network: MulticastNetwork) -> None:
        self._counted.update(network.statistics)
        self._own = {address: other for address, other in self._own.items() if other is not link}
        link.network, link.interface, link.filenos = None, None, frozenset()
        network.close()

    # ------------------------------------------------------------------------------------------ the rest

    @property
    def statistics(self) -> Counter[str]:
        """The counters of all links, summed, by cause."""
        total = Counters(self._counted)
        for link in self._links.values():
            if link.network is not None:
                total.update(link.network.statistics)
        return total

    def describe(self) -> dict[str, Any]:
        """The effective configuration, and what each link is like; sizes in bytes."""
        told = [link.network.describe() for link in self._links.values() if link.network is not None]
        one = told[0] if told else {}
        return {
            "interface": ", ".join(self._links),
            "reason": f"{' and '.join(self._links)}, as asked for",
            "present": bool(told),
            "addresses": [address for link in told for address in link["addresses"]],
            "links": {link.name: _described(link) for link in self._links.values()},
            "group": str(self._group),
            "listen_port": one.get("listen_port", self._listen_port),
            "mtu": min((link["mtu"] for link in told), default=LARGEST_MTU),
            "datagram_size": self.datagram_size,
            **{name: one[name] for name in ("receive_buffer", "send_buffer", "offload") if name in one},
        }

    def close(self) -> None:
        """Release the sockets; a second time does nothing."""
        self._cleanup.close()

    def _close_links(self) -> None:
        """Close all links; the epoll descriptor stays as it is, as a forked child shares it with its parent."""
        for link in self._links.values():
            if link.network is not None:
                self._forget(link, link.network)

    def _after_fork(self) -> None:
        """Close the sockets in a forked child, where the copies would hold the ports and fill with multicasts."""
        self._waiter.renew_lock()
        for link in self._links.values():
            if link.network is not None:
                link.network._after_fork()
        self.close()


def _described(link: Link) -> dict[str, Any]:
    network = link.network
    counted = Counter[str]() if network is None else network.statistics
    return {
        "up": network is not None and link.is_up,
        "address": "" if network is None else network.unicast_address[0],
        "listen_port": 0 if network is None else network.unicast_address[1],
        "bytes_sent": counted["bytes sent"],
        "bytes_received": counted["bytes received"],
    }
