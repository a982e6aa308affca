"""msgpack: JSON's values, bytes, and times with a time zone; smaller than JSON."""

from __future__ import annotations

from typing import Any

import msgpack


class MsgpackCodec:
    """Values of msgpack (https://github.com/msgpack/msgpack); tuples arrive as lists, aware datetimes in UTC."""

    name = "msgpack"

    def encode(self, value: Any) -> bytes:
        """Encode a value. Raises TypeError, ValueError or OverflowError."""
        encoded: bytes = msgpack.packb(value, use_bin_type=True, datetime=True)
        return encoded

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode a value. No claim in the data allocates more than their own size; nesting ends at 511 levels."""
        return msgpack.unpackb(data, raw=False, timestamp=3, strict_map_key=False)


def make(_: str) -> MsgpackCodec:
    """The codec."""
    return MsgpackCodec()
