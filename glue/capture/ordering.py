"""Messages in the order for replay: the order of the capture, but each stream in the order of its sequence numbers.

The first copy of a message may be lost before the capture point. Its resend is captured late, after messages with
higher sequence numbers. Therefore every message waits for one second of the capture's time. Each captured message gives
its stream (publisher, incarnation, topic) a turn at the time of the capture. At a turn, the waiting message with the
lowest sequence number of the stream is replayed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from glue.capture.messages import Published

WINDOW_NS = 10**9
"""How long messages wait: several times the longest resend interval of a responsive peer (0.25 s)."""
HELD_BYTES = 64 << 20
"""Most bytes of payload that wait. Beyond this limit turns come early."""

Stream = tuple[str, int, str]


def ordered(messages: Iterable[Published]) -> Iterator[Published]:
    """Yield the messages in the order of replay. `time_ns` becomes the time of replay."""
    waiting: dict[Stream, list[tuple[int, Published]]] = {}
    turns: list[tuple[int, Stream]] = []
    held = 0
    for message in messages:
        stream = message.publisher, message.incarnation, message.topic
        heapq.heappush(waiting.setdefault(stream, []), (message.sequence, message))
        heapq.heappush(turns, (message.time_ns, stream))
        held += len(message.payload)
        while turns and (turns[0][0] <= message.time_ns - WINDOW_NS or held > HELD_BYTES):
            first = _take(turns, waiting)
            held -= len(first.payload)
            yield first
    while turns:
        yield _take(turns, waiting)


def _take(turns: list[tuple[int, Stream]], waiting: dict[Stream, list[tuple[int, Published]]]) -> Published:
    """Remove and return the message of the next turn."""
    time_ns, stream = heapq.heappop(turns)
    _, message = heapq.heappop(waiting[stream])
    if not waiting[stream]:
        del waiting[stream]
    return message._replace(time_ns=time_ns)
