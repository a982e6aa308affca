"""Properties and codec of a group, as keys of its entry in the index of a bundle."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from glue.contract.metadata import Metadata, fault_of_properties, is_codec


def metadata_entry(metadata: Metadata) -> dict[str, Any]:
    """The keys of metadata in a group's entry."""
    entry: dict[str, Any] = {}
    if metadata.properties:
        entry["properties"] = dict(metadata.properties)
    if metadata.codec is not None:
        entry["codec"] = metadata.codec
    return entry


def metadata_of(entry: dict[str, Any]) -> Metadata | None:
    """The metadata of an entry; None if there is none. Raises ValueError with the malformed key."""
    properties, codec = entry.get("properties"), entry.get("codec")
    if properties is not None and (properties.__class__ is not dict or fault_of_properties(properties)):
        raise ValueError("properties")
    if codec is not None and not (is_codec(codec) and not entry.get("json")):
        raise ValueError("codec")
    if not properties:
        return None if codec is None else Metadata(None, codec)
    return Metadata(MappingProxyType(properties), codec)
