"""The memory of a responder for repeated requests, so that each request is handled once.

A caller repeats a request, under the same id, if its answer may have been lost. Then the answer is sent again, or
nothing is done while the handler is still at work. The memory keeps an id until the caller has given up, and refuses
new repeatable requests while it is full. Answers have less room: if an answer was dropped, the repeated request is
refused with FORGOTTEN and not handled again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from heapq import heappop, heappush

from glue.requests.wire import FORGOTTEN, FULL, refusal_tail

IDS = 32_768
"""Requests remembered at once, of some 300 bytes: 10 MB."""
CALLER_IDS = 4096
"""Requests remembered for one life of a caller, so that a single caller cannot fill the memory."""
BYTES = 8 << 20
"""Bytes of answers remembered at once."""
MARGIN = 10.0
"""Seconds that an id is kept after its deadline, for a repeated request that the network delays; a request delayed for
longer has expired by its own age."""

Key = tuple[str, int, int]
"""Of a request: the caller's id and incarnation, and the request's id."""

AT_WORK = b""
"""The answer of a request that has none yet."""


class Memory:
    """Answered requests and those at work, bounded in number, bytes and age."""

    __slots__ = ("_answers", "_by_caller", "_due", "_size", "_statistics", "_tails")

    def __init__(self, statistics: Counter[str]) -> None:
        self._tails: dict[Key, bytes | None] = {}  # the ends of the replies; None: dropped
        self._answers: OrderedDict[Key, None] = OrderedDict()  # those with a tail, the oldest first
        self._by_caller: Counter[tuple[str, int]] = Counter()
        self._due: list[tuple[float, Key]] = []  # a heap
        self._size = 0
        self._statistics = statistics

    def __len__(self) -> int:
        return len(self._tails)

    def begin(self, now: float, key: Key, expires: float) -> bytes | None:
        """Begin to handle a request, unless it came before.

        Returns None for a new request. Otherwise the request must not be handled. Then the end of the reply to send is
        returned, or AT_WORK while there is no reply yet.
        """
        self._expire(now)
        if key in self._tails:
            self._statistics["requests received again"] += 1
            tail = self._tails[key]
            return refusal_tail(FORGOTTEN) if tail is None else tail
        caller = key[:2]
        if len(self._tails) >= IDS or self._by_caller[caller] >= CALLER_IDS:
            self._statistics["requests refused: too many to remember"] += 1
            return refusal_tail(FULL)
        self._tails[key] = AT_WORK
        self._by_caller[caller] += 1
        heappush(self._due, (expires + MARGIN, key))
        return None

    def answer(self, key: Key, tail: bytes) -> None:
        """Keep the end of the reply to a request that was begun."""
        if self._tails.get(key) != AT_WORK:
            return  # expired meanwhile
        self._tails[key] = tail
        self._answers[key] = None
        self._size += len(tail)
        while self._size > BYTES:
            oldest, _ = self._answers.popitem(last=False)
            dropped = self._tails[oldest]
            self._size -= len(dropped or b"")
            self._tails[oldest] = None
            self._statistics["replies forgotten"] += 1

    def _expire(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, key = heappop(self._due)
            tail = self._tails.pop(key)
            if key in self._answers:
                del self._answers[key]
                self._size -= len(tail or b"")
            caller = key[:2]
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
