"""CBOR (RFC 8949): JSON's values, bytes, times, decimals and large integers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import cbor2

REFERENCE: Final = re.compile(rb"(?:\xd8|\xd9\0|\xda\0{3}|\xdb\0{7})[\x19\x1d]")
"""A tag that refers to an earlier string (25) or value (29); other bytes may look so, too."""
REPEATED: Final = 8
"""How much larger than its bytes a value may be that refers to its parts: nested references double it each time."""


class CborCodec:
    """Values of CBOR, as `cbor2` has them. Cycles do not travel."""

    name = "cbor"

    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises CBOREncodeError."""
        encoded: bytes = cbor2.dumps(value)
        return encoded

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode a value, which is all of the data. Raises ValueError, also if its references make it too large."""
        encoded = bytes(data)
        value = cbor2.loads(encoded)
        if REFERENCE.search(encoded) and _exceeds(value, REPEATED * len(encoded)):
            raise ValueError(f"{len(encoded)} bytes of CBOR refer to their parts more than {REPEATED} times")
        return value


def _exceeds(value: Any, size: int) -> bool:
    """Whether a value has more values and characters than `size`, with each part counted wherever it is referred to."""
    left, waiting = size, [value]
    while waiting and len(waiting) <= left:
        one = waiting.pop()
        left -= 1
        if isinstance(one, (str, bytes)):
            left -= len(one)
        elif isinstance(one, Mapping):
            waiting.extend(one)
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting.extend(one)
        elif isinstance(one, cbor2.CBORTag):
            waiting.append(one.value)
    return len(waiting) > left


def make(_: str) -> CborCodec:
    """The codec."""
    return CborCodec()
