"""The FEC decoder: the receiving end of a channel with repair symbols (see `policy`).

After the first repair symbol, the decoder keeps the latest frames of the channel for a while: the frames that arrived
are needed to decode the missing ones. A source block waits until it has as many repair symbols as missing frames.
Repair symbols for a complete block, which most are, cost one look.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from glue.contract import Header, Inbound, advanced
from glue.contract.pieces import total
from glue.transport.fec import BELOW, LENGTH, REPAIR_SYMBOLS, SOURCE_SYMBOLS
from glue.transport.wire import DATA, KEY, PARITY

KEPT = 512  # frames of a channel: twice what a sender covers at once
BLOCKS = 8  # source blocks that wait, on each channel; as many as two bursts have
SHORTEST = LENGTH + len(b"{}\n")  # bytes of a repair symbol
UNUSED = 4096  # frames in a row without any repair symbol, after which none are kept any more
BUDGET = 32 << 20  # bytes of frames and repair symbols kept, over all channels of all peers: some 40 full channels
RUN_COST = 1000  # bytes of bookkeeping a run, its header most of all

_pack = DATA.packer("age_ms", "channel", "sequence")
_values = PARITY.getter("age_ms", "first", "count", "row")


Missing = Callable[[int, int], list[int]]
"""The frames not yet received of a block, by its first sequence and its count."""


class SourceBlock:
    """The repair symbols of one source block, by row, while it waits for frames or for more symbols."""

    __slots__ = ("age", "came", "repair")

    def __init__(self, now: float, age: float) -> None:
        self.repair: dict[int, bytes] = {}
        self.came = now
        self.age = age  # of the oldest message of the block, at that time


class DecoderMemory:
    """The memory that the decoders of all channels share: the least recently used decoder gives way."""

    __slots__ = ("_decoders", "held")

    def __init__(self) -> None:
        self.held = 0  # bytes
        self._decoders: OrderedDict[Decoder, None] = OrderedDict()  # the least recently used first

    def has_room(self, decoder: Decoder, size: int) -> bool:
        """Whether a decoder may keep so many bytes more; others drop what they keep if need be."""
        self._decoders[decoder] = None
        self._decoders.move_to_end(decoder)
        while self.held + size > BUDGET and len(self._decoders) > 1:
            next(iter(self._decoders)).drop()
        return self.held + size <= BUDGET

    def forget(self, decoder: Decoder) -> None:
        """Remove a decoder that keeps nothing any more."""
        self._decoders.pop(decoder, None)


class Decoder:
    """Frames and repair symbols kept of one channel."""

    __slots__ = ("_blocks", "_frames", "_held", "_memory", "_recovered", "_runs", "_statistics", "_unused")

    def __init__(self, memory: DecoderMemory, statistics: Counter[str]) -> None:
        self._memory = memory
        self._statistics = statistics
        self._runs: deque[tuple[int, Header, Sequence[bytes], int]] = deque()  # first sequence, header, bodies, cost
        self._frames = 0
        self._held = 0  # bytes of runs and repair symbols
        self._unused = 0  # frames since the latest repair symbol
        self._blocks: OrderedDict[tuple[int, int], SourceBlock] = OrderedDict()  # by first sequence and count
        self._recovered: OrderedDict[int, None] = OrderedDict()  # the latest frames that were decoded

    @property
    def unused(self) -> bool:
        """Whether no repair symbol has come for so long that keeping frames is not worth it."""
        return self._unused > UNUSED

    @property
    def waiting(self) -> bool:
        """Whether any source block waits for frames."""
        return bool(self._blocks)

    def _hold(self, size: int) -> None:
        self._held += size
        self._memory.held += size

    def drop(self) -> None:
        """Give back all memory."""
        self._memory.forget(self)
        self._hold(-self._held)
        self._runs.clear()
        self._blocks.clear()
        self._frames = 0

    def keep(self, run: Inbound, sequence: int) -> None:
        """Keep frames that have arrived, as source symbols for later."""
        count = len(run.bodies)
        self._unused += count
        cost = total(run.bodies) + RUN_COST
        if not self._memory.has_room(self, cost):
            self._statistics["frames not kept for FEC"] += count
            return
        header = {key: entry for key, entry in run.header.items() if key not in (KEY, BELOW)}
        self._runs.append((sequence, header, run.bodies, cost))
        self._frames += count
        self._hold(cost)
        while self._frames > KEPT:
            _, _, bodies, cost = self._runs.popleft()
            self._frames -= len(bodies)
            self._hold(-cost)

    def add(self, now: float, entry: list[Any], symbols: Sequence[bytes], promised: int, missing: Missing) -> None:
        """Take repair symbols of one block; frames from `promised` on are beyond the window."""
        age_ms, first, count, index = _values(entry)
        sizes = {*map(len, symbols)}
        is_valid = 0 < count <= SOURCE_SYMBOLS and index + len(symbols) <= REPAIR_SYMBOLS
        if not is_valid or len(sizes) > 1 or min(sizes) < SHORTEST:
            self._statistics["malformed parity"] += len(symbols)
            return
        self._unused = 0
        key = first, count
        if first + count > promised or not missing(first, count):
            self._statistics["parity frames not needed"] += len(symbols)
            return
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = SourceBlock(now, age_ms / 1000)
            if len(self._blocks) > BLOCKS:
                self._close(next(iter(self._blocks)), "groups given up for newer ones")
        for row, symbol in enumerate(symbols, index):
            if row in block.repair or sizes != {*map(len, block.repair.values()), *sizes}:
                self._statistics["parity frames not needed"] += 1
            elif not self._memory.has_room(self, len(symbol)):
                self._statistics["parity frames beyond the budget"] += 1
            else:
                block.repair[row] = symbol
                self._hold(len(symbol))

    def _close(self, key: tuple[int, int], cause: str) -> SourceBlock:
        """Remove a block, and count why."""
        block = self._blocks.pop(key)
        self._hold(-sum(map(len, block.repair.values())))
        self._statistics[cause] += 1
        return block

    def decoded(self, now: float, channel: int, missing: Missing, like: Inbound) -> list[tuple[int, Inbound]]:
        """Return the missing frames that can be decoded by now, with their sequences.

        The fields common to all frames of the peer are taken from `like`, a run of the same peer.
        """
        found: list[tuple[int, Inbound]] = []
        for key, block in list(self._blocks.items()):
            lacking = missing(*key)
            if not lacking:
                self._close(key, "groups completed without FEC")
            elif len(lacking) <= len(block.repair):
                frames = self._solved(key, block)
                self._close(key, "groups recovered by FEC" if frames else "groups that FEC does not fit")
                age = block.age + now - block.came
                for sequence in lacking:
                    if sequence in frames:
                        header, body = frames[sequence]
                        header[KEY] = _pack(int(age * 1000), channel, sequence)
                        run = Inbound(like.peer, like.incarnation, like.address, header, [body], age)
                        found.append((sequence, run))
                        self._recovered[sequence] = None
        while len(self._recovered) > KEPT:
            self._recovered.popitem(last=False)
        return found

    def came_late(self, sequence: int, count: int) -> int:
        """Return how many of these frames, which came in their first attempt, had been decoded before."""
        late = [one for one in range(sequence, sequence + count) if one in self._recovered]
        for one in late:
            del self._recovered[one]
        return len(late)

    def _solved(self, key: tuple[int, int], block: SourceBlock) -> dict[int, tuple[Header, bytes]]:
        """Return the frames of a block that are not kept, by sequence; none if they cannot be decoded."""
        first, count = key
        symbols = self._symbols(first, count)
        unknown = [first + place for place, symbol in enumerate(symbols) if symbol is None]
        size = len(next(iter(block.repair.values())))
        if len(unknown) > len(block.repair) or any(symbol and len(symbol) > size for symbol in symbols):
            return {}
        from glue.transport.fec.code import decode, frame_of  # imported here: most links lose nothing

        found = [frame_of(symbol) for symbol in decode(symbols, block.repair)]
        return {sequence: frame for sequence, frame in zip(unknown, found, strict=True) if frame is not None}

    def _symbols(self, first: int, count: int) -> list[bytes | None]:
        """Return the source symbols of a block; None for each frame that is not kept."""
        from glue.transport.fec.code import symbol_of  # as above

        symbols: list[bytes | None] = [None] * count
        for start, header, bodies, _ in self._runs:
            skip = max(first - start, 0)
            for offset in range(skip, min(len(bodies), first + count - start)):
                symbols[start + offset - first] = symbol_of(advanced(header, offset), bodies[offset])
        return symbols
