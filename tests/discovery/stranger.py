"""Forged datagrams of a stranger."""

from __future__ import annotations

from typing import Any

import orjson

from glue.contract import Address, Inbound
from tests.discovery.lan import Host, Lan

STRANGER: Address = ("10.9.9.9", 9)


def forged(victim: Host, kind: str, address: Address, incarnation: int | None = None, **changes: Any) -> Inbound:
    """A datagram of discovery in the name of a host, from another address."""
    usual = {"name": f"host {int(victim.id, 16)}", "interval_ms": 1000, "epoch": 0, "version": 0, "previous": 0}
    body = orjson.dumps({**usual, "base": 0, "operations": [], **changes})
    header = {"discovery": [0, 0, None, None, kind]}
    life = victim.incarnation if incarnation is None else incarnation
    return Inbound(victim.id, life, address, header, [b"" if kind == "goodbye" else body])


def strike(lan: Lan, host: Host, *items: Inbound) -> None:
    """Let a host receive forged items; its answers pass through the network as usual."""
    lan._deliver(host, list(items))
