"""glue's datagrams as a scapy layer. Import this module, and `sniff(...)[0].show()` decodes them.

    from scapy.all import sniff
    import glue.capture.scapy_layer

Header entries appear under the names that the layers declare (see `glue.capture.entries`). scapy rebuilds a changed
datagram from `header` and `body`.
"""

from __future__ import annotations

import json
from typing import Any

from scapy.fields import StrField
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

from glue.capture.entries import named
from glue.contract.header import MAX_HEADER

PORT = 37320
"""UDP port of the default group. Unicast is recognized by its first bytes."""
START = b'{"glue":'


class GluePacket(Packet):
    """One datagram: the header, the newline that ends the header, and the body as payload."""

    name = "glue"
    fields_desc = [StrField("header", b"{}")]  # noqa: RUF012 (scapy's way to declare fields)

    def do_dissect(self, s: bytes) -> bytes:
        """Store the header and return the body."""
        head, newline, body = s.partition(b"\n")
        if not newline or len(head) >= MAX_HEADER:
            head, body = s, b""
        self.fields["header"] = head
        self.raw_packet_cache = s[: len(s) - len(body)]
        self.explicit = 1
        return body

    def self_build(self) -> bytes:
        """Return the header and its newline."""
        header: bytes = self.getfieldval("header")
        return header + b"\n"

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """The fields of the header by layer and name; empty if the datagram is not glue's."""
        try:
            header = json.loads(self.getfieldval("header"))
        except ValueError:
            return {}
        found = named(header) if isinstance(header, dict) else {}
        return found if "glue" in found else {}

    def _show_or_dump(self, *arguments: Any, **options: Any) -> str | None:
        """Show the packet with one line for each field. Returns None if scapy has already printed the packet."""
        shown = super()._show_or_dump(*arguments, **options)
        if shown is None:
            return None
        first, newline, rest = shown.partition("\n")
        lines = [
            f"  {layer}.{name} = {value!r}" for layer, entry in self.entries.items() for name, value in entry.items()
        ]
        return "\n".join([first, *lines]) + newline + rest

    def mysummary(self) -> str:
        """Return one line with kind, sender and counter."""
        entries = self.entries
        kind = next((entries[key].get("kind") for key in ("transport", "discovery") if key in entries), "frame")
        told = entries.get("glue", {})
        return f"glue {kind} of {told.get('sender')} #{told.get('counter')}"

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return Raw: scapy does not decode the body."""
        return Raw


_guess = UDP.guess_payload_class


def _guess_payload_class(self: UDP, payload: bytes) -> type[Packet]:
    """Choose GluePacket for payloads that begin like glue's datagrams, because unicast goes to any port."""
    found: type[Packet] = GluePacket if payload.startswith(START) else _guess(self, payload)
    return found


UDP.guess_payload_class = _guess_payload_class  # type: ignore[assignment, method-assign]
bind_layers(UDP, GluePacket, dport=PORT)
