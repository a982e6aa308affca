"""Arrow record batches and tables, as Arrow's own IPC stream format.

Each end copies at most once: the publisher writes the stream, and the network's pieces are joined at the subscriber.
The columns there lie in the memory of the message. A stream from the network is checked as a whole, since Arrow trusts
its offsets. Compressed streams are refused: they could claim any size.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any

import pyarrow as pa
import pyarrow.ipc

INT, UINT, SHORT = Struct("<i"), Struct("<I"), Struct("<H")
RECORD_BATCH, DICTIONARY_BATCH = 3, 2  # kinds of messages in Arrow's Message.fbs


class ArrowCodec:
    """Arrow data as an IPC stream: `arrow` is one record batch, `arrow-table` a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_table = name == "arrow-table"

    def encode(self, value: Any) -> memoryview:
        """Encode a RecordBatch or a Table. Raises TypeError for anything else."""
        expected = pa.Table if self._is_table else pa.RecordBatch
        if not isinstance(value, expected):
            raise TypeError(f"expected a pyarrow.{expected.__name__}")
        measure = pa.MockOutputStream()
        self._write(measure, value)
        memory = pa.allocate_buffer(measure.size())
        self._write(pa.FixedSizeBufferWriter(memory), value)
        return memoryview(memory).toreadonly().cast("B")

    @staticmethod
    def _write(sink: Any, value: Any) -> None:
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write(value)

    def decode(self, data: bytes | memoryview) -> Any:
        """Decode a stream. Raises ArrowInvalid or ValueError."""
        buffer = pa.py_buffer(data)
        _refuse_compression(memoryview(data))
        with pa.ipc.open_stream(buffer) as reader:
            if self._is_table:
                table = reader.read_all()
            else:
                table = reader.read_next_batch()
        table.validate(full=True)
        return table


def _refuse_compression(data: memoryview) -> None:
    """Raise ValueError if a batch of the stream is compressed, or its messages do not follow each other."""
    place = 0
    while place + 8 <= len(data):
        mark, size = UINT.unpack_from(data, place)[0], INT.unpack_from(data, place + 4)[0]
        if mark != 0xFFFFFFFF or size < 0:
            raise ValueError("no Arrow stream")
        if not size:
            return
        message = data[place + 8 : place + 8 + size]
        try:
            length, header, kind = _message(message)
            if kind == DICTIONARY_BATCH:
                header = _offset(message, header, 1)
            is_compressed = kind in (RECORD_BATCH, DICTIONARY_BATCH) and _field(message, header, 3)
        except (IndexError, error):
            raise ValueError("no Arrow message") from None
        if is_compressed:
            raise ValueError("compressed")
        place += 8 + size + length


def _message(message: memoryview) -> tuple[int, int, int]:
    """The length of the body, where the header is, and the header's kind (flatbuffers, Message.fbs)."""
    root = UINT.unpack_from(message, 0)[0]
    at = _field(message, root, 3)
    length = int.from_bytes(message[at : at + 8], "little") if at else 0
    kind = message[_field(message, root, 1)]
    return length, _offset(message, root, 2), kind


def _field(message: memoryview, table: int, number: int) -> int:
    """Where a field of a table is; 0: it is not there."""
    vtable = table - INT.unpack_from(message, table)[0]
    if 4 + 2 * number >= SHORT.unpack_from(message, vtable)[0]:
        return 0
    offset = int(SHORT.unpack_from(message, vtable + 4 + 2 * number)[0])
    return table + offset if offset else 0


def _offset(message: memoryview, table: int, number: int) -> int:
    """The table that a field of a table refers to."""
    at = _field(message, table, number)
    return at + int(UINT.unpack_from(message, at)[0])


def make(name: str) -> ArrowCodec:
    """The codec of this name."""
    return ArrowCodec(name)
