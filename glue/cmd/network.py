"""`glue network`: lists the interfaces, tells which is chosen and why, and exchanges bare datagrams with the group.

The command uses only the lowest layer, so datagrams of all programs are shown as they are. With `--send-messages` it
sends numbered datagrams. It shows the sender of each received datagram, and also receives its own. With a key, the
command seals sent datagrams and opens received ones, without a check for replayed datagrams.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from glue.cmd import common
from glue.cmd.common import settings_from
from glue.cmd.output import CommandOutput, payload_fields, payload_text, table
from glue.cmd.session import address_text, choose, chosen
from glue.contract import Train
from glue.contract.sealed import HEAD, sealed_network
from glue.errors import ConfigurationError
from glue.network import MulticastNetwork, list_interfaces
from glue.settings import Settings, effective

UNUSED = "identity", "policy", "storage_key"
"""Settings of layers that take no part here."""


class Seal:
    """Seals and opens bare datagrams with a key of the group, if there is one."""

    overhead = 0

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError for a wrong key file."""
        self._opener: Any = None
        if settings.key is None:
            return
        from glue.capture.opened import Opener
        from glue.endpoint.secrets import fastest_suite, read_key
        from glue.security.runs import OVERHEAD
        from glue.security.sealer import Sealer

        key, network = read_key(settings.key), settings.network_id.to_bytes(2, "big")
        self.overhead = OVERHEAD
        self._opener = Opener(key)
        self._sealer = Sealer(fastest_suite(), network, os.urandom, Counter(), key.epochs[0], 0, False)

    def sealed(self, payload: bytes) -> bytes:
        """The datagram as it is sent."""
        return payload if self._opener is None else bytes(self._sealer.seal(payload, len(payload), None))

    def opened(self, datagram: bytes) -> tuple[bytes, str]:
        """The datagram as it is shown, and what is to be said about it."""
        if sealed_network(datagram) is None:
            return datagram, "" if self._opener is None else "not sealed: "
        opened = None if self._opener is None else self._opener.open(datagram)
        if opened is not None:
            return opened, "sealed: "
        _, key_id, network, _, number = HEAD.unpack_from(datagram)
        key = "a " if self._opener is None else "another "
        return datagram, f"sealed with {key}key, id {key_id:02x}, network {network}, number {number & 0x7FFFFFFF}: "


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("network", "List the interfaces and the choice; send and show bare datagrams.")
    group = made.add_argument_group("datagrams")
    group.add_argument("--listen", action="store_true", help="show the datagrams received (implied by --duration)")
    group.add_argument("--send-messages", action="store_true", help="send numbered datagrams, and show those received")
    group.add_argument("--rate", type=common.rate, default=1.0, help="datagrams a second (default: %(default)g)")
    group.add_argument("--count", type=common.count, help="send this many; without --duration the command then ends")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """List the interfaces; then send and listen if asked to."""
    settings = effective(settings_from(arguments))
    for name in UNUSED:
        if settings.sources.get(name) == "keyword":
            raise ConfigurationError(
                f"--{name.replace('_', '-')} has no effect on bare datagrams; leave it out, or use glue endpoint"
            )
    output.endpoint = settings.name or f"{socket.gethostname()}-{os.getpid()}"
    report_interfaces(settings, output)
    if arguments.listen or arguments.send_messages or arguments.duration is not None:
        exchange(arguments, settings, output)
    return common.SUCCESS


def report_interfaces(settings: Settings, output: CommandOutput) -> None:
    """Report the interfaces, and the chosen one with the reason."""
    names, reason = chosen(settings)
    rows = [["interface", "state", "kind", "mtu", "addresses"]]
    for interface in list_interfaces():
        state = "up" if interface.up else "down"
        kind = "loopback" if interface.loopback else "virtual" if interface.virtual else "hardware"
        addresses = [*interface.ipv4, *interface.ipv6]
        rows.append([interface.name, state, kind, str(interface.mtu), " ".join(addresses)])
        is_chosen = interface.name in names.split(",")
        output.event(
            "interface", interface=interface.name, state=state, kind=kind, addresses=addresses, chosen=is_chosen
        )
    lines = [*table(rows), "", output.style("bold", f"chosen: {reason}")]
    output.event("chosen", "\n".join(lines), interface=names, reason=reason)


def exchange(arguments: argparse.Namespace, settings: Settings, output: CommandOutput) -> None:
    """Send numbered datagrams if asked to, and show received ones, until the command ends."""
    seal = Seal(settings)
    network = MulticastNetwork(
        interface=choose(settings).interface.name if settings.interface else None,
        multicast_address=settings.multicast_address,
        listen_port=settings.listen_port,
        receive_buffer=settings.receive_buffer,
        offload=settings.offload,
    )
    try:
        with common.until_ended(arguments.duration):
            if arguments.send_messages:
                send(network, seal, arguments, output)
            if not arguments.send_messages or arguments.duration is not None:
                listen(network, seal, output, float("inf"))
    finally:
        network.close()


def send(network: MulticastNetwork, seal: Seal, arguments: argparse.Namespace, output: CommandOutput) -> None:
    """Send the numbered datagrams, listening in between."""
    name = output.endpoint
    start = time.monotonic()
    number = 0
    while arguments.count is None or number < arguments.count:
        number += 1
        payload = f"datagram {number} from {name}".encode()[: network.datagram_size - seal.overhead]
        payload = seal.sealed(payload)
        network.send([Train(None, payload, len(payload))])
        output.event("sent", number=number)
        listen(network, seal, output, start + number / arguments.rate if arguments.rate else 0.0)


def listen(network: MulticastNetwork, seal: Seal, output: CommandOutput, end: float) -> None:
    """Show received datagrams until `end` (monotonic seconds), and at least those that are there already."""
    maintain_at = network.maintain(time.monotonic())
    while True:
        now = time.monotonic()
        if now >= maintain_at:
            maintain_at = network.maintain(now)
        with common.waiting():
            network.wait(max(0.0, min(end - now, maintain_at - now, common.NAP)))
        for train in network.receive():
            for datagram in datagrams(train):
                sender = address_text(train.address)
                payload, about = seal.opened(datagram)
                text = f"{sender:24} {len(datagram):5} bytes  {about}{payload_text(payload)}"
                output.event("datagram", text, address=sender, size=len(datagram), **payload_fields(payload))
        if time.monotonic() >= end:
            return


def datagrams(train: Train) -> Iterator[bytes]:
    """Yield the datagrams of a train."""
    for start in range(0, len(train.data), train.segment):
        yield bytes(train.data[start : start + train.segment])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
