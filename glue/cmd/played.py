"""The messages that `glue play` publishes again, from captured datagrams or from recordings of topics.

A source is read once; each round of `--loop` opens another one.
"""

from __future__ import annotations

import argparse
import heapq
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from glue.capture.messages import Messages, Published
from glue.capture.ordering import ordered
from glue.capture.packets import payload_of
from glue.capture.reading import Capture
from glue.cmd import common
from glue.contract.metadata import NO_PROPERTIES, CodecTag
from glue.contract.sealed import sealed_network
from glue.endpoint.core import check_not_reserved, id_of
from glue.errors import ConfigurationError, StorageError
from glue.recording import McapReader, RecordedMessage
from glue.recording.reader import is_mcap
from glue.settings import Settings
from glue.topics import check_pattern
from glue.topics.index import Index

SECOND = 10**9


class Playable(NamedTuple):
    """A message to publish again. `time_ns` is when it was captured; `payload` is a JSON document if `json`."""

    time_ns: int
    topic: str
    payload: bytes
    json: bool
    codec: CodecTag | None
    properties: Mapping[str, str]
    type: str | None
    retain: bool
    lifespan: float | None
    reliable: bool


class Source(Protocol):
    """Messages in the order of time."""

    left_out: int
    """Messages that the options left out."""

    def __iter__(self) -> Iterator[Playable]: ...

    @property
    def share(self) -> float:
        """The part that was read, 0 to 1."""

    def counters(self) -> Counter[str]:
        """Return the counts of dropped input, by cause."""

    def faults(self) -> list[tuple[str, str]]:
        """Return the files that were read only up to a fault, and the faults."""


class Selection:
    """The topics and publishers that the options select. Raises TopicError for a bad pattern."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._publishers = {identity for name in arguments.publisher or () for identity in (name, id_of(name))}
        self._wanted: Index[str] = Index()
        for pattern in arguments.topics or ("#",):
            check_pattern(pattern)
            check_not_reserved(pattern)
            self._wanted.add(pattern, pattern)

    def has(self, topic: str, *publisher: str | None) -> bool:
        """Whether a message is selected; `publisher` is the name or the id, or both."""
        return bool(self._wanted.match(topic)) and (
            not self._publishers or any(one in self._publishers for one in publisher)
        )


class Trace:
    """The messages of captures (pcap, pcapng)."""

    def __init__(
        self, captures: Sequence[Capture], arguments: argparse.Namespace, network_id: int, message_limit: int
    ) -> None:
        self.messages = Messages(network_id, message_limit)
        self.left_out = 0
        self.sealed = 0
        """Frames with a sealed datagram of the network."""
        self._captures = captures
        self._network_id = network_id
        self._point = arguments.capture_point
        self._seek = arguments.seek
        self._selection = Selection(arguments)

    def __iter__(self) -> Iterator[Playable]:
        start_ns: int | None = None
        for message in ordered(self._published()):
            start_ns = start_ns or message.time_ns + int(self._seek * SECOND)
            named = self.messages.names.get(message.publisher)
            if message.time_ns >= start_ns and self._selection.has(message.topic, message.publisher, named):
                properties, codec = NO_PROPERTIES, None
                if message.metadata is not None:
                    properties, codec = message.metadata.properties or NO_PROPERTIES, message.metadata.codec
                yield Playable(
                    message.time_ns, message.topic, message.payload, message.json, codec, properties, message.type,
                    message.retain, message.lifespan, message.reliable,
                )  # fmt: skip
            else:
                self.left_out += 1

    def _published(self) -> Iterator[Published]:
        for frame in heapq.merge(*self._captures, key=lambda frame: frame.time_ns):
            common.check()
            if self._point is None or frame.point == self._point:
                datagram = payload_of(frame.data, frame.link)
                if datagram is not None and datagram.startswith(b"{"):
                    yield from self.messages.read(frame.time_ns, datagram)
                elif datagram is not None and sealed_network(datagram) == self._network_id:
                    self.sealed += 1

    @property
    def share(self) -> float:
        """The part of the files that was read, 0 to 1."""
        return sum(capture.position for capture in self._captures) / max(1, sum(one.size for one in self._captures))

    def counters(self) -> Counter[str]:
        """Return the counts of dropped input, by cause."""
        return self.messages.counters()

    def faults(self) -> list[tuple[str, str]]:
        """Return the files that were read only up to a fault, and the faults."""
        return [(str(one.path), one.fault) for one in self._captures if one.fault is not None]


class Recordings:
    """The messages of recordings of topics (MCAP)."""

    def __init__(self, readers: Sequence[McapReader], arguments: argparse.Namespace) -> None:
        self.left_out = 0
        self._readers = readers
        self._seek = arguments.seek
        self._selection = Selection(arguments)
        starts = [reader.start_ns for reader in readers if reader.start_ns]
        self._start_ns = min(starts) if starts else 0
        self._stop_ns = max(reader.stop_ns for reader in readers)
        self._at_ns = self._start_ns

    def __iter__(self) -> Iterator[Playable]:
        seek_ns = int(self._seek * SECOND)
        start_ns = self._start_ns + seek_ns if self._start_ns and seek_ns else None
        found = heapq.merge(*[reader.messages(start_ns) for reader in self._readers], key=lambda one: one.time_ns)
        for message in found:
            common.check()
            if start_ns is None:  # without an index, the first message tells
                start_ns = message.time_ns + seek_ns
            self._at_ns = message.time_ns
            is_selected = self._selection.has(message.topic, message.publisher, message.publisher_id)
            if message.time_ns >= start_ns and is_selected and not message.topic.startswith("$"):
                yield playable(message)
            else:
                self.left_out += 1

    @property
    def share(self) -> float:
        """The part of the time that was read, 0 to 1; 0 without an index."""
        length = self._stop_ns - self._start_ns
        return (self._at_ns - self._start_ns) / length if length > 0 else 0.0

    def counters(self) -> Counter[str]:
        """Return no counts: what a file lacks is a fault."""
        return Counter()

    def faults(self) -> list[tuple[str, str]]:
        """Return the files that were read only up to a fault, and the faults."""
        return [(reader.path, reader.fault) for reader in self._readers if reader.fault is not None]


def playable(message: RecordedMessage) -> Playable:
    """Return a recorded message as one to publish again, reliably and without an end of its life."""
    return Playable(
        message.time_ns, message.topic, message.payload, message.json, message.codec, message.properties, message.type,
        message.retained, None, True,
    )  # fmt: skip


def open_source(stack: ExitStack, arguments: argparse.Namespace, settings: Settings) -> Source:
    """Open the files, all of one kind; `stack` closes them. Raises ConfigurationError, StorageError, TopicError."""
    paths: list[str] = arguments.captures
    try:
        kinds = {is_mcap(path) for path in paths if os.path.isfile(path)}
        if kinds == {True, False}:
            raise ConfigurationError("captures of datagrams and recordings of topics cannot be played together")
        if kinds == {True}:
            return Recordings([stack.enter_context(closing(McapReader(path))) for path in paths], arguments)
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error
    if settings.key is not None:
        paths = opened(stack, paths, settings.key)
    captures = [stack.enter_context(closing(Capture(path))) for path in paths]
    return Trace(captures, arguments, network_of(arguments, settings), settings.message_limit)


def opened(stack: ExitStack, paths: list[str], key: str) -> list[str]:
    """Return copies of captures in which what the key opens is not sealed; `stack` removes them."""
    from glue.capture.opened import opened_copies  # imported here: most traces are not sealed
    from glue.endpoint.secrets import read_key

    return opened_copies(paths, stack.enter_context(TemporaryDirectory(prefix="glue-")), read_key(key))


def network_of(arguments: argparse.Namespace, settings: Settings) -> int:
    """Return the network to play from a trace."""
    return settings.network_id if arguments.trace_network_id is None else arguments.trace_network_id
