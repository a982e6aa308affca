"""`glue network`: lists the interfaces, tells which is chosen and why, and exchanges bare datagrams with the group.

The command uses only the lowest layer, so datagrams of all programs are shown as they are. With `--send-messages` it
sends numbered datagrams. It shows the sender of each received datagram, and also receives its own.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from glue.cmd import common
from glue.cmd.common import settings_from
from glue.cmd.output import CommandOutput, payload_fields, payload_text, table
from glue.cmd.session import address_text, choose
from glue.contract import Train
from glue.network import MulticastNetwork, list_interfaces
from glue.settings import Settings, effective


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
    output.context["endpoint"] = settings.name or f"{socket.gethostname()}-{os.getpid()}"
    report_interfaces(settings, output)
    if arguments.listen or arguments.send_messages or arguments.duration is not None:
        exchange(arguments, settings, output)
    return common.SUCCESS


def report_interfaces(settings: Settings, output: CommandOutput) -> None:
    """Report the interfaces, and the chosen one with the reason."""
    choice = choose(settings)
    rows = [["interface", "state", "kind", "mtu", "addresses"]]
    for interface in list_interfaces():
        state = "up" if interface.up else "down"
        kind = "loopback" if interface.loopback else "virtual" if interface.virtual else "hardware"
        addresses = [*interface.ipv4, *interface.ipv6]
        rows.append([interface.name, state, kind, str(interface.mtu), " ".join(addresses)])
        is_chosen = interface.name == choice.interface.name
        output.event(
            "interface", interface=interface.name, state=state, kind=kind, addresses=addresses, chosen=is_chosen
        )
    lines = [*table(rows), "", output.style("bold", f"chosen: {choice.reason}")]
    output.event("chosen", "\n".join(lines), interface=choice.interface.name, reason=choice.reason)


def exchange(arguments: argparse.Namespace, settings: Settings, output: CommandOutput) -> None:
    """Send numbered datagrams if asked to, and show received ones, until the command ends."""
    network = MulticastNetwork(
        interface=settings.interface,
        multicast_address=settings.multicast_address,
        listen_port=settings.listen_port,
        receive_buffer=settings.receive_buffer,
        offload=settings.offload,
    )
    try:
        with common.until_ended(arguments.duration):
            if arguments.send_messages:
                send(network, arguments, output)
            if not arguments.send_messages or arguments.duration is not None:
                listen(network, output, float("inf"))
    finally:
        network.close()


def send(network: MulticastNetwork, arguments: argparse.Namespace, output: CommandOutput) -> None:
    """Send the numbered datagrams, listening in between."""
    name = output.context["endpoint"]
    start = time.monotonic()
    number = 0
    while arguments.count is None or number < arguments.count:
        number += 1
        payload = f"datagram {number} from {name}".encode()[: network.datagram_size]
        network.send([Train(None, payload, len(payload))])
        output.event("sent", number=number)
        listen(network, output, start + number / arguments.rate if arguments.rate else 0.0)


def listen(network: MulticastNetwork, output: CommandOutput, end: float) -> None:
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
                text = f"{sender:24} {len(datagram):5} bytes  {payload_text(datagram)}"
                output.event("datagram", text, address=sender, size=len(datagram), **payload_fields(datagram))
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
