"""Equal pieces of bytes: cut apart in C, and measured without a look at each.

Frames of a run, headers of a train and payloads of a bundle are many pieces of one size, so a layer that
takes them apart pays for a few calls of `struct` rather than for each piece. This and `glue.contract` are
all that the layers share.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct

BLOCK = 64  # pieces cut by one call: enough to forget its cost, few enough for its plan to be remembered


@lru_cache(maxsize=512)
def _plan(size: int, count: int) -> Struct:
    """Cuts `count` pieces of `size` bytes; some 2 kB each, 1 MB in all."""
    return Struct(f"{size}s" * count)


def cut(data: bytes | bytearray | memoryview, size: int) -> list[bytes]:
    """`data` as pieces of `size` bytes (at least 1), in order; what remains makes a last, shorter one."""
    count, rest = divmod(len(data), size)
    whole = len(data) - rest
    if count <= BLOCK:
        pieces = [*_plan(size, count).unpack_from(data)]
    else:
        blocks, single = divmod(count, BLOCK)
        start = blocks * BLOCK * size
        pieces = [*chain.from_iterable(_plan(size, BLOCK).iter_unpack(memoryview(data)[:start]))]
        pieces += _plan(size, single).unpack_from(data, start)
    if rest:
        pieces.append(bytes(data[whole:]))
    return pieces


def total(pieces: Sequence[bytes]) -> int:
    """Bytes in pieces of one size, of which only the last may be shorter; at least one piece."""
    return (len(pieces) - 1) * len(pieces[0]) + len(pieces[-1])
