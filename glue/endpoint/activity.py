"""The section "activity" of an endpoint: what it has sent and received since its start, and how its peers fared.

Counters only grow, so a tool that asks twice knows the rates between. See `glue.endpoint.sections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any, Final

from glue.endpoint.core import EndpointCore
from glue.transport.layer import Transport

COUNTERS: Final = {
    "published": ("topics", "messages published"),
    "heard": ("topics", "messages received"),
    "sent": ("network", "datagrams sent"),
    "sent_bytes": ("network", "bytes sent"),
    "received": ("network", "datagrams received"),
    "received_bytes": ("network", "bytes received"),
    "lost": ("transport", "frames lost"),
}
"""What is told, by the layer and the name of its counter."""
PEERS: Final = 200
"""Peers of which the section tells: some 80 bytes each, 16 kB in all."""


def activity(core: EndpointCore, statistics: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the counters, the bytes that wait, and the path to each peer that gets reliable messages."""
    counted = {name: statistics.get(layer, {}).get(counter, 0) for name, (layer, counter) in COUNTERS.items()}
    return {**counted, "waiting": core.waiting, "paths": paths(core)}


def paths(core: EndpointCore) -> list[dict[str, Any]]:
    """Return for each peer with a reliable channel its loss, round trip (seconds), and whether unicast serves it.

    Of several channels to one peer the worst loss and the longest round trip count. Loss is the share of the latest
    frames, as the congestion control measures it; None before it has measured.
    """
    transport = core.stack.layers.get("transport")
    found: dict[str, dict[str, Any]] = {}
    if not isinstance(transport, Transport):
        return []
    for channel in list(transport.channels.values()):
        for peer, member in list(channel.members.items()):
            one = found.get(peer)
            if one is None:
                if len(found) >= PEERS:
                    break
                one = found[peer] = {"peer": peer, "loss": None, "round_trip": None, "unicast": False}
            if not isnan(member.window.loss):
                one["loss"] = max(one["loss"] or 0.0, round(member.window.loss, 4))
            if member.round_trip.measured:
                one["round_trip"] = max(one["round_trip"] or 0.0, round(member.round_trip.smoothed, 6))
            one["unicast"] = one["unicast"] or member.detached
    return list(found.values())
