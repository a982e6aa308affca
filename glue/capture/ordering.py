"""Messages in the order in which they are to be played: that of the capture, but each stream in its own.

A message of which the first copy was lost before the capture point is seen late, as a resend, and belongs before those
that were published after it. So all messages wait for a second of the capture's time. Each one that was captured gives
its stream (publisher, life, topic) a turn at that time; at a turn, the stream's earliest message that waits is played.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from glue.capture.messages import Published

WINDOW_NS = 10**9
"""How long messages wait: several of the longest resend intervals of a peer that answers (0.25 s)."""
HELD_BYTES = 64 << 20
"""Bytes of payload that wait at most; beyond, turns come early."""

Stream = tuple[str, int, str]


def ordered(messages: Iterable[Published]) -> Iterator[Published]:
    """The messages with the times at which they are to be played."""
    waiting: dict[Stream, list[tuple[int, Published]]] = {}
    turns: list[tuple[int, Stream]] = []
    held = 0
    for message in messages:
        stream = message.publisher, message.incarnation, message.topic
        heapq.heappush(waiting.setdefault(stream, []), (message.sequence, message))
        heapq.heappush(turns, (message.time_ns, stream))
        held += len(message.payload)
        while turns[0][0] <= message.time_ns - WINDOW_NS or held > HELD_BYTES:
            first = _take(turns, waiting)
            held -= len(first.payload)
            yield first
    while turns:
        yield _take(turns, waiting)


def _take(turns: list[tuple[int, Stream]], waiting: dict[Stream, list[tuple[int, Published]]]) -> Published:
    """The message of the next turn."""
    time_ns, stream = heapq.heappop(turns)
    _, message = heapq.heappop(waiting[stream])
    if not waiting[stream]:
        del waiting[stream]
    return message._replace(time_ns=time_ns)
