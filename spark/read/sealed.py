"""Rows of the table `sealed`: the open part of sealed datagrams, which needs no key.

Addresses, times and sizes come from the capture, and the network, the sender's life and the number from the first 24
bytes of each datagram ("Sealed datagrams" in docs/wire-format.md). Nothing here is authenticated.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from spark.read.frames import Block, FrameReader, chosen
from spark.read.indexes import Indexes
from spark.read.link import Datagrams, cut_trains, short_at, unwrap
from spark.read.records import Bytes, Integers, Records
from spark.read.templates import OPEN_SIZE, Columns, sealed_at

EPOCH_AT, NETWORK_AT, SALT_AT, NUMBER_AT = 1, 2, 4, 20
SALT_SIZE = NUMBER_AT - SALT_AT
TAG_SIZE = 16
MULTICAST = 1 << 31
"""Set in the numbers of multicasts, which are counted on their own."""
KINDS = ("unicast", "multicast")


class SealedReader(FrameReader):
    """Converts the blocks of one file into rows of `sealed`."""

    def block(self, records: Records) -> Block:
        """Return the sealed datagrams of a block."""
        buffer = records.buffer
        datagrams = unwrap(records, Counter())
        datagrams = cut_trains(datagrams, _segments(buffer, datagrams))
        heads = Columns(len(datagrams.begin))
        heads.good = sealed_at(buffer, datagrams.begin, datagrams.captured)
        return SealedBlock(records, datagrams, heads, Indexes())


class SealedBlock(Block):
    """Sealed datagrams of one block, and the conversion to each column."""

    def array(self, name: str) -> pa.Array:
        """Return a column."""
        return getattr(self, f"_{name}")()

    def _epoch(self) -> pa.Array:
        return pa.array(self.records.buffer[self.datagrams.begin + EPOCH_AT].astype(np.int32))

    def _network(self) -> pa.Array:
        return pa.array(short_at(self.records.buffer, self.datagrams.begin + NETWORK_AT), pa.int32())

    def _life(self) -> pa.Array:
        windows = np.lib.stride_tricks.sliding_window_view(self.records.buffer, SALT_SIZE)
        raw = windows[self.datagrams.begin + SALT_AT]
        packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(SALT_SIZE), len(raw), [None, pa.py_buffer(raw)])
        known = packed.dictionary_encode()
        return chosen([salt.hex() for salt in known.dictionary.to_pylist()], known.indices.to_numpy())

    def _kind(self) -> pa.Array:
        return chosen(KINDS, _numbers(self.records.buffer, self.datagrams.begin) // MULTICAST)

    def _number(self) -> pa.Array:
        return pa.array(_numbers(self.records.buffer, self.datagrams.begin) % MULTICAST)


def _numbers(buffer: Bytes, begin: Integers) -> Integers:
    at = begin + NUMBER_AT
    return (short_at(buffer, at) << 16) | short_at(buffer, at + 2)


def _segments(buffer: Bytes, datagrams: Datagrams) -> Integers:
    """Return the size of each train's datagrams, and the size of lone datagrams.

    Each datagram of a train begins as the first one does, with the next number; the first byte may differ.
    """
    segments = np.maximum(1, datagrams.size)
    long = datagrams.captured >= 2 * OPEN_SIZE + TAG_SIZE
    rows = np.flatnonzero(sealed_at(buffer, datagrams.begin, datagrams.captured) & long)
    following = (_numbers(buffer, datagrams.begin[rows]) + 1) % (1 << 32)
    for row, number in zip(rows.tolist(), following.tolist(), strict=True):
        begin, captured = int(datagrams.begin[row]), int(datagrams.captured[row])
        train = buffer[begin : begin + captured].tobytes()
        found = train.find(train[1:NUMBER_AT] + number.to_bytes(4, "big"), OPEN_SIZE + TAG_SIZE + 1)
        if found > 0:
            segments[row] = found - 1
    return segments
