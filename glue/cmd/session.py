"""The endpoint of a command: made from the command's options, reports its start and the peers that come and go."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import glue
from glue.cmd import common, logs
from glue.cmd.output import CommandOutput, payload_fields, printable
from glue.errors import ConfigurationError
from glue.metrics import Measured, MetricsServer, exposition, parse_address
from glue.network import Choice, choose_interface, parse_group
from glue.settings import Settings

NAME_WIDTH = 24
RETRY_INTERVAL = 0.001
"""Seconds until a publisher tries again after the queue was full."""

Report = Callable[[CommandOutput, glue.Peer], None]


@contextmanager
def open_endpoint(arguments: argparse.Namespace, output: CommandOutput, quiet: bool = False) -> Iterator[glue.Endpoint]:
    """Start an endpoint, report the start and all peers, and close the endpoint at the end of the block.

    With `quiet` only programs get these reports.
    """
    endpoint = glue.Endpoint(**common.settings_from(arguments))
    output.endpoint = endpoint.name
    telling = output.json or not quiet
    early: list[tuple[Report, glue.Peer]] = []  # peers before the report of the start
    is_introduced, lock = False, threading.Lock()

    def told(report: Report) -> Callable[[glue.Peer], None]:
        def tell(peer: glue.Peer) -> None:
            with lock:
                if not is_introduced:
                    early.append((report, peer))
                    return
            report(output, peer)

        return tell

    if telling:
        endpoint.on_peer_added, endpoint.on_peer_removed = told(report_added), told(report_removed)
    with endpoint, watched(arguments, endpoint):
        if telling:
            with lock:
                report_start(output, endpoint)
                for report, peer in early:
                    report(output, peer)
                is_introduced = True
        yield endpoint


@contextmanager
def watched(arguments: argparse.Namespace, endpoint: Measured) -> Iterator[None]:
    """Serve the metrics of an endpoint if `--metrics-port` asks for it, and log what it drops and refuses."""
    with ExitStack() as stack:
        if arguments.metrics_port is not None:
            host, port = parse_address(arguments.metrics_port)
            stack.enter_context(MetricsServer(lambda: exposition(endpoint), host, port))
        stack.enter_context(logs.losses_logged(lambda: endpoint.statistics))
        yield


def publish(endpoint: glue.Endpoint, topic: str, payload: Any, **options: Any) -> Any:
    """Publish, and wait for room as `block=True` does; returns the receipt. `Ended` may rise while it waits."""
    while True:
        try:
            return endpoint.publish(topic, payload, block=False, **options)
        except glue.WouldBlockError:
            common.pause(RETRY_INTERVAL)


def choose(settings: Settings) -> Choice:
    """Return the interface that these settings name or choose, and why. Raises ConfigurationError for several."""
    if settings.links:
        raise ConfigurationError(f"--interface {','.join(settings.links)}: this command takes one interface at a time")
    return choose_interface(settings.one_interface, parse_group(settings.multicast_address).family)


def chosen(settings: Settings) -> tuple[str, str]:
    """Return the names of the interfaces that an endpoint with these settings uses, and why."""
    if settings.links:
        return ",".join(settings.links), f"{' and '.join(settings.links)}, as asked for"
    choice = choose(settings)
    return choice.interface.name, choice.reason


def report_start(output: CommandOutput, endpoint: glue.Endpoint) -> None:
    """Report this endpoint's name and network."""
    settings = endpoint.settings
    interface, reason = chosen(settings)
    text = f"{endpoint.name} on {reason}; Ctrl-C ends"
    output.event(
        "started",
        output.style("dim", text),
        id=endpoint.id,
        incarnation=endpoint.incarnation,
        interface=interface,
        reason=reason,
        multicast_address=settings.multicast_address,
        network_id=settings.network_id,
    )


def report_added(output: CommandOutput, peer: glue.Peer) -> None:
    """Report that a peer came."""
    again = "again, restarted" if peer.restarted else ""
    text = f"+ {printable(peer.name, NAME_WIDTH):{NAME_WIDTH}} {address_text(peer.address)} {again}".rstrip()
    output.event("peer_added", output.style("green", text), **peer_fields(peer), restarted=peer.restarted)


def report_removed(output: CommandOutput, peer: glue.Peer) -> None:
    """Report that a peer left, and why."""
    text = f"- {printable(peer.name, NAME_WIDTH):{NAME_WIDTH}} {peer.reason}"
    output.event("peer_removed", output.style("yellow", text), **peer_fields(peer), reason=peer.reason)


def peer_fields(peer: glue.Peer) -> dict[str, Any]:
    """Return a peer's fields for programs."""
    return {"peer": peer.name, "id": peer.id, "address": address_text(peer.address), "incarnation": peer.incarnation}


def address_text(address: tuple[Any, ...] | None) -> str:
    """Format a socket address for people."""
    if not address:
        return ""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def report_message(output: CommandOutput, message: glue.Message, text: str | None, **fields: Any) -> None:
    """Report a received message."""
    output.event(
        "message",
        text,
        publisher=message.publisher,
        publisher_id=message.publisher_id,
        incarnation=message.incarnation,
        topic=message.topic,
        sequence=message.sequence,
        type=message.type,
        published_at=message.published_at,
        retained=message.retained,
        **payload_fields(message.payload),
        **fields,
    )


def report_statistics(output: CommandOutput, layer: str, statistics: Mapping[str, Mapping[str, int]]) -> None:
    """Report the counters of a layer."""
    counters = {cause: number for cause, number in statistics[layer].items() if number}
    width = max(map(len, counters), default=0)
    lines = [f"  {cause:{width}}  {number:,}" for cause, number in sorted(counters.items())]
    output.event(
        "statistics", "\n".join(["", f"{layer} counted", *(lines or ["  nothing"])]), layer=layer, counters=counters
    )
