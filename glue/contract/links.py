"""Links: how addresses, orders and news tell through which network interface of this endpoint something goes.

A *link* is an interface with a socket and a source address of its own; an endpoint with several interfaces has several.
Such an endpoint writes the name of the link behind the host of each address, as RFC 4007 writes zones:
`("10.0.0.2%eth0", 37319)`. So one host that two links reach has two addresses. An endpoint with one interface has plain
addresses, and none of this happens there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glue.contract.items import Address


def link_of(address: Address | None) -> str:
    """Return the name of the link in an address; empty for a plain address."""
    return str(address[0]).partition("%")[2] if address else ""


def on_link(address: Address, link: str) -> Address:
    """Return a plain address as reached through this link."""
    return (f"{address[0]}%{link}", *address[1:])


def without_link(address: Address) -> Address:
    """Return the plain address, as sockets take it."""
    return (str(address[0]).partition("%")[0], *address[1:])


class GroupOn(tuple[Any, ...]):
    """The group as a destination for known peers, on some links only: TO_PEERS, and equal to it, with `links`."""

    links: frozenset[str]

    def __new__(cls, links: Iterable[str]) -> GroupOn:
        """Make the destination for these links."""
        made = super().__new__(cls, ())
        made.links = frozenset(links)
        return made
