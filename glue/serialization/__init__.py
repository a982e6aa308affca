"""The serialization layer: header and body to datagram and back; JSON that any language can read."""

from glue.serialization.layer import MAX_HEADER, VERSION, Serialization

__all__ = ["MAX_HEADER", "VERSION", "Serialization"]
