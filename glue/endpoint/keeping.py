"""Keeping: storage of the topics that an endpoint keeps, and reports to their publishers.

A state machine without thread and clock: threaded endpoints run it in a thread of its own, off the delivery path, and
simulated endpoints at once. Deliveries become records. Only after a sync, publishers are told on request which messages
have become durable. Messages that the disk refuses are reported, too.

Once the disk has failed, nothing is stored or acknowledged any more, and no sync is tried again; reading goes on. While
the disk is full, everything new is refused at once, and one try a second shows whether there is room again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, Protocol

import orjson

from glue.contract import Delivery, Publication
from glue.endpoint.durability import Durability, acknowledgement_topic
from glue.endpoint.encoding import encoded
from glue.errors import StorageError, StorageFullError
from glue.storage import JSON, RETAINED, FileLog, Log, MemoryLog, Record, Retention, Stream
from glue.storage.group_commit import GroupCommit
from glue.storage.log import every_topic

RETRY_INTERVAL = 1.0
"""Seconds between two tries to write to a full disk: people must make room, which takes a while."""
CLEAN_INTERVAL = 60.0
"""Seconds between two looks for what is too old, or damaged."""
TOGETHER, JOINED = 0.005, 1024
"""Seconds between messages of a stream that are stored as one record, which has the time of the first; and how many."""
RANGES = 4096
"""Ranges in one acknowledgement at most: some 200 kB of JSON with topics of 30 characters."""

logger = logging.getLogger("glue")

Submitted = tuple[Stream, int, int]


class LogWatcher(Protocol):
    """Sees what a log stores, in the thread that stores. Must neither wait nor raise."""

    def appended(self, begin: int, end: int, records: Sequence[Record]) -> None:
        """Take records appended from one offset to another; records stored before got no offset."""

    def synced(self, durable: int) -> None:
        """Everything below an offset is durable."""


class Keeping:
    """The log of an endpoint that keeps topics. All methods belong to one thread, but the counters."""

    def __init__(
        self,
        log: FileLog | MemoryLog,
        durability: Durability,
        statistics: Counter[str],
        publish: Callable[[list[Publication]], None],
    ) -> None:
        """`publish` sends acknowledgements; `durability` takes those for this endpoint itself."""
        self.log: Log = log
        self.is_on_disk = isinstance(log, FileLog)
        self.failure = ""
        self.retentions: list[Retention] = []
        self.watchers: list[LogWatcher] = []
        self.consumers: Any = None  # the consumers with their home here; set if the log is on a disk
        self.delayed: Any = None  # the delayed messages that are held here
        self._log = log
        self._durability = durability
        self._identity = durability.identity
        self._statistics = statistics
        self._publish = publish
        self._commit = GroupCommit()
        self._stored: list[Submitted] = []  # and not yet synced, of those that want acknowledgements
        self._retry_at = -inf
        self._clean_at = inf
        self._damaged = 0  # places on the disk that were told of
        self._tell_damage()

    # ---------------------------------------------------------------------------------------- publishers

    def is_wanted(self, topic: str) -> bool:
        """Whether a consumer with its home here is for a topic."""
        return self.consumers is not None and self.consumers.wants(topic)

    def tell_all(self, publisher: str, life: int) -> None:
        """Tell a publisher what is durable of all that this life has published."""
        if not self.is_on_disk:
            return
        durable = [
            (stream, start, stop)
            for stream, state in self.log.streams(every_topic)
            if stream.origin == publisher and stream.life == life
            for start, stop in state.durable
        ]
        self._tell("durable", durable)

    def _wants(self, record: Record) -> bool:
        return self.is_on_disk and self._durability.wanted.get(record.origin) == record.life

    # ------------------------------------------------------------------------------------------- storing

    def store(self, now: float, deliveries: Iterable[Delivery]) -> None:
        """Store deliveries; they are acknowledged by `commit`."""
        self.store_records(now, joined([record_of(delivery) for delivery in deliveries]))

    def store_records(self, now: float, records: Sequence[Record]) -> None:
        """Store records, of another keeper for example."""
        wanted = [(record.stream, record.sequence, record.stop) for record in records if self._wants(record)]
        if self.failure and (self._log.failure or now < self._retry_at):
            self._refuse(records, wanted)
            return
        begin = self._log.end
        try:
            end = self._log.append(records)
        except StorageError as error:
            self._fail(now, error)
            self._refuse(records, wanted)
            return
        if self.failure:
            self.failure = ""
            logger.warning("keeper %s: there is room on the disk again", self._identity.name)
        self._statistics["messages kept"] += sum(len(record.payloads) for record in records)
        for watcher in self.watchers:
            watcher.appended(begin, end, records)
        self._stored += wanted
        self._commit.stored(now, sum(record.size for record in records), bool(wanted))
        self._clean_at = min(self._clean_at, now + CLEAN_INTERVAL)

    @property
    def deadline(self) -> float:
        """When `commit` is due (monotonic seconds), -inf for now."""
        due = min(self._commit.deadline, self._clean_at, inf if self.delayed is None else self.delayed.deadline)
        return due if self.consumers is None else min(due, self.consumers.deadline)

    def commit(self, now: float, unix_time: float) -> None:
        """Sync if that is due, and acknowledge; look for what is to be removed now and then."""
        if self._commit.deadline <= now:
            self.sync(now)
        if self._clean_at <= now:
            self._clean(now, unix_time)
        self._tell_damage()
        for part in (self.consumers, self.delayed):
            if part is not None and part.deadline <= now:
                part.advance(now)

    def sync(self, now: float) -> None:
        """Make everything stored durable, and tell the publishers."""
        stored, self._stored = self._stored, []
        self._commit.synced()
        if self._log.failure:
            self._refuse_stored(stored)
            return
        try:
            self._log.sync()
        except StorageError as error:
            self._fail(now, error)
            self._refuse_stored(stored)
            return
        self._statistics["syncs"] += 1
        for watcher in self.watchers:
            watcher.synced(self._log.durable)
        if stored:
            self._tell("durable", stored)

    def _clean(self, now: float, unix_time: float) -> None:
        self._clean_at = inf
        if not isinstance(self._log, FileLog) or self._log.failure:
            return
        try:
            lost = self._log.repair()
            freed = self._log.retain(self.retentions, unix_time)
        except StorageError as error:
            self._fail(now, error)
            return
        finally:
            self.plan_cleaning(now)
        if freed:
            self._statistics["bytes removed by retention"] += freed
        if lost:
            count = sum(stop - start for _, start, stop in lost)
            self._statistics["messages damaged on disk"] += count
            logger.error("keeper %s: %d messages are damaged on its disk", self._identity.name, count)

    def plan_cleaning(self, now: float) -> None:
        """Look later for what is too old by then, although nothing may be stored any more."""
        is_timed = any(retention.age is not None for retention in self.retentions)
        if is_timed and isinstance(self._log, FileLog) and len(self._log.segments) > 1:
            self._clean_at = min(self._clean_at, now + CLEAN_INTERVAL)

    def _tell_damage(self) -> None:
        """Tell of damage that opening or reading the log has found."""
        count = self._log.damaged - self._damaged if isinstance(self._log, FileLog) else 0
        if count > 0:
            self._damaged += count
            self._statistics["damaged places on disk"] += count
            logger.error(
                "keeper %s: %d damaged places on its disk; what was there is gone here", self._identity.name, count
            )

    def close(self, now: float) -> None:
        """Sync a last time, and close the log."""
        if not self._log.failure:
            self.sync(now)
        for part in (self.consumers, self.delayed):
            if part is not None:
                part.close(now)
        if isinstance(self._log, FileLog):
            self._log.close()

    # ------------------------------------------------------------------------------------------ failures

    def _fail(self, now: float, error: StorageError) -> None:
        """Note that the disk refused: until there is room if it is full, else for good."""
        is_full = isinstance(error, StorageFullError)
        self._retry_at = now + RETRY_INTERVAL if is_full else inf
        if not self.failure or not is_full:
            self._statistics["times that the disk was full" if is_full else "storage failures"] += 1
            logger.error("keeper %s stores nothing: %s", self._identity.name, error)
        self.failure = str(error)

    def _refuse(self, records: Sequence[Record], wanted: Sequence[Submitted]) -> None:
        self._statistics["messages not kept"] += sum(len(record.payloads) for record in records)
        self._refuse_stored(wanted)

    def _refuse_stored(self, wanted: Sequence[Submitted]) -> None:
        if wanted:
            self._tell("refused", wanted, cause=self.failure)

    # ----------------------------------------------------------------------------------- acknowledgements

    def tell_held(self, what: str, messages: Sequence[tuple[Any, str]], cause: str) -> None:
        """Tell publishers of delayed messages with these identities and topics, if they want to know."""
        wanted = [
            one for one in messages if self.is_on_disk and self._durability.wanted.get(one[0].publisher) == one[0].life
        ]
        ranges = [(Stream(id.publisher, id.life, topic), id.number, id.number + 1) for id, topic in wanted]
        if ranges:
            self._tell(what, ranges, **({"cause": cause} if cause else {}))

    def _tell(self, what: str, ranges: Sequence[Submitted], **more: str) -> None:
        """Tell publishers of ranges of their messages."""
        by_life: dict[tuple[str, int], list[list[Any]]] = {}
        for stream, start, stop in ranges:
            known = by_life.setdefault((stream.origin, stream.life), [])
            if known and known[-1][0] == stream.topic and known[-1][2] == start:
                known[-1][2] = stop
            else:
                known.append([stream.topic, start, stop])
        publications = []
        for (publisher, life), found in by_life.items():
            for begin in range(0, len(found), RANGES):
                message = {what: found[begin : begin + RANGES], **more}
                if publisher == self._identity.endpoint_id:
                    self._durability.take(publisher, message)
                else:
                    topic = acknowledgement_topic(publisher, life)
                    body = orjson.dumps(message)
                    publications.append(Publication(topic, [body], 0.0, True, len(body)))
        if publications:
            self._publish(publications)


def record_of(delivery: Delivery) -> Record:
    """Return the messages of a delivery as a record."""
    metadata, encoded_payloads = getattr(delivery, "metadata", None), getattr(delivery, "encoded", None)
    payloads = [*delivery.payloads] if encoded_payloads is None else [*map(bytes, encoded_payloads)]
    flags = RETAINED if delivery.retained else 0
    if {*map(type, payloads)} != {bytes}:
        pairs = [encoded(payload) for payload in payloads]
        payloads = [body for body, _ in pairs]
        flags |= JSON
    return Record(
        delivery.publisher_id, delivery.publisher, delivery.incarnation, delivery.topic, delivery.sequence, payloads,
        delivery.published_at, 0, flags, delivery.type, metadata.codec if metadata else None,
        dict(metadata.properties) if metadata and metadata.properties else {},
    )  # fmt: skip


def joined(records: Sequence[Record]) -> list[Record]:
    """Join records of a stream that follow each other within a few milliseconds."""
    found: list[Record] = []
    for record in records:
        if found and _continues(found[-1], record):
            found[-1].payloads.extend(record.payloads)
        else:
            found.append(record)
    return found


def _continues(last: Record, record: Record) -> bool:
    return (
        last.stop == record.sequence and len(last.payloads) < JOINED and last.topic == record.topic
        and last.origin == record.origin and last.life == record.life and last.name == record.name
        and last.flags == record.flags and last.type == record.type
        and last.codec == record.codec and last.properties == record.properties
        and abs(record.published_at - last.published_at) <= TOGETHER
    )  # fmt: skip
