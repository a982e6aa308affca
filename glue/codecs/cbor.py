"""CBOR (RFC 8949): JSON's values, bytes, times, decimals and large integers.

Values that refer to earlier ones are refused: each reference may double what a display or JSON has to show, and what it
takes to compare keys of maps. So a datagram would keep a receiver busy for ever.
"""

from __future__ import annotations

import re
from typing import Any, Final

import cbor2

LOOKS: Final = re.compile(rb"(?:\xd8|\xd9\0|\xda\0{3}|\xdb\0{7})[\x19\x1d]")
"""Tag 25 or 29, which refers to an earlier string or value, or bytes of a string that look the same.

A search takes 10 ns for each byte.
"""
FEW, SMALL = 1000, 1000
"""Items that are looked at before a search, and bytes that are searched at once: a long string is one item."""


class CborCodec:
    """Values of CBOR, as `cbor2` has them. Nested cycles do not travel."""

    name = "cbor"

    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises CBOREncodeError."""
        encoded: bytes = cbor2.dumps(value)
        return encoded

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode a value, which is all of the data. Raises ValueError."""
        encoded = bytes(data)
        if _has_references(encoded):
            raise ValueError("CBOR with references (tags 25 and 29) is not decoded; send each value whole")
        return cbor2.loads(encoded)


def _has_references(data: bytes) -> bool:
    """Look at each item, without the content of strings (RFC 8949, section 3), until a search is quicker."""
    at = items = 0
    is_searched = False
    while at < len(data):
        if not is_searched and (items == FEW or len(data) - at <= SMALL):
            if LOOKS.search(data, at) is None:
                return False
            is_searched = True
        kind, value = data[at] >> 5, data[at] & 31
        at, items = at + 1, items + 1
        is_sized = value < 28  # else the length is open, and the parts are items
        if 24 <= value < 28:
            size = 1 << value - 24
            value = int.from_bytes(data[at : at + size])
            at += size
        if kind == 6 and value in (25, 29):
            return True
        if kind in (2, 3) and is_sized:
            at += value
    return False


def make(_: str) -> CborCodec:
    """The codec."""
    return CborCodec()
