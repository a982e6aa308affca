"""Tap: an endpoint records all datagrams sent and received, timestamped by its own clock.

The tap wraps the endpoint's network. Endpoints without a tap pay nothing.

    with glue.Endpoint("kitchen", network=glue.capture.tap("kitchen.pcapng")) as endpoint:
        ...

Sockets do not show IP and UDP headers, so the tap writes bare IP packets with synthetic headers. Sockets do not tell
the destination of a received datagram either, so its IP address is written as all zeros.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

from glue.capture.pcapng import INWARD, OUTWARD, RAW_IP, Recording
from glue.contract import Address, Network, Train
from glue.endpoint.base import multicast_network
from glue.errors import ConfigurationError
from glue.network import parse_group
from glue.settings import Settings

_IPV4 = Struct("!BBHHHBBH4s4s")
_IPV6 = Struct("!IHBB16s16s")
_UDP = Struct("!HHHH")
PROTOCOL = 17
HEADERS_KNOWN = 4096  # pairs of addresses with cached headers: about 200 bytes each, 800 kB


def tap(
    path: Path | str,
    point: str | None = None,
    network: Callable[[Settings], Network] = multicast_network,
    **rotation: Any,
) -> Callable[[Settings], Network]:
    """Return a factory for an endpoint's `network` that records into `path`.

    - `point`: name of the capture point. The default is the endpoint's name, or the file's name for an endpoint without
      one.
    - `network`: factory of the network to record.
    - `rotation`: keywords of `Recording`.

    When the endpoint starts, the factory raises OSError if it cannot write the file.
    """

    def factory(settings: Settings) -> Network:
        recording = Recording(path, point or settings.name or Path(path).stem, RAW_IP, **rotation)
        try:
            below = network(settings)
        except BaseException:
            recording.close()
            raise
        group = parse_group(settings.multicast_address)
        return TappedNetwork(below, recording, (group.host, group.port))

    return factory


class TappedNetwork:
    """Network that records the datagrams of the network it wraps; implements `glue.contract.Network`."""

    def __init__(self, network: Network, recording: Recording, group: tuple[str, int]) -> None:
        """`group`: address and port of the multicast group."""
        self._network = network
        self._recording: Recording | None = recording
        self._group = group
        self._headers: dict[tuple[Address, Address], tuple[bytes, bytes]] = {}
        self.filenos = network.filenos
        self.wait = network.wait
        self.wake = network.wake
        self.maintain = network.maintain

        if (follow := getattr(network, "follow_links", None)) is not None:
            self.follow_links = follow

    @property
    def statistics(self) -> Counter[str]:
        """The counters of the wrapped network."""
        return self._network.statistics

    @property
    def datagram_size(self) -> int:
        """Largest datagram in bytes, from the wrapped network."""
        return self._network.datagram_size

    @property
    def unicast_address(self) -> Address:
        """Address for unicast, from the wrapped network."""
        return self._network.unicast_address

    def receive(self) -> Iterator[Train]:
        """Yield the received trains and record them with the time of this call."""
        now = time.time_ns()
        own = self._network.unicast_address
        here = ("::" if ":" in own[0] else "0.0.0.0", own[1])
        for train in self._network.receive():
            if train.address is not None:
                self._record(now, train, train.address, here, INWARD)
            yield train

    def send(self, trains: Sequence[Train]) -> None:
        """Record the trains, then send them. Therefore no answer stands in the file before its request."""
        now = time.time_ns()
        own = self._network.unicast_address
        for train in trains:
            self._record(now, train, own, train.address or self._group, OUTWARD)
        self._network.send(trains)

    def describe(self) -> dict[str, Any]:
        """Return the wrapped network's configuration and the recording's files."""
        recording = self._recording
        files = [] if recording is None else [str(path) for path in recording.paths]
        return {**self._network.describe(), "tap": files}

    def close(self) -> None:
        """Close the network and the recording, of which a full disk may lose the last part."""
        try:
            self._network.close()
        finally:
            recording, self._recording = self._recording, None
            try:
                if recording is not None:
                    recording.close(0)
            except OSError as error:
                self.statistics[f"recording ended: {error.strerror}"] += 1

    def _record(self, now: int, train: Train, source: Address, destination: Address, direction: int) -> None:
        if self._recording is None:
            return
        try:
            data = train.data  # not its chunks: each time they are read, they may be made anew, with other numbers
            for start in range(0, len(data), train.segment):
                packet = self._packet(source, destination, data[start : start + train.segment])
                self._recording.write(now, packet, len(packet), direction)
        except OSError as error:  # the endpoint continues when the disk is full
            self.statistics[f"recording ended: {error.strerror}"] += 1
            with suppress(OSError):  # the buffered rest does not fit either
                self._recording.close()
            self._recording = None

    def _packet(self, source: Address, destination: Address, datagram: bytes | bytearray | memoryview) -> bytes:
        known = self._headers.get((source, destination))
        if known is None:
            if len(self._headers) >= HEADERS_KNOWN:
                self._headers.clear()
            known = self._headers[source, destination] = _addresses(source, destination)
        addresses, ports = known
        length = 8 + len(datagram)
        if len(addresses) == 8:
            head = _IPV4.pack(0x45, 0, 20 + length, 0, 0, 1, PROTOCOL, 0, addresses[:4], addresses[4:])
        else:
            head = _IPV6.pack(6 << 28, length, PROTOCOL, 1, addresses[:16], addresses[16:])
        return b"".join((head, ports, length.to_bytes(2, "big"), b"\0\0", datagram))


def _addresses(source: Address, destination: Address) -> tuple[bytes, bytes]:
    """Return the two packed IP addresses, and the two packed ports, as in packet headers."""
    packed = [ipaddress.ip_address(address[0].partition("%")[0]).packed for address in (source, destination)]
    if len(packed[0]) != len(packed[1]):
        raise ConfigurationError(f"{source[0]} and {destination[0]} are of different address families")
    return b"".join(packed), b"".join(address[1].to_bytes(2, "big") for address in (source, destination))
