"""What parity gives back: the receiving end of one channel whose sender covers what it sends (see `protection`).

From the first parity on, the latest frames of the channel are kept a while, as those that arrived are needed to find
those that did not. A group waits until as many parity blocks are there as frames are missing. Parity for what is
complete, most of it, costs no more than a look.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from glue.contract import Header, Inbound, advanced
from glue.contract.pieces import total
from glue.transport.fec.code import BELOW, FRAMES, LENGTH, ROWS, frame_of, mend, symbol_of
from glue.transport.wire import DATA, KEY, PARITY

KEPT = 512  # frames of a channel: twice what a sender covers at once
GROUPS = 8  # that wait for more parity or frames, on each channel; as many as two bursts have
SHORTEST = LENGTH + len(b"{}\n")  # bytes of a block
UNUSED = 4096  # frames without any parity between them, after which none are kept any more
BUDGET = 32 << 20  # bytes of frames and parity kept, over all channels of all peers: some 40 full ones
RUN_COST = 1000  # bytes of bookkeeping a run, its header most of all

_pack = DATA.packer("age_ms", "channel", "sequence")
_values = PARITY.getter("age_ms", "first", "count", "row")


Missing = Callable[[int, int], list[int]]
"""The frames not yet received of a block, by its first sequence and its count."""


class Group:
    """Parity that waits for frames, or for more parity."""

    __slots__ = ("age", "blocks", "came")

    def __init__(self, now: float, age: float) -> None:
        self.blocks: dict[int, bytes] = {}
        self.came = now
        self.age = age  # of the oldest message of the group, when this came


class Store:
    """What all channels keep together: whoever kept something least recently gives way."""

    __slots__ = ("_keepers", "held")

    def __init__(self) -> None:
        self.held = 0  # bytes
        self._keepers: OrderedDict[Mending, None] = OrderedDict()  # the least recent first

    def has_room(self, keeper: Mending, size: int) -> bool:
        """Whether so many bytes more may be kept, if need be in the place of what others keep."""
        self._keepers[keeper] = None
        self._keepers.move_to_end(keeper)
        while self.held + size > BUDGET and len(self._keepers) > 1:
            next(iter(self._keepers)).drop()
        return self.held + size <= BUDGET

    def forget(self, keeper: Mending) -> None:
        """It keeps nothing any more."""
        self._keepers.pop(keeper, None)


class Mending:
    """Frames and parity kept of one channel."""

    __slots__ = ("_frames", "_groups", "_held", "_mended", "_runs", "_statistics", "_store", "_unused")

    def __init__(self, store: Store, statistics: Counter[str]) -> None:
        self._store = store
        self._statistics = statistics
        self._runs: deque[tuple[int, Header, Sequence[bytes], int]] = deque()  # first sequence, header, bodies, cost
        self._frames = 0
        self._held = 0  # bytes of runs and groups
        self._unused = 0  # frames since the latest parity
        self._groups: OrderedDict[tuple[int, int], Group] = OrderedDict()  # by first sequence and count
        self._mended: OrderedDict[int, None] = OrderedDict()  # the latest frames that parity gave back

    @property
    def unused(self) -> bool:
        """Whether no parity has come for so long that it is not worth keeping frames."""
        return self._unused > UNUSED

    @property
    def waiting(self) -> bool:
        """Whether any parity waits for frames."""
        return bool(self._groups)

    def _hold(self, size: int) -> None:
        self._held += size
        self._store.held += size

    def drop(self) -> None:
        """Give back what is held."""
        self._store.forget(self)
        self._hold(-self._held)
        self._runs.clear()
        self._groups.clear()
        self._frames = 0

    def keep(self, run: Inbound, sequence: int) -> None:
        """Frames have come."""
        count = len(run.bodies)
        self._unused += count
        cost = total(run.bodies) + RUN_COST
        if not self._store.has_room(self, cost):
            self._statistics["frames not kept for parity"] += count
            return
        header = {key: entry for key, entry in run.header.items() if key not in (KEY, BELOW)}
        self._runs.append((sequence, header, run.bodies, cost))
        self._frames += count
        self._hold(cost)
        while self._frames > KEPT:
            _, _, bodies, cost = self._runs.popleft()
            self._frames -= len(bodies)
            self._hold(-cost)

    def add(self, now: float, entry: list[Any], blocks: Sequence[bytes], promised: int, missing: Missing) -> None:
        """Parity blocks of a group have come."""
        age_ms, first, count, index = _values(entry)
        sizes = {*map(len, blocks)}
        if not 0 < count <= FRAMES or index + len(blocks) > ROWS or len(sizes) > 1 or min(sizes) < SHORTEST:
            self._statistics["malformed parity"] += len(blocks)
            return
        self._unused = 0
        key = first, count
        if first + count > promised or not missing(first, count):
            self._statistics["parity frames not needed"] += len(blocks)
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(now, age_ms / 1000)
            if len(self._groups) > GROUPS:
                self._close(next(iter(self._groups)), "groups given up for newer ones")
        for row, block in enumerate(blocks, index):
            if row in group.blocks or sizes != {*map(len, group.blocks.values()), *sizes}:
                self._statistics["parity frames not needed"] += 1
            elif not self._store.has_room(self, len(block)):
                self._statistics["parity frames beyond the budget"] += 1
            else:
                group.blocks[row] = block
                self._hold(len(block))

    def _close(self, key: tuple[int, int], cause: str) -> Group:
        """Be done with a group."""
        group = self._groups.pop(key)
        self._hold(-sum(map(len, group.blocks.values())))
        self._statistics[cause] += 1
        return group

    def mended(self, now: float, channel: int, missing: Missing, like: Inbound) -> list[tuple[int, Inbound]]:
        """Frames that were missing and can now be had, with their sequences; from whom `like` came."""
        found: list[tuple[int, Inbound]] = []
        for key, group in list(self._groups.items()):
            lacking = missing(*key)
            if not lacking:
                self._close(key, "groups completed without parity")
            elif len(lacking) <= len(group.blocks):
                frames = self._solved(key, group)
                self._close(key, "groups mended by parity" if frames else "groups that parity does not fit")
                age = group.age + now - group.came
                for sequence in lacking:
                    if sequence in frames:
                        header, body = frames[sequence]
                        header[KEY] = _pack(int(age * 1000), channel, sequence)
                        run = Inbound(like.peer, like.incarnation, like.address, header, [body], age)
                        found.append((sequence, run))
                        self._mended[sequence] = None
        while len(self._mended) > KEPT:
            self._mended.popitem(last=False)
        return found

    def came_late(self, sequence: int, count: int) -> int:
        """So many frames from `sequence` on have come in their first attempt; of how many parity was faster."""
        late = [one for one in range(sequence, sequence + count) if one in self._mended]
        for one in late:
            del self._mended[one]
        return len(late)

    def _solved(self, key: tuple[int, int], group: Group) -> dict[int, tuple[Header, bytes]]:
        """The frames of a group that are not kept, by sequence; none if they cannot be told."""
        first, count = key
        symbols = self._symbols(first, count)
        unknown = [first + place for place, symbol in enumerate(symbols) if symbol is None]
        size = len(next(iter(group.blocks.values())))
        if len(unknown) > len(group.blocks) or any(symbol and len(symbol) > size for symbol in symbols):
            return {}
        found = [frame_of(symbol) for symbol in mend(symbols, group.blocks)]
        return {sequence: frame for sequence, frame in zip(unknown, found, strict=True) if frame is not None}

    def _symbols(self, first: int, count: int) -> list[bytes | None]:
        """The frames of a group as far as they are kept."""
        symbols: list[bytes | None] = [None] * count
        for start, header, bodies, _ in self._runs:
            skip = max(first - start, 0)
            for offset in range(skip, min(len(bodies), first + count - start)):
                symbols[start + offset - first] = symbol_of(advanced(header, offset), bodies[offset])
        return symbols
