"""The serialization layer: header and body to datagram and back; JSON that any language can read."""

from glue.contract.header import MAX_HEADER
from glue.serialization.layer import Serialization
from glue.serialization.wire import VERSION

__all__ = ["MAX_HEADER", "VERSION", "Serialization"]
