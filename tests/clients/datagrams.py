"""Datagrams of a peer of the small clients, and what these answer."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.compiled import Harness, sent
from tests.golden.make import FOLDER as GOLDEN

PEER = "e36759dea8a54260"
LIFE = 1740800000000000


def datagram(
    layer: str, entry: list[Any], body: bytes = b"", life: int = LIFE, *, sender: str = PEER, **more: Any
) -> bytes:
    header = {"glue": [1, 1, sender, life, 0], **more, layer: entry}
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + body


def announcement(*operations: str, version: int | None = None, epoch: int = 0, base: int = 0) -> bytes:
    version = len(operations) if version is None else version
    document = {"name": "kitchen", "interval_ms": 1000, "epoch": epoch, "version": version, "previous": 0, "base": base}
    return json.dumps({**document, "operations": operations}).encode()


def discovery(kind: str, body: bytes = b"", token: int = 5, echo: int = 0, life: int = LIFE, *more: Any) -> bytes:
    return datagram("discovery", [token, echo, None, None, *more, kind], body, life)


def bundle(payload: bytes, sequence: int, **more: Any) -> bytes:
    group = {"topic": "t", "sequence": sequence, "at": 0, "length": len(payload), **more}
    return json.dumps({"groups": [group]}).encode() + b"\n" + payload


def data(sequence: int, channel: int = 1, attempt: int = 0, body: bytes | None = None, **more: Any) -> bytes:
    body = bundle(b"%d" % sequence, sequence + 1) if body is None else body
    return datagram("transport", ["data", attempt, 0, 0, 0, 0, channel, sequence], body, **more)


def acknowledgement(channel: int, upto: int, ranges: list[int], window: int = 4096) -> bytes:
    return datagram("transport", ["ack", 0, window, channel, upto], json.dumps(ranges).encode())


def meet(client: Harness, *operations: str) -> int:
    """Let it know the peer, with these interests, as proven; returns its token for the peer."""
    lines = client.receive(discovery("announce", announcement(*operations)), way="multicast")
    [(header, _)] = sent(lines)
    token: int = header["discovery"][0]
    assert header["discovery"][-1] == "answer"
    client.receive(discovery("want", token=8, echo=token))
    return token


def payloads(lines: list[list[str]]) -> list[str]:
    return [bytes.fromhex(words[-1]).decode() for words in lines if words[0] == "message"]


def transports(datagrams: list[tuple[dict[str, Any], bytes]]) -> list[list[Any]]:
    return [header["transport"] for header, _ in datagrams if "transport" in header]


def acknowledgements(client: Harness, lines: list[list[str]]) -> list[tuple[list[Any], list[int]]]:
    """The acknowledgements that follow, at once or with the next turn: entries of the header, and ranges."""
    datagrams = sent(lines) + client.advance()
    return [
        (header["transport"], json.loads(body))
        for header, body in datagrams
        if header.get("transport", [""])[0] == "ack"
    ]


def golden_messages(name: str) -> list[tuple[str, str, bytes]]:
    """Topic, number and bytes of each message of a golden datagram or of fragments, read with Python's JSON."""
    whole = name.startswith(("fragment", "arrow"))
    files = sorted(GOLDEN.glob(f"{name}-?.datagram")) if whole else [GOLDEN / f"{name}.datagram"]
    index, _, rest = b"".join(path.read_bytes().partition(b"\n")[2] for path in files).partition(b"\n")
    found = []
    for group in json.loads(index)["groups"]:
        for number, length in enumerate(group.get("lengths") or [group["length"]] * group.get("count", 1)):
            found.append((group["topic"], str(group["sequence"] + number), rest[:length]))
            rest = rest[length:]
    return found
