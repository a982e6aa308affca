"""JSON Merge Patch: the delta that `update` logs instead of the whole value."""

from __future__ import annotations

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a patch applied (RFC 7396, section 2): null removes, objects merge, all else replaces.

    Neither argument is changed, but the result may share parts with both.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
