"""Payloads of codecs, and schemas: from a peer, so whatever they claim must not cost more than their size."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import orjson

from glue.codecs import codec_named
from glue.errors import GlueError
from glue.schema import adapter_of
from glue.schema.compare import differences
from tests.fuzz.registry import joined, split, target
from tests.golden.payloads import ARROW, CODED, TEMPERATURE


@dataclasses.dataclass
class Inner:
    """A part of a value."""

    name: str
    values: list[float]


@dataclasses.dataclass
class Value:
    """A typed value with parts of every kind."""

    number: int
    inner: Inner
    more: dict[str, Inner | None]
    pair: tuple[int, str] = (0, "")


# What a codec raises is its library's affair: a receiver catches every Exception (`glue/endpoint/coded.py`). Therefore
# these targets look for crashes, for memory and for time.


MSGPACK = CODED["msgpack"], b"\xdd\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\x91" * 600
CBOR = CODED["cbor"], b"\x9b\x7f" + b"\xff" * 7, b"\x5b\0\0\0\1\0\0\0\0", b"\xc2\x5a\0\1\0\0"
NUMPY = (
    CODED["numpy"],
    b'{"dtype":[["a","<f4",[2]],["b","S3"]],"shape":[0]}\n',
    b'{"dtype":"<i2","shape":[0,9999999999]}\n',
)
RECURSIVE = [b'{"$ref":"#"}', b'{"anyOf":[{"$ref":"#"},{"type":"string"}]}']
TYPED = b'{"number":1,"inner":{"name":"a","values":[1.5]},"more":{"x":null},"pair":[1,"b"]}'


@target("msgpack", lambda: MSGPACK, Exception)
def msgpack(data: bytes) -> None:
    """A msgpack payload."""
    codec_named("msgpack").decode(data)


@target("cbor", lambda: CBOR, Exception)
def cbor(data: bytes) -> None:
    """A CBOR payload."""
    codec_named("cbor").decode(data)


@target("numpy", lambda: NUMPY, Exception)
def numpy(data: bytes) -> None:
    """An array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = codec_named("numpy").decode(data)
    assert array.nbytes <= len(data), "an array is larger than its payload"


def tables() -> list[bytes]:
    """Arrow streams, one of them of columns with offsets."""
    import pyarrow as pa

    repeated = pa.array(["x", "y", "x"]).dictionary_encode()
    batch = pa.record_batch({"s": ["a", None, "bc"], "l": [[1], [], [2, 3]], "d": repeated})
    return [ARROW, bytes(codec_named("arrow").encode(batch))]


@target("arrow", tables, Exception)
def arrow(data: bytes) -> None:
    """A record batch."""
    codec_named("arrow").decode(data)


@target("arrow-table", tables, Exception)
def arrow_table(data: bytes) -> None:
    """A table."""
    codec_named("arrow-table").decode(data)


@target("schema", lambda: [joined([TEMPERATURE, TEMPERATURE]), joined(RECURSIVE)], ValueError)
def schema(data: bytes) -> None:
    """Two schemas that are compared."""
    writer, reader = ([*split(data, 2), b"", b""])[:2]
    differences(orjson.loads(writer), orjson.loads(reader))


@target("typed", lambda: [TYPED], GlueError, ValueError)
def typed(data: bytes) -> None:
    """A value of a type."""
    loaded: Any = orjson.loads(data)
    adapter_of(Value).decode(loaded)
