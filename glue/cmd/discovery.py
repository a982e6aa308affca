"""`glue discovery`: shows the endpoints on the network as they come and go, and why they went."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from glue.cmd import common
from glue.cmd.output import CommandOutput, printable, table
from glue.cmd.session import address_text, open_endpoint, peer_fields


def parser() -> common.Parser:
    """Return the parser of this command."""
    return common.common_parser("discovery", "Show the endpoints on the network as they come and go.")


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Report peers until the command ends, then list the present ones."""
    with open_endpoint(arguments, output) as endpoint:
        with common.until_ended(arguments.duration):
            common.wait_for_end()
        peers = sorted(endpoint.peers, key=lambda peer: peer.name)
    rows = [[printable(peer.name, 40), peer.id, address_text(peer.address), str(peer.incarnation)] for peer in peers]
    lines = table([["peer", "id", "address", "incarnation"], *rows]) if rows else ["no peers"]
    output.event("peers", "\n".join(["", *lines]), peers=[peer_fields(peer) for peer in peers])
    return common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
