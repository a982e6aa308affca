"""What lies on disks. Contents have right checksums here: a fault of a program, not of a disk, or a forged file."""

from __future__ import annotations

import contextlib
from random import Random

import orjson

from glue.consumers.position import Position
from glue.consumers.positions import Positions
from glue.endpoint.model_options import open_deltas, open_storage
from glue.errors import ConfigurationError, StorageError
from glue.gateway.mqtt.stored import event_record, read_record
from glue.model.consensus import LogEntry, Vital
from glue.model.consensus.items import Kind, Snapshot
from glue.model.storage.payloads import base_payload, snapshot_payload, write_payload
from glue.security import AES_GCM
from glue.security.at_rest import Chunk, SealedDirectory
from glue.simulation.disk import SimulatedDisk
from glue.storage import FileLog
from glue.storage.framing import record as framed
from glue.storage.framing import scan
from glue.storage.records import Record, RecordDecoder, RecordEncoder
from glue.storage.segment import SegmentIndex, read_summary
from tests.fuzz.registry import joined, split, target
from tests.fuzz.targets.models import PREFIXES, deltas
from tests.model.member import configuration
from tests.security.pair import KEY
from tests.storage.records import everything, messages


def disk(**files: bytes) -> SimulatedDisk:
    """A disk with these files."""
    made = SimulatedDisk(Random(1))
    for name, data in files.items():
        made.create(name)
        made.append(name, data)
        made.sync(name)
    made.sync_names()
    return made


def content(data: bytes) -> bytes:
    """A file of framed records, one for each part of an input."""
    return b"".join(framed(part) for part in split(data))


@target("framing", lambda: [content(joined([b"a", b"", b"bc"]))], StorageError)
def framing(data: bytes) -> None:
    """A file of records, whose checksums may be wrong."""
    payloads, size = scan(data)
    assert size <= len(data)
    assert sum(map(len, payloads)) <= size


def replica_files() -> list[bytes]:
    """Logs of replicas, and snapshots: the first part is the snapshot."""
    vital = Vital("life", "group", 3, "peer", (1, "a"), (1, "a"), b"value")
    entries = [LogEntry(index, 1 + index // 3, Kind.COMMAND, b"%d" % index) for index in range(1, 5)]
    log = [base_payload((0, 0)), write_payload(vital, entries), write_payload(None, entries[2:])]
    shortened = [base_payload((2, 1)), write_payload(vital, [])]
    snapshot = snapshot_payload(Snapshot(2, 1, configuration(), b"data"))
    return [
        joined([b"", *log]),
        joined([snapshot, *log]),
        joined([snapshot, *shortened]),
    ]


@target("replica-files", replica_files, StorageError)
def replica_files_opened(data: bytes) -> None:
    """The files of a replica: a snapshot and a log."""
    snapshot, *log = split(data) or [b""]
    files = {"log": b"".join(map(framed, log))}
    if snapshot:
        files["snapshot"] = framed(snapshot)
    open_storage(disk(**files), Random(2))


@target("mergeable-files", lambda: [joined(deltas())], StorageError, ConfigurationError)
def mergeable_files(data: bytes) -> None:
    """The deltas of mergeable keys; a mark of other prefixes is a mistake of the caller."""
    open_deltas(disk(deltas=content(data)), PREFIXES)


def records() -> list[Record]:
    """Records of several forms."""
    return [
        messages(1, 3), messages(4, 1, size=100), messages(5, 2, type="t", codec=1, properties={"a": "b"}),
        Record("b" * 16, "x", 2, "y", 1, [b"", b"abc"], 5.0),
    ]  # fmt: skip


@target("record", lambda: [RecordEncoder().encode(record, 7) for record in records()], StorageError)
def record(data: bytes) -> None:
    """A record of a log."""
    decoder = RecordDecoder()
    _, found = decoder.decode(data)
    assert decoder.topic(data) == found.topic
    RecordEncoder().encode(found)


def logs() -> list[bytes]:
    """The segment, the index and the streams of a log, and what is read of it."""
    encoder, offset, encoded = RecordEncoder(), 0, list[bytes]()
    for one in records():
        encoded.append(encoder.encode(one, offset))
        offset += len(one.payloads)
    index = SegmentIndex()
    for place, one in enumerate(records()):
        index.add(one, place, place * 100, 100)
    return [joined([b"", *encoded]), joined([orjson.dumps([1, "0" * 16, 3, []]), *encoded]), index.encode(0, 4, 400)]


@target("log", logs, StorageError)
def log(data: bytes) -> None:
    """A log of one segment, which is opened, read, and written to."""
    streams, *rest = split(data) or [b""]
    files = {f"{0:016x}.log": b"".join(map(framed, rest)), "log.id": framed(b"0" * 16)}
    if streams:
        files["streams"] = framed(streams)
    opened = FileLog(disk(**files), Random(3), 1 << 16)
    offset = 0
    while offset < opened.durable:
        offset = max(opened.read(everything, offset, 4096).next, offset + 1)
    opened.append([messages(100)])
    opened.sync()


@target("segment-index", logs, StorageError)
def segment_index(data: bytes) -> None:
    """The index of a segment, as it is and with right checksums."""
    for one in (data, content(data)):
        with contextlib.suppress(StorageError):
            read_summary(one)
        try:
            index = SegmentIndex.decode(one)
        except StorageError:
            continue
        index.block_at(5)
        index.block_since(5.0)


def position_files() -> list[bytes]:
    """Positions of consumers."""
    position = Position(5)
    position.done(7, 9)
    state = {"position": position.encode(), "reach": 9, "about": {}}
    entries = [
        {"log": "L"},
        {"id": "a/b", "state": state},
        {"id": "a/b", "reach": 12},
        {"id": "a/b", "next": 6, "done": [[9, 10]]},
    ]
    return [joined([orjson.dumps(one) for one in entries])]


@target("positions", position_files, StorageError)
def positions(data: bytes) -> None:
    """The positions of consumers at a keeper."""
    opened = Positions(disk(consumers=content(data)), "L")
    for stored in opened.stored.values():
        orjson.dumps(stored.value)


def door_records() -> list[bytes]:
    """Records of an MQTT door: a run of messages, and events."""
    run = Record(
        "", "c", 1, "t", 1, [b"a", b"b"], 5.0, flags=1 << 8, type="topic", properties={"expires": "7.5", "ids": "[1]"}
    )
    encoder = RecordEncoder()
    return [encoder.encode(run, 3), encoder.encode(event_record([("open", "c", 5, 1), ("end", "c")], 4, 6.0), 4)]


@target("mqtt-record", door_records, StorageError)
def mqtt_record(data: bytes) -> None:
    """A record of an MQTT door's log."""
    offset, found = RecordDecoder().decode(data)
    read_record(found, offset, 0.0)


def sealed_files() -> list[bytes]:
    """A sealed file."""
    made, random = disk(), Random(4)
    directory = SealedDirectory(made, KEY, AES_GCM, random.randbytes)
    directory.create("file")
    for size in (10, 5000, 0, 3):
        directory.append("file", bytes(size))
    directory.sync("file")
    return [made.read("file") or b"", b"".join([made.read("file") or b"", b"torn"])]


@target("at-rest", sealed_files, StorageError)
def at_rest(data: bytes) -> None:
    """A sealed file with any damage: read as a whole and in part, and appended to."""
    Chunk.parse(data)
    directory = SealedDirectory(disk(file=data), KEY, AES_GCM, Random(5).randbytes)
    whole = directory.read("file")
    assert len(whole or b"") == directory.size("file")
    directory.read_at("file", 3, 20)
    directory.append("file", b"more")
