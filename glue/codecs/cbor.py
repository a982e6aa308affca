"""CBOR (RFC 8949): JSON's values, bytes, times, decimals and large integers."""

from __future__ import annotations

from typing import Any

import cbor2


class CborCodec:
    """Values of CBOR, as `cbor2` has them. Nested cycles do not travel."""

    name = "cbor"

    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises CBOREncodeError."""
        encoded: bytes = cbor2.dumps(value)
        return encoded

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode a value, which is all of the data."""
        return cbor2.loads(bytes(data))


def make(_: str) -> CborCodec:
    """The codec."""
    return CborCodec()
