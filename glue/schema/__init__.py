"""Types of payloads: their JSON Schema and its hash, what two schemas differ in, and values from decoded JSON."""

from glue.schema.adapters import Adapter, adapter_of, hash_of
from glue.schema.announced import PUBLISH, SUBSCRIBE, AnnouncedType, TypeDirectory, overlap, type_interest
from glue.schema.compare import differences
from glue.schema.convert import MismatchedValueError

__all__ = [
    "PUBLISH",
    "SUBSCRIBE",
    "Adapter",
    "AnnouncedType",
    "MismatchedValueError",
    "TypeDirectory",
    "adapter_of",
    "differences",
    "hash_of",
    "overlap",
    "type_interest",
]
