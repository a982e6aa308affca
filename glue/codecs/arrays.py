"""numpy arrays: a line of JSON, and then the array's memory.

    {"dtype":"<f4","shape":[480,640]}      (spaces up to a multiple of 16 bytes, and a newline)

`order` "F" says that the first index changes fastest. A structured type is a list of fields, `[name, type, shape]`.
Each end copies at most once: the publisher copies the array, since the program may change it while it is sent, and the
network's pieces are joined at the subscriber. The array there is read-only and lies in memory of its own.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import orjson

HEAD_LIMIT = 64 << 10
"""Bytes of the head: a structured type of a thousand fields."""
DIMENSIONS = 64
"""Dimensions of an array: what numpy takes."""
DEPTH = 16
"""Levels of structured types within each other."""
KINDS = "biufcmMSUV"
"""Kinds of types that are plain memory. Objects, and strings of variable length, are pointers."""
ALIGNMENT = 16


class ArrayCodec:
    """numpy arrays of numbers, times, fixed strings and structures of these; never of objects."""

    name = "numpy"

    def encode(self, value: Any) -> bytes:
        """Encode an array, or what `numpy.asarray` makes one of. Raises TypeError for an array of objects."""
        array = np.asarray(value)
        _check(array.dtype)
        order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        head = _head(array, order)
        if array.nbytes and (array.flags.c_contiguous or array.flags.f_contiguous):
            return b"".join([head, array.ravel(order).view(np.uint8).data])
        return head + array.tobytes(order)

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode an array, which is read-only. Raises ValueError or TypeError."""
        end = bytes(data[:HEAD_LIMIT]).find(b"\n")
        if end < 0:
            raise ValueError("no head")
        head = orjson.loads(bytes(data[:end]))
        dtype = _dtype(head["dtype"])
        shape, order = head["shape"], head.get("order", "C")
        if not isinstance(shape, list) or len(shape) > DIMENSIONS or order not in ("C", "F"):
            raise ValueError("shape")
        if any(size.__class__ is not int or size < 0 for size in shape):
            raise ValueError("shape")
        if math.prod(shape) * dtype.itemsize != len(data) - end - 1:
            raise ValueError("size")
        array: Any = np.ndarray(tuple(shape), dtype, memoryview(data).toreadonly(), end + 1, order=order)
        return array


def _head(array: Any, order: str) -> bytes:
    dtype = array.dtype
    fields = {"dtype": dtype.str if dtype.names is None else dtype.descr, "shape": array.shape}
    text = orjson.dumps(fields if order == "C" else {**fields, "order": order})
    return text + b" " * (-(len(text) + 1) % ALIGNMENT) + b"\n"


def _check(dtype: Any) -> None:
    """Raise TypeError for a type with pointers."""
    if dtype.hasobject or dtype.kind not in KINDS:
        raise TypeError(
            f"an array of {dtype} has pointers to objects, which do not travel; use numbers or fixed strings"
        )


def _dtype(told: Any) -> Any:
    dtype = np.dtype(told) if isinstance(told, str) else _structure(told)
    _check(dtype)
    return dtype


def _structure(told: Any, depth: int = 0) -> Any:
    """A structured type. Its padding is told as fields without a name."""
    if not isinstance(told, list) or depth > DEPTH:
        raise ValueError("dtype")
    columns: tuple[list[Any], ...] = [], [], [], []
    size = 0
    for field in told:
        if not isinstance(field, list) or len(field) not in (2, 3):
            raise ValueError("dtype")
        name, kind, *shape = field
        title, name = name if isinstance(name, list) else (None, name)
        inner = np.dtype(kind) if isinstance(kind, str) else _structure(kind, depth + 1)
        inner = np.dtype((inner, tuple(shape[0]))) if shape else inner
        if name != "":
            for column, one in zip(columns, (name, title, inner, size), strict=True):
                column.append(one)
        size += inner.itemsize
    fields: Any = dict(zip(("names", "titles", "formats", "offsets"), columns, strict=True))
    fields["itemsize"] = size
    return np.dtype(fields)


def make(_: str) -> ArrayCodec:
    """The codec."""
    return ArrayCodec()
