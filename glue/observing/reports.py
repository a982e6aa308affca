"""Reports of endpoints as plain data; a peer may have told anything, so what is not as it should be is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glue.doctor.seen import EndpointSeen, PathSeen
from glue.endpoint.facts import entries, number, share, text
from glue.endpoint.paths import PATHS, PEERS
from glue.settings import LINKS

MOST_TEXT = 120


def endpoint_seen(bare: EndpointSeen, report: Any, at: float | None, width: float) -> EndpointSeen:
    """Fill in what a report tells. `at`: the wall clock in the middle of the time of asking, which took `width`."""
    if not isinstance(report, dict):
        return bare
    found: dict[str, Any] = {}
    for name in ("network_id", "epoch", "waiting", "receive_limit"):
        if _is_number(report.get(name), int):
            found[name] = report[name]
    for name in ("announce_interval", "clock_moved", "load"):
        if _is_number(report.get(name), float):
            found[name] = float(report[name])
    if isinstance(report.get("version"), str):
        found["version"] = report["version"][:MOST_TEXT]
    found["sealed"] = report.get("sealed") is True
    if at is not None and _is_number(report.get("unix_time"), float):
        offset = float(report["unix_time"]) - at
        found["clock_offset"] = 0.0 if abs(offset) <= width else round(offset, 3)
    found["counters"] = _counters(report.get("counters"))
    return replace(bare, **found, **_network(report.get("network")))


def with_paths(endpoint: EndpointSeen, told: Any) -> EndpointSeen:
    """Fill in what the section "paths" tells."""
    links = told.get("links") if isinstance(told, dict) else None
    if not isinstance(links, dict):
        return endpoint
    up = {name[:MOST_TEXT]: is_up is True for name, is_up in [*links.items()][:LINKS] if isinstance(name, str)}
    paths = [
        _path(text(peer, "name"), text(peer, "link"), path)
        for peer in entries(told, "peers")[:PEERS]
        for path in entries(peer, "paths")[:PATHS]
        if text(peer, "name") and text(path, "link")
    ]
    return replace(endpoint, links=up, paths=tuple(paths))


def _path(peer: str, used: str, path: dict[str, Any]) -> PathSeen:
    link, answers = text(path, "link"), path.get("answers") is True
    trip, loss = number(path, "round_trip"), share(path.get("loss")) or 0.0
    return PathSeen(peer=peer, link=link, carries=link == used, answers=answers, round_trip=trip, loss=loss)


def _network(network: Any) -> dict[str, Any]:
    if not isinstance(network, dict):
        return {}
    found: dict[str, Any] = {}
    for name in ("interface", "reason"):
        if isinstance(network.get(name), str):
            found[name] = network[name][: 4 * MOST_TEXT]
    if _is_number(network.get("mtu"), int):
        found["mtu"] = network["mtu"]
    buffer = network.get("receive_buffer")
    if isinstance(buffer, dict):
        for name in ("asked", "granted"):
            if _is_number(buffer.get(name), int):
                found[f"buffer_{name}"] = buffer[name]
    return found


def _counters(counters: Any) -> dict[str, dict[str, int]]:
    if not isinstance(counters, dict):
        return {}
    return {
        str(layer)[:MOST_TEXT]: {
            str(cause)[:MOST_TEXT]: count for cause, count in counted.items() if _is_number(count, int)
        }
        for layer, counted in counters.items()
        if isinstance(counted, dict)
    }


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
