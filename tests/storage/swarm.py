"""A keeper on a simulated disk under random faults, checked after each step.

The disk loses power at any call, tears and drops what was not synced, fails to sync, fills up, and flips bits. What is
checked: an acknowledged message is there with its payload, no message is there twice, an offset never names another
message, what the log calls held can be read, and only what retention allows or a flipped bit has damaged is missing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import orjson

from glue.contract import Publication
from glue.endpoint.keeping import Keeping
from glue.errors import StorageError
from glue.security import AES_GCM, Key
from glue.security.at_rest import sealed_directory
from glue.simulation.consensus import PowerCut, SimulatedDisk
from glue.storage import Directory, FileLog, Record, Retention, Stream
from glue.storage.log import every_topic
from tests.storage.records import LIFE, ORIGIN, messages

TOPICS = ("a", "b", "once/c")
KEEP_LAST = 3
MOST = 5
"""Messages in a record."""

Message = tuple[Stream, int]


class Violation(AssertionError):  # noqa: N818  # no error of the program
    """A promise was broken."""


class Identity:
    """A keeper."""

    endpoint_id, name, incarnation = "k" * 16, "keeper", 1


class Publishers:
    """What the publishers are told; they all want to be told."""

    identity = Identity()

    def __init__(self) -> None:
        self.wanted = {ORIGIN: LIFE}
        self.acknowledged: set[Message] = set()

    def publish(self, publications: list[Publication]) -> None:
        for publication in publications:
            for topic, start, stop in orjson.loads(publication.payloads[0]).get("durable", []):
                self.acknowledged |= {(Stream(ORIGIN, LIFE, topic), number) for number in range(start, stop)}


class Run:
    """One run, which follows from its seed."""

    def __init__(self, seed: int, key: Key | None = None) -> None:
        """`key`: what is stored is sealed with it."""
        self.luck = Random(seed)
        self.disk = SimulatedDisk(Random(seed + 1))
        self.key = key
        self.entropy = Random(seed + 3).randbytes
        self.cleaning = Random(seed + 2)
        self.publishers = Publishers()
        self.now = 0.0
        self.next = dict.fromkeys(TOPICS, 1)
        self.payloads: dict[Message, bytes] = {}
        self.places: dict[tuple[str, int], Message] = {}
        self.flipped = 0  # bits
        self.segment_size = self.luck.choice((150, 600, 3000))
        self.retains = self.luck.random() < 0.5
        self.flips = self.luck.random() < 0.3
        self.open()

    def open(self) -> None:
        while True:
            try:
                self.log = FileLog(self.directory(), self.luck, self.segment_size)
                break
            except StorageError:  # people make room, or put in another disk
                self.disk.is_full = False
        statistics: Counter[str] = Counter()
        self.keeping = Keeping(self.log, self.publishers, statistics, self.publishers.publish)  # type: ignore[arg-type]
        if self.retains:
            self.keeping.retentions = [Retention(lambda topic: topic.startswith("once"), count=KEEP_LAST)]

    def directory(self) -> Directory:
        if self.key is None:
            return self.disk
        try:
            return sealed_directory(self.disk, self.key, AES_GCM, self.entropy)
        except OSError as error:  # a full disk
            raise StorageError(str(error)) from error

    # ------------------------------------------------------------------------------------------------ steps

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.luck.choice((0.0, 0.001, 0.01, 100.0))
            try:
                self.luck.choice((self.store, self.store, self.store, self.commit, self.commit, self.trouble))()
            except PowerCut:
                self.crash()
            self.check()
        self.crash()
        self.check()

    def store(self) -> None:
        records = []
        for _ in range(self.luck.randint(1, 4)):
            topic = self.luck.choice(TOPICS)
            first, count = self.next[topic], self.luck.choice((1, 1, 2, MOST))
            if self.luck.random() < 0.2 and first > 1:  # again, or late
                first = self.luck.randint(max(1, first - 8), first)
            elif self.luck.random() < 0.1:
                first += 2
            self.next[topic] = max(self.next[topic], first + count)
            records.append(messages(first, count, topic, at=self.now, size=self.luck.choice((8, 40))))
        for record in records:
            for number, payload in enumerate(record.payloads, record.sequence):
                self.payloads.setdefault((record.stream, number), payload)
        same = [self._as_first_sent(record) for record in records]
        self.keeping.store_records(self.now, same)

    def _as_first_sent(self, record: Record) -> Record:
        stream = record.stream
        record.payloads = [self.payloads[stream, number] for number in range(record.sequence, record.stop)]
        return record

    def commit(self) -> None:
        if self.cleaning.random() < 0.3:
            self.keeping._clean(self.now, self.now)
        self.keeping.commit(self.now, self.now)

    def trouble(self) -> None:
        disk, luck = self.disk, self.luck
        kind = luck.choice(("power", "power", "kill", "kill", "sync", "full", "room", "flip"))
        if kind == "power":
            disk.power_cut_after = disk.calls + luck.randint(0, 6)
        elif kind == "kill":  # the process ends, and the disk goes on
            disk.power_cut_after = None
            self.open()
        elif kind == "sync":
            disk.fails_to_sync = True
        elif kind == "full":
            disk.is_full = True
        elif kind == "room":
            disk.is_full = False
        elif self.flips:
            self.flip()

    def flip(self) -> None:
        files = [name for name in self.disk.names() if self.disk.size(name)]
        if files:
            self.flipped += 1
            name = self.luck.choice(files)
            self.disk.flip(name, self.luck.randrange(8 * self.disk.size(name)))
            self.disk.crash()
            self.open()

    def crash(self) -> None:
        while True:
            self.disk.crash()
            if self.luck.random() < 0.2:
                self.disk.power_cut_after = self.disk.calls + self.luck.randint(0, 6)
            try:
                self.open()
            except PowerCut:
                continue
            self.disk.power_cut_after = None
            return

    # ----------------------------------------------------------------------------------------------- checks

    def check(self) -> None:
        if self.flipped and not self.log.failure:
            try:
                self.found()  # reading finds the damage
                self.log.repair()
            except (StorageError, PowerCut):
                self.crash()
        found = self.found()
        self._check_places(found)
        missing, damaged = self.publishers.acknowledged - found.keys(), 0
        for stream, number in missing:
            if self._may_be_removed(found, stream, number):
                continue
            state = self.log.state(stream)
            if not self.flipped or (state is not None and number in state.durable):
                raise Violation(f"{stream.topic} {number} was acknowledged and is gone")
            damaged += 1
        if damaged > MOST * self.flipped and self.key is None:  # sealed, it is whole chunks
            raise Violation(f"{damaged} messages are gone for {self.flipped} flipped bits")
        for stream, state in self.log.streams(every_topic):
            for start, stop in state.durable:
                for number in range(start, stop):
                    if (stream, number) not in found and not self._may_be_removed(found, stream, number):
                        raise Violation(f"{stream.topic} {number} is called durable and is not there")

    def found(self) -> dict[Message, int]:
        """All messages that can be read, with their offsets."""
        found: dict[Message, int] = {}
        at, before = 0, -1
        while at < self.log.durable:
            reading = self.log.read(every_topic, at, size=200)
            for offset, record in reading.records:
                for number, payload in enumerate(record.payloads, record.sequence):
                    message = record.stream, number
                    if message in found:
                        raise Violation(f"{record.topic} {number} is there twice")
                    if payload != self.payloads[message]:
                        raise Violation(f"{record.topic} {number} has another payload")
                    found[message] = offset + number - record.sequence
                if offset <= before:
                    raise Violation("offsets do not ascend")
                before = offset + len(record.payloads) - 1
            if reading.next <= at:
                raise Violation("reading does not go on")
            at = reading.next
        return found

    def _check_places(self, found: dict[Message, int]) -> None:
        for message, offset in found.items():
            if self.places.setdefault((self.log.id, offset), message) != message:
                raise Violation(f"offset {offset} named another message")

    def _may_be_removed(self, found: dict[Message, int], stream: Stream, number: int) -> bool:
        """Whether retention may have removed a message: others were stored after it."""
        if not self.retains or not stream.topic.startswith("once"):
            return False
        state = self.log.state(stream)
        if self.flipped and state is not None and number < state.first_kept:  # those after it may be damaged since
            return True
        return len([other for other, _ in found if other.topic == stream.topic]) >= KEEP_LAST


@contextmanager
def quietly() -> Iterator[None]:
    """Without the log messages of failing disks."""
    logger = logging.getLogger("glue")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def run_seed(seed: int, steps: int = 40, key: Key | None = None) -> None:
    """Run a seed. Raises Violation if a promise is broken."""
    with quietly():
        Run(seed, key).run(steps)


def first_violation(seeds: range, steps: int = 40, key: Key | None = None) -> tuple[int, Any] | None:
    """The first seed that breaks a promise, and how."""
    for seed in seeds:
        try:
            run_seed(seed, steps, key)
        except Violation as violation:
            return seed, violation
    return None
