"""Published messages from captured datagrams, each message once.

The layers' own code reads the datagrams: serialization, fragmentation, and the bundles of topics. Transport is left out
because it delivers only to one receiver, and only from the start of a channel. A message is identified by sender,
incarnation, topic and sequence number. Therefore copies are recognized: resends, copies for several receivers, and
captures at several points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from glue.capture.packets import segment_of
from glue.contract import Inbound, Train, Upward
from glue.contract.metadata import Metadata
from glue.contract.ranges import RangeSet
from glue.fragmentation import Fragmentation
from glue.serialization import Serialization
from glue.stack import bundle_limit
from glue.topics.bundle import KEPT, MalformedBundleError, MessageGroup, decode
from glue.topics.recent import GenerationalCache

DATA = ("data", "group")
BEST_EFFORT = "best"
STREAMS = 65_536
"""Streams (sender, incarnation, topic) whose numbers are kept at least. Twice as many, the limit, take 26 MB."""
HOLES = 1024
"""Most holes kept in the numbers of a stream, about 16 kB. Beyond this limit the oldest hole counts as seen."""


class Published(NamedTuple):
    """A published message.

    - `time_ns`: when the capture point had the whole message, nanoseconds since 1970.
    - `json`: whether `payload` is an encoded JSON document.
    - `lifespan`: seconds, None for unlimited.
    - `published_at_us`: the publisher's clock at the first message of the group, microseconds since 1970.
    """

    time_ns: int
    publisher: str
    incarnation: int
    topic: str
    sequence: int
    payload: bytes
    json: bool
    type: str | None
    retain: bool
    lifespan: float | None
    reliable: bool
    published_at_us: int
    metadata: Metadata | None = None


class Messages:
    """Reassembles the messages of one network from datagrams in the order of time."""

    def __init__(self, network_id: int, message_limit: int) -> None:
        """`message_limit`: bytes of the largest message. Larger messages are dropped and counted."""
        self.statistics: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        """Names of endpoints by id, from their announcements."""
        self._serialization = Serialization(endpoint_id="", incarnation=0, network_id=network_id)
        self._fragmentation = Fragmentation(message_limit=bundle_limit(message_limit))
        self._seen: GenerationalCache[tuple[str, int, str], RangeSet] = GenerationalCache(STREAMS)

    def read(self, time_ns: int, data: bytes) -> Iterator[Published]:
        """Yield the messages that this datagram, or train of datagrams, completes."""
        now = time_ns / 1e9
        runs, _ = self._serialization.receive(now, [Train(None, data, segment_of(data))])
        carrying: list[Upward] = [run for run in runs if self._carries_data(run)]
        whole, _ = self._fragmentation.receive(now, carrying)
        for run in whole:
            if isinstance(run, Inbound):
                for body in run.bodies:
                    yield from self._bundle(time_ns, run, body)

    def counters(self) -> Counter[str]:
        """Return the counts of dropped input by cause, including the layers' counts."""
        return self.statistics + self._serialization.statistics + self._fragmentation.statistics

    def _carries_data(self, run: Inbound) -> bool:
        entry = run.header.get("transport")
        if entry and entry[0] in (*DATA, BEST_EFFORT):
            run.reliable = entry[0] != BEST_EFFORT
            return True
        if "discovery" in run.header and run.peer not in self.names and run.bodies[0]:
            self._note_name(run)
        return False

    def _note_name(self, run: Inbound) -> None:
        try:
            told = orjson.loads(run.bodies[0])
        except ValueError:
            return
        if isinstance(told, dict) and isinstance(told.get("name"), str) and len(self.names) < STREAMS:
            self.names[run.peer] = told["name"]

    def _bundle(self, time_ns: int, run: Inbound, body: bytes) -> Iterator[Published]:
        try:
            groups = decode(body)
        except MalformedBundleError as error:
            self.statistics[f"malformed bundles: {error}"] += 1
            return
        for group in groups:
            for sequence in self._new(run, group):
                yield Published(
                    time_ns, run.peer, run.incarnation, group.topic, sequence,
                    group.payloads[sequence - group.sequence], group.json, group.type,
                    group.retain == KEPT or (group.retain > 0 and sequence == group.sequence + len(group.payloads) - 1),
                    None if group.lifespan_ms is None else group.lifespan_ms / 1000, run.reliable, group.at,
                    group.metadata,
                )  # fmt: skip

    def _new(self, run: Inbound, group: MessageGroup) -> list[int]:
        """Return the sequence numbers of a group that have not been seen before, and note them."""
        stream = run.peer, run.incarnation, group.topic
        seen = self._seen.get(stream)
        if seen is None:
            seen = RangeSet()
            self._seen.put(stream, seen)
        count = len(group.payloads)
        fresh = seen.add(group.sequence, group.sequence + count)
        if len(seen) > HOLES:
            (_, first), (second, _), *_ = seen
            seen.add(first, second)
        new = [sequence for start, stop in fresh for sequence in range(start, stop)]
        self.statistics["copies"] += count - len(new)
        return new
