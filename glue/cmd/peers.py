"""`glue peers`: the endpoints of the network, and how well each pair of them hears each other.

    glue peers                   endpoints, and the share of pings lost from each one to each other one
    glue peers --json            for programs

The endpoints send each other 20 pings by unicast and multicast, which takes a second. Endpoints with `doctor=False`
answer no questions: of these only name and address are known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from glue.cmd import common
from glue.cmd.facts import MATRIX, NAME, matrix
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import open_endpoint
from glue.endpoint.facts import entries, number, share, text
from glue.endpoint.inquiring import begin_round
from glue.endpoint.sections import SECTIONS
from glue.sync.examining import ask_all

FIND = 1.2
"""Seconds until all endpoints have been heard."""
PINGS = 20
ROUND = 1.2
"""Seconds that a round of pings takes, with the answers."""

Losses = dict[tuple[str, str], tuple[float | None, float | None]]
"""By sender and receiver: the shares of multicast and unicast pings that did not come."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    return common.common_parser(
        "peers", "List the endpoints, and how well they hear each other.", epilog=__doc__.split("\n", 2)[2]
    )


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Ask, and list."""
    is_done = False
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        with output.progress("asking the endpoints", FIND + ROUND):
            common.pause(FIND)
            begin_round(endpoint, PINGS)
            common.pause(ROUND)
            told = {one.id: one.sections for one in ask_all(endpoint, ["report", "links"])}
        told[endpoint.id] = {name: SECTIONS[name](endpoint) for name in ("report", "links")}
        peers = {peer.id: (peer.name, ":".join(map(str, peer.address[:2]))) for peer in endpoint.peers}
        peers[endpoint.id] = endpoint.name, "this command"
        show(output, endpoint.id, peers, told)
        is_done = True
    return common.SUCCESS if is_done else common.ended_early("peers")


def show(output: CommandOutput, own: str, peers: dict[str, tuple[str, str]], told: dict[str, dict[str, Any]]) -> None:
    """Print the table of endpoints, and the matrix of losses."""
    losses = losses_of(told)
    rows = [["endpoint", "address", "host", "glue", "round trip", "peers", "waiting"]]
    trips = {text(one, "id"): number(one, "round_trip") for one in entries(told[own].get("links"), "peers")}
    for id, (name, address) in sorted(peers.items(), key=lambda item: item[1]):
        report = told.get(id, {}).get("report")
        trip = trips.get(id, 0.0)
        shown = "–" if not trip else f"{trip * 1e3:.2f} ms"
        host, version = text(report, "host"), text(report, "version")
        known, waiting = int(number(report, "peers")), int(number(report, "waiting"))
        rows.append([
            printable(name, NAME), address, printable(host, NAME),
            printable(version) or "no answer", shown, str(known), f"{waiting} B",
        ])  # fmt: skip
        output.event(
            "endpoint", None, name=name, id=id, address=address, host=host, version=version, round_trip=trip or None,
            peers=known, waiting=waiting, answered=report is not None,
        )  # fmt: skip
    for (sender, receiver), (multicast, unicast) in sorted(losses.items()):
        output.event("way", None, sender=sender, receiver=receiver, multicast=multicast, unicast=unicast)
    ids = [id for id in sorted(peers, key=lambda id: peers[id]) if id in told]
    names = {id: peers[id][0] for id in ids[:MATRIX]}
    lines = table(rows)
    for place, way in enumerate(("multicast", "unicast")):
        if len(names) > 1:
            lines += ["", f"pings lost by {way}", *matrix(names, partial(loss_of, losses, place))]
    if len(ids) > MATRIX:
        lines += ["", f"{len(ids) - MATRIX} more endpoints: --json tells of all pairs"]
    output.event("summary", "\n".join(lines), endpoints=len(peers))


def loss_of(losses: Losses, place: int, sender: str, receiver: str) -> float | None:
    """Return the share of pings lost by multicast (`place` 0) or unicast (1); None if it is not known."""
    return losses.get((sender, receiver), (None, None))[place]


def losses_of(told: dict[str, dict[str, Any]]) -> Losses:
    """Return the share of pings that did not come, from what each receiver has told."""
    found: Losses = {}
    for receiver, sections in told.items():
        for one in entries(sections.get("links"), "peers"):
            if text(one, "id") in told and "heard" in one:
                found[text(one, "id"), receiver] = lost(one.get("multicast")), lost(one.get("unicast"))
    return found


def lost(pings: Any) -> float | None:
    """Return the share of pings that did not come, of "how many came, of how many"; None if that is not known."""
    match pings:
        case [int(came), int(of)] if 0 <= came <= of and of:
            return share(1 - came / of)
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
