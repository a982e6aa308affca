"""Codecs for payloads that are neither bytes nor JSON: one file a codec.

glue has codecs for msgpack, CBOR, numpy arrays and Arrow tables; each needs an extra, imported at first use. `register`
adds a program's own codec.
"""

from glue.codecs.registry import (
    Codec,
    UnknownCodecError,
    codec_for,
    codec_named,
    codec_of_tag,
    codec_of_type,
    name_of_tag,
    register,
    tag_of,
)

__all__ = [
    "Codec",
    "UnknownCodecError",
    "codec_for",
    "codec_named",
    "codec_of_tag",
    "codec_of_type",
    "name_of_tag",
    "register",
    "tag_of",
]
