"""glue's datagrams in scapy: import this module, and `sniff(...)[0].show()` decodes them.

    from scapy.all import sniff
    import glue.capture.scapy_layer

The header's entries become fields by their names in docs/wire-format.md; what is missing or malformed is None. A
datagram that was changed is built anew from `header` and `body`.
"""

from __future__ import annotations

import json
from typing import Any

from scapy.fields import StrField
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

from glue.contract.header import MAX_HEADER

PORT = 37320
"""The port of the default group; unicast is told by how it starts."""
START = b'{"glue":'

ENTRIES = {
    "data": ("kind", "attempt", "age_ms", "ack_channel", "ack_next", "ack_held_us", "channel", "sequence"),
    "group": ("kind", "attempt", "age_ms", "ack_channel", "ack_next", "ack_held_us", "channel", "sequence"),
    "open": ("kind", "channel"),
    "ack": ("kind", "held_us", "window", "channel", "next"),
    "best": ("kind", "age_ms", "sequence"),
    "parity": ("kind", "age_ms", "channel", "first", "count", "row"),
    "mended": ("kind", "mended", "held_us", "window", "channel", "next"),
}
"""The elements of a `transport` entry by its kind."""
GLUE = ("version", "network", "sender", "incarnation", "counter")
FRAGMENT = ("message", "size", "total", "index")


class GluePacket(Packet):
    """One datagram: the header, the newline that ends it, and the body as its payload."""

    name = "glue"
    fields_desc = [StrField("header", b"{}")]  # noqa: RUF012 (scapy's way to declare fields)

    def do_dissect(self, s: bytes) -> bytes:
        """Take the header; the rest is the body."""
        head, newline, body = s.partition(b"\n")
        if not newline or len(head) >= MAX_HEADER:
            head, body = s, b""
        self.fields["header"] = head
        self.raw_packet_cache = s[: len(s) - len(body)]
        self.explicit = 1
        return body

    def self_build(self) -> bytes:
        """The header and its newline."""
        header: bytes = self.getfieldval("header")
        return header + b"\n"

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """What the header says, by layer and by name."""
        try:
            header = json.loads(self.getfieldval("header"))
            found = {"glue": dict(zip(GLUE, header["glue"], strict=False))}
        except (ValueError, KeyError, TypeError):
            return {}
        transport, discovery, fragment = (header.get(key) for key in ("transport", "discovery", "fragment"))
        if isinstance(transport, list) and transport:
            names = ENTRIES.get(transport[0] if isinstance(transport[0], str) else "", ("kind",))
            found["transport"] = dict(zip(names, transport, strict=False))
        if isinstance(discovery, list) and len(discovery) >= 5:
            found["discovery"] = {"kind": discovery[-1], "token": discovery[0], "echo": discovery[1]}
        if isinstance(fragment, list):
            found["fragment"] = dict(zip(FRAGMENT, fragment, strict=False))
        return found

    def _show_or_dump(self, *arguments: Any, **options: Any) -> str | None:
        """As any packet, and the entries below its name; alone, it has printed itself by then."""
        shown = super()._show_or_dump(*arguments, **options)
        if shown is None:
            return None
        first, newline, rest = shown.partition("\n")
        lines = [
            f"  {layer}.{name} = {value!r}" for layer, entry in self.entries.items() for name, value in entry.items()
        ]
        return "\n".join([first, *lines]) + newline + rest

    def mysummary(self) -> str:
        """One line: who sends what."""
        entries = self.entries
        kind = next((entries[key].get("kind") for key in ("transport", "discovery") if key in entries), "frame")
        told = entries.get("glue", {})
        return f"glue {kind} of {told.get('sender')} #{told.get('counter')}"

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """A body is bytes to this layer."""
        return Raw


_guess = UDP.guess_payload_class


def _guess_payload_class(self: UDP, payload: bytes) -> type[Packet]:
    """Unicast goes to any port: what starts as glue's datagrams do is one."""
    found: type[Packet] = GluePacket if payload.startswith(START) else _guess(self, payload)
    return found


UDP.guess_payload_class = _guess_payload_class  # type: ignore[assignment, method-assign]
bind_layers(UDP, GluePacket, dport=PORT)
