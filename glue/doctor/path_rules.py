"""Rules about endpoints with several interfaces: which of them carry nothing although they should."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glue.doctor.finding import WARNING, Finding
from glue.doctor.names import of, some
from glue.doctor.seen import EndpointSeen, PathSeen, Seen


def link_down(seen: Seen) -> Iterator[Finding]:
    """One of several interfaces of an endpoint is down."""
    for one in seen.endpoints:
        down = sorted(name for name, is_up in one.links.items() if not is_up)
        if down:
            others = sorted(set(one.links) - set(down))
            carried = f"{some(others)} carries everything" if others else "nothing is carried"
            yield Finding(
                "link-down",
                WARNING,
                f"{some(down)} of {of(one)} is down: {carried}",
                "look at its cable or its Wi-Fi; glue uses it again as soon as it is up",
            )


def path_silent(seen: Seen) -> Iterator[Finding]:
    """A peer answers by one of the interfaces of an endpoint, and not by another one, which is up."""
    for one in seen.endpoints:
        silent: dict[str, list[str]] = {}
        for peer, link in _silent(one):
            silent.setdefault(link, []).append(peer)
        for link, peers in sorted(silent.items()):
            other = some(sorted({path.link for path in one.paths if path.carries and path.peer in peers}))
            yield Finding(
                "path-silent",
                WARNING,
                f"{some(sorted(peers))} {'does' if len(peers) == 1 else 'do'} not answer {of(one)} by {link}"
                + (f"; {other} carries what goes there" if other else ""),
                f"look at the network behind {link}: its switch, its cable, the other end's interface",
            )


def _silent(one: EndpointSeen) -> Iterator[tuple[str, str]]:
    """Peers and interfaces by which they do not answer, though they answer by another one."""
    by_peer: dict[str, list[PathSeen]] = {}
    for path in one.paths:
        by_peer.setdefault(path.peer, []).append(path)
    for peer, paths in by_peer.items():
        answering = {path.link for path in paths if path.answers}
        for link in {path.link for path in paths} - answering:
            if answering and one.links.get(link):
                yield peer, link


PATH_RULES: tuple[Callable[[Seen], Iterator[Finding]], ...] = (link_down, path_silent)
