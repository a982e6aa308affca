"""JSON parser: orjson as everywhere in glue, or Python's own on executors that have only NumPy and pyarrow."""

from __future__ import annotations

from typing import Any, NoReturn

try:
    from orjson import loads
except ImportError:
    import json

    def _refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    def loads(data: bytes, /) -> Any:  # type: ignore[misc]
        """Parse a document. Raises ValueError for any other bytes."""
        try:
            return json.loads(data, parse_constant=_refuse)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


__all__ = ["loads"]
