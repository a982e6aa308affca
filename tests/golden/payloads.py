"""Payloads of the golden vectors: values in each codec, and a schema, as their libraries write them."""

from __future__ import annotations

CODED = {
    "msgpack": bytes.fromhex("83a26f6ec3a5736861646592010ba464617461c4030001ff"),
    "cbor": bytes.fromhex("a3626f6ef56573686164658201f9d6406464617461430001ff"),
    "numpy": b'{"dtype":"<i2","shape":[2,3]}  \n' + bytes.fromhex("01000200030004000500ffff"),
}
"""Payloads by the name of their codec, in the order of the codecs' numbers."""

ARROW = bytes.fromhex(
    "ffffffff780000001000000000000a000c000600050008000a000000000104000c00000008000800000004000800000004000000"
    "0100000014000000100014000800060007000c00000010001000000000000102100000001c000000040000000000000001000000"
    "6e00000008000c0008000700080000000000000110000000ffffffff8800000014000000000000000c0016000600050008000c00"
    "0c0000000003040018000000080000000000000000000a0018000c00040008000a0000003c000000100000000300000000000000"
    "00000000020000000000000000000000000000000000000000000000000000000600000000000000000000000100000003000000"
    "00000000000000000000000001000200fdff0000ffffffff00000000"
)
"""A record batch of one column `n` with the 16-bit integers 1, 2 and -3, as pyarrow writes it."""

TEMPERATURE = (
    b'{"properties":{"celsius":{"type":"number"}},"required":["celsius"],"title":"Temperature","type":"object"}'
)
"""The JSON Schema of a dataclass `Temperature` with one field."""
