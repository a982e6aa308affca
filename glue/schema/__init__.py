"""Types of payloads: their JSON Schema and its hash, what two schemas differ in, and values from decoded JSON."""

from typing import TYPE_CHECKING

from glue._lazy import lazy_imports
from glue.schema.announced import PUBLISH, SUBSCRIBE, AnnouncedType, TypeDirectory, type_interest

if TYPE_CHECKING:
    from glue.schema.adapters import SCHEMA_LIMIT, Adapter, adapter_of, hash_of
    from glue.schema.compare import differences
    from glue.schema.convert import MismatchedValueError
else:
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            "glue.schema.adapters": ("SCHEMA_LIMIT", "Adapter", "adapter_of", "hash_of"),
            "glue.schema.compare": ("differences",),
            "glue.schema.convert": ("MismatchedValueError",),
        },
    )

__all__ = [
    "PUBLISH",
    "SCHEMA_LIMIT",
    "SUBSCRIBE",
    "Adapter",
    "AnnouncedType",
    "MismatchedValueError",
    "TypeDirectory",
    "adapter_of",
    "differences",
    "hash_of",
    "type_interest",
]
