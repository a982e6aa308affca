"""The network on real sockets: the unicast socket sends and receives, the multicast socket only receives.

The sockets live as long as the network, so the port and the file descriptors never change. The interface with its
index, addresses and state is checked once a second if the kernel reports a change, and the sockets follow. Therefore a
cable plugged in later, a new address or a recreated device needs no restart.
"""

from __future__ import annotations

import errno
import socket
from _thread import get_ident
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from glue.contract import Address, Train
from glue.contract.counters import Counters
from glue.contract.logs import lazy_logger
from glue.errors import ConfigurationError, InterfaceError
from glue.network import batch_scheduling, sockets
from glue.network.changes import InterfaceChanges
from glue.network.choice import choose_interface, obstacle
from glue.network.fastpath import UnicastFastPath
from glue.network.group import parse_group
from glue.network.interfaces import Interface, find_interface
from glue.network.loopback import MulticastLoopback
from glue.network.offload import enable_coalescing, has_segmentation
from glue.network.receiver import Receiver
from glue.network.sender import Sender
from glue.network.waiter import GATHER, Waiter

logger = lazy_logger("glue.network")

MAINTENANCE_INTERVAL = 1.1  # as an announcement, so that a change is healed within three of them
LOOK_ANYWAY = 10.0  # seconds after which the interface is looked at without a notice of a change, too
REFUSALS_REMEMBERED = 60.0  # how long a destination is spared UDP_SEGMENT after its device refused it

# Datagrams have the size of Ethernet everywhere. A larger MTU here (loopback, jumbo frames) says nothing about other
# machines on the segment, and a machine with a smaller MTU would receive nothing.
LARGEST_MTU = 1500

# One call of `receive` reads 24 times from unicast, then as often as is left, at least 8 times, from multicast, so that
# neither starves the other. The result is at most 2 MiB and the continuation of the last train of each, 1.2 MiB.
READS = 32
UNICAST_READS = 24

ENOUGH = 4  # unicast reads in one turn from which on no sleep is needed: as much arrives during the turn


class MulticastNetwork:
    """`glue.contract.Network` over UDP multicast; the address family follows the group.

    Only `wake` is thread-safe. An endpoint receives its own announcements. With other endpoints on the machine, it also
    receives its own multicasts to known peers (`MulticastLoopback`).
    """

    def __init__(
        self,
        *,
        interface: str | None,
        multicast_address: str,
        listen_port: int,
        receive_buffer: int,
        offload: bool,
        spin: float = 0.0,
        sched_batch: bool = True,
        source: Interface | None = None,
    ) -> None:
        """Open the sockets and join the group. The arguments are the settings of the same names.

        interface: None chooses an interface, and moves to a better one from loopback or an unusable interface.
        offload: False disables UDP_SEGMENT and UDP_GRO.
        sched_batch: False disables SCHED_BATCH.
        source: the interface as one of several: unicast comes to its first address only, and leaves through it.

        Raises ConfigurationError for a bad address, InterfaceError for an unknown interface, PortInUseError for a port
        in use.
        """
        self.statistics = Counters()
        self._group = parse_group(multicast_address)
        if listen_port == self._group.port:
            raise ConfigurationError(f"listen_port={listen_port}: that is the port of the group; choose another, or 0")
        self._automatic = interface is None
        self._choice = choose_interface(interface, self._group.family)
        self._receive_buffer = receive_buffer
        with ExitStack() as cleanup:
            self._changes = InterfaceChanges()
            cleanup.callback(self._changes.close)
            # This order, because a port once bound by a group is never given to a socket that takes any free one.
            self._multicast = cleanup.enter_context(sockets.open_multicast_socket(self._group, source))
            self._unicast = cleanup.enter_context(sockets.open_unicast_socket(self._group, listen_port, source))
            self._configure(offload, spin, sched_batch)
            cleanup.callback(self._waiter.close)
            self._cleanup = cleanup.pop_all()
        logger.info("interface %s", self._choice.reason)
        self._attach(self._choice.interface)

    def _configure(self, offload: bool, spin: float, sched_batch: bool) -> None:
        """Buffers, offload, and the parts that move the datagrams."""
        both = (self._unicast, self._multicast)
        self._send_buffer_granted = sockets.raise_send_buffer(self._unicast)
        self._receive_buffer_granted = min(sockets.raise_receive_buffer(s, self._receive_buffer) for s in both)
        self._coalescing = offload and all(enable_coalescing(s) for s in both)
        segmentation = offload and has_segmentation(self._unicast)
        self._loopback = MulticastLoopback(self._unicast)
        self._sender = Sender(self._unicast, self._group.payload_limit, segmentation, self.statistics, self._loopback)
        self._unicast_fileno, self._multicast_fileno = self._unicast.fileno(), self._multicast.fileno()
        self._port: int = self._unicast.getsockname()[1]
        self._waiter = Waiter(self.filenos(), spin)
        self._sched_batch = sched_batch
        self._unicast_receiver = self._receiver(self._unicast, self._multicast, False)
        self._multicast_receiver = self._receiver(self._multicast, self._unicast, sched_batch)
        self._unicast_ready = self._multicast_ready = True  # unless `wait` knows better
        self._fresh = False  # whether there was nothing to receive just before
        self._waited_by = 0  # the thread that called `wait`, and is not wanted elsewhere; 0: none
        self._interface: Interface | None = None
        self._joined: Interface | None = None
        self._mtu = self._choice.interface.mtu
        self._drops = [0, 0]
        self._look_at = self._forget_refusals_at = 0.0

    def _receiver(self, receiving: socket.socket, other: socket.socket, sched_batch: bool) -> Receiver:
        """Make the receiver of one socket, which stops waiting for more when another descriptor is readable."""
        others = (other.fileno(), self._waiter.wake_fileno)
        return Receiver(receiving, self._coalescing, self.statistics, self._loopback, others, sched_batch)

    # ------------------------------------------------------------------------------------------ datagrams

    def filenos(self) -> Sequence[int]:
        """The unicast and the multicast socket; they stay the same until `close`."""
        return (self._unicast_fileno, self._multicast_fileno)

    def wait(self, timeout: float | None, patient: bool = False) -> None:
        """Block until something can be received, `wake` was called, or `timeout` seconds passed (at most an hour)."""
        if self._unicast_receiver.kept is not None:
            self._unicast_ready, self._multicast_ready = True, False
            return
        rested, is_shared = self._look_back()
        is_batch = is_shared and self._sched_batch and batch_scheduling.enter()
        try:
            ready = self._waiter.wait(timeout, patient or rested)
        finally:
            if is_batch:
                batch_scheduling.leave()
        self._fresh = self._waiter.fresh
        self._waited_by = 0 if self._waiter.woken else get_ident()
        self._unicast_ready = self._unicast_fileno in ready
        self._multicast_ready = self._multicast_fileno in ready

    def wake(self) -> None:
        """Make a `wait` in another thread return; safe from any thread, also after `close`."""
        self._waiter.wake()

    def receive(self) -> Iterable[Train]:
        """Return the trains of some 32 system calls, unicast first; the iterable reads lazily.

        Directly after `wait`, only the sockets found readable are read. The thread that called `wait` then waits for
        the rest of a message: for REST (see `glue.network.receiver`) and a millisecond at most, or until `wake`.
        """
        unicast = self._unicast_ready or self._unicast_receiver.kept is not None
        multicast, fresh, waited = self._multicast_ready, self._fresh, self._waited_by == get_ident()
        self._unicast_ready = self._multicast_ready = True
        self._fresh, self._waited_by = False, 0
        if not multicast:
            return self._unicast_receiver.receive(UNICAST_READS, fresh, waited) if unicast else ()
        if not unicast:
            return self._multicast_receiver.receive(READS, fresh, waited)
        return self._receive_both(fresh, waited)

    def session_part(self) -> UnicastFastPath:
        """The part that this network takes in a session; see `glue.fastpath.parts`."""
        return UnicastFastPath(self._waiter, self._unicast_fileno, self._unicast_receiver, self._sender)

    def _receive_both(self, fresh: bool, waited: bool) -> Iterator[Train]:
        yield from self._unicast_receiver.receive(UNICAST_READS, fresh, waited)
        left = READS - min(self._unicast_receiver.reads, UNICAST_READS)
        yield from self._multicast_receiver.receive(left, fresh, waited)

    def _look_back(self) -> tuple[bool, bool]:
        """Adapt the next wait to the latest datagrams.

        Returns whether the rest of a stream was awaited, and whether a stream came by multicast. A stream is
        best received in bulk and gathers during a sleep, unless its trains are so long that the receiver waits for
        the rest. A lone datagram may be a request, so it is worth no sleep.
        """
        unicast, multicast = self._unicast_receiver, self._multicast_receiver
        rested, is_shared = unicast.rested or multicast.rested, multicast.streams
        if rested:
            self._waiter.patience = 0.0
        elif multicast.reads:
            self._waiter.patience = GATHER if unicast.reads + multicast.reads > 1 or multicast.coalesced else 0.0
        elif unicast.reads:
            is_stream = unicast.reads < ENOUGH and (unicast.reads > 1 or unicast.coalesced)
            self._waiter.patience = GATHER if is_stream else 0.0
        unicast.reads = multicast.reads = 0
        unicast.rested = multicast.rested = multicast.streams = False
        return rested, is_shared

    def send(self, trains: Sequence[Train]) -> None:
        """Send; what cannot be sent is counted. Each `segment` must be 1 byte or more, and at most 65,507."""
        self._sender.send(trains)

    def take_broken(self) -> bool:
        """Whether the interface could not send at all since the last call."""
        broken, self._sender.is_broken = self._sender.is_broken, False
        return broken

    # ------------------------------------------------------------------------------------------ interfaces

    @property
    def datagram_size(self) -> int:
        """The interface's MTU, capped at 1,500, without IP and UDP headers: at most 1,472 bytes (1,452 for IPv6)."""
        return min(self._mtu, LARGEST_MTU) - self._group.overhead

    @property
    def unicast_address(self) -> Address:
        """The interface's first address and the port; the wildcard address while it has none."""
        family = self._group.family
        if self._interface is None or not self._interface.addresses(family):
            return self._group.socket_address(sockets.WILDCARD[family], self._port, 0)
        return sockets.source_address(self._group, self._interface, self._port)

    def maintain(self, now: float) -> float:
        """Look after the interface and the membership; to be called again some second later."""
        if self._changes.take() or now >= self._look_at or not self.is_settled:
            self._look_at = now + LOOK_ANYWAY
            self._look()
        self._count_drops()
        if now >= self._forget_refusals_at:
            self._sender.forget_refusals()
            self._forget_refusals_at = now + REFUSALS_REMEMBERED
        return now + MAINTENANCE_INTERVAL

    @property
    def is_settled(self) -> bool:
        """Whether the wanted interface is joined and usable, so that nothing changes until the interface does."""
        interface = self._interface
        if interface is None or self._joined is None or obstacle(interface, self._group.family) is not None:
            return False
        return not (self._automatic and interface.loopback)

    def _look(self) -> None:
        """Follow the present state of the interface."""
        found = find_interface(self._choice.interface.name, self._interface)
        if self._automatic:
            found = self._reconsider(found)
        if found != self._interface or (found is not None and self._joined is None):
            self._attach(found)

    def _reconsider(self, present: Interface | None) -> Interface | None:
        """Move from loopback or from an unusable interface to the best usable interface."""
        family = self._group.family
        if present is not None and not present.loopback and obstacle(present, family) is None:
            return present
        try:
            choice = choose_interface(None, family)
        except InterfaceError:
            return present
        if choice.interface.name == self._choice.interface.name or obstacle(choice.interface, family) is not None:
            return present
        logger.info("interface %s (before: %s)", choice.reason, self._choice.interface.name)
        self._choice = choice
        return choice.interface

    def _attach(self, interface: Interface | None) -> None:
        """Join the group on the interface as it is now, and send through it; None: there is none at present."""
        before, self._interface = self._interface, interface
        if self._joined is not None:
            sockets.leave(self._multicast, self._group, self._joined)
            self._joined = None
        self._sender.destination = None
        self._sender.forget_refusals()
        if interface is None:
            logger.warning("interface %s is gone; waiting for it", self._choice.interface.name)
            self.statistics["interface lost"] += 1
            return
        self._mtu = interface.mtu
        trouble = obstacle(interface, self._group.family)
        try:
            sockets.join(self._multicast, self._group, interface)
            sockets.send_through(self._unicast, self._group, interface)
        except OSError as error:
            trouble = f"cannot join {self._group}: {error.strerror}"
            self.statistics[f"not joined: {errno.errorcode.get(error.errno or 0, 'unknown error')}"] += 1
        else:
            self.statistics["memberships"] += 1
            self._joined = interface
            if addresses := interface.addresses(self._group.family):  # else it would leave with another's address
                self._sender.destination = self._group.destination(interface.number)
                self._loopback.set_addresses(addresses)
        if interface != before:
            self._tell(interface, trouble)

    def _tell(self, interface: Interface, trouble: str | None) -> None:
        if trouble is None:
            logger.info("%s: joined %s as %s", interface.name, self._group, self.unicast_address[0])
        else:
            logger.warning("%s: %s; waiting for that to change", interface.name, trouble)
        if interface.loopback and not interface.multicast and self._group.family == socket.AF_INET6:
            logger.warning("%s carries no IPv6 multicast on this system; use an IPv4 group there", interface.name)

    def _count_drops(self) -> None:
        """Count what the kernel dropped since the last time, or loss would be blamed on the network."""
        for number, receiving in enumerate((self._unicast, self._multicast)):
            drops = sockets.kernel_drops(receiving)
            if drops is not None and drops != self._drops[number]:
                self.statistics["not received: buffer full"] += (drops - self._drops[number]) & 0xFFFFFFFF  # it wraps
                self._drops[number] = drops

    # ------------------------------------------------------------------------------------------ the rest

    def describe(self) -> dict[str, Any]:
        """The effective configuration; sizes in bytes."""
        interface = self._interface
        return {
            "interface": self._choice.interface.name,
            "reason": self._choice.reason,
            "present": interface is not None,
            "addresses": [] if interface is None else [*interface.addresses(self._group.family)],
            "group": str(self._group),
            "listen_port": self._port,
            "mtu": self._mtu,
            "datagram_size": self.datagram_size,
            "receive_buffer": {"asked": self._receive_buffer, "granted": self._receive_buffer_granted},
            "send_buffer": {"asked": sockets.SEND_BUFFER, "granted": self._send_buffer_granted},
            "offload": {"UDP_SEGMENT": self._sender.segmentation, "UDP_GRO": self._coalescing},
        }

    def close(self) -> None:
        """Release the sockets, and with them the membership; a second time does nothing."""
        self._cleanup.close()

    def _after_fork(self) -> None:
        """Close the sockets in a forked child, where the copies would hold the port and fill with multicasts."""
        self._waiter.renew_lock()
        self.close()
