"""What glue itself writes, as the inputs that fuzzing begins with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from glue.contract import Train
from glue.serialization import Serialization

TESTS = Path(__file__).parents[1]


@cache
def golden() -> dict[str, bytes]:
    """The golden datagrams, by name."""
    return {path.stem: path.read_bytes() for path in sorted((TESTS / "golden").glob("*.datagram"))}


def datagrams() -> list[bytes]:
    """The golden datagrams."""
    return [*golden().values()]


def bodies(*kinds: str) -> list[bytes]:
    """The bodies of the golden datagrams whose names begin so."""
    return [data.partition(b"\n")[2] for name, data in golden().items() if name.startswith(kinds)]


def sealed() -> list[bytes]:
    """The golden sealed datagrams."""
    return [path.read_bytes() for path in sorted((TESTS / "golden" / "sealed").glob("*.sealed"))]


def payloads(prefix: str) -> list[bytes]:
    """The payloads of golden messages whose topics begin so."""
    from glue.topics.bundle import MalformedBundleError, decode

    found: list[bytes] = []
    for data in golden().values():
        reader = Serialization(endpoint_id="0" * 16, incarnation=1, network_id=1)
        frames, _ = reader.receive(0.0, [Train(None, data, len(data))])
        for body in (body for frame in frames for body in frame.bodies):
            try:
                groups = decode(bytes(body))
            except MalformedBundleError:  # no bundle, or the first of several fragments
                continue
            found += [payload for group in groups if group.topic.startswith(prefix) for payload in group.payloads]
    return found
