"""Files of logs: what is refused when they are read, and each bound at its value and one beyond."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import orjson
import pytest

from glue.errors import CorruptStorageError, StorageError, StorageFullError
from glue.simulation.consensus import SimulatedDisk
from glue.storage import FileLog, MemoryLog, Record, Stream
from glue.storage.framing import HEADER, scan
from glue.storage.framing import record as framed
from glue.storage.framing import size as framed_size
from glue.storage.group_commit import GroupCommit
from glue.storage.journal import Journal
from glue.storage.records import HEAD, RecordDecoder, RecordEncoder
from glue.storage.salvage import Salvage
from glue.storage.segment import SegmentIndex, read_summary
from glue.storage.segments import Segments
from glue.storage.streams import Streams
from tests.storage.records import everything, messages
from tests.storage.test_files import filled, opened, sequences


def index_file(summary: Any = None, details: Any = None) -> bytes:
    """An index file with a segment of one block, or with something else."""
    good = [[0], [5], [1.0], [["t", 2, 30, [0]]], [["o" * 16, 7, "t", "n", [[1, 3]], 1.0, 4]]]
    parts = [[1, 5, 7, 30, 1.0] if summary is None else summary, good if details is None else details]
    return b"".join(framed(part if isinstance(part, bytes) else orjson.dumps(part)) for part in parts)


def test_an_index_is_read_as_it_was_written() -> None:
    index = SegmentIndex.decode(index_file())
    assert (index.positions, index.offsets, index.times, index.last_at) == ([0], [5], [1.0], 1.0)
    part = index.topics["t"]
    assert (part.count, part.size, part.blocks) == (2, 30, [0])
    stream = index.streams[Stream("o" * 16, 7, "t")]
    assert (stream.name, [*stream.held], stream.last_at, stream.clock) == ("n", [(1, 3)], 1.0, 4)
    assert index.encode(5, 7, 30) == index_file()
    assert SegmentIndex().encode(5, 5, 0).startswith(framed(b"[1,5,5,0,0.0]"))
    assert read_summary(index_file()) == (5, 7, 30, 1.0)
    assert read_summary(index_file()[:60]) == (5, 7, 30, 1.0), "the beginning suffices"


@pytest.mark.parametrize(
    ("summary", "error"),
    [([2, 5, 7, 30, 1.0], "an index has version 2"), ([1, 5, 7, 30], "malformed"), ([1, 5, 7, 30, 1.0, 2], "malformed"),
     (7, "malformed"), (b"{", "an index is malformed")],
)  # fmt: skip
def test_a_wrong_summary_is_refused(summary: Any, error: str) -> None:
    with pytest.raises(CorruptStorageError, match=error):
        read_summary(index_file(summary))
    with pytest.raises(CorruptStorageError, match="an index has no summary"):
        read_summary(b"")


@pytest.mark.parametrize(
    "details",
    [[], [[0], [5], [1.0], []], [[0, 1], [5], [1.0], [], []], [[0], [5, 6], [1.0], [], []], [[0], [5], [], [], []],
     [[0], [5], [1.0], [["t", 2, 30]], []], [[0], [5], [1.0], [], [["o", 7, "t"]]], [[0], [5], [1.0], 7, []], b"["],
)  # fmt: skip
def test_a_wrong_index_is_refused(details: Any) -> None:
    with pytest.raises(CorruptStorageError, match="an index is malformed"):
        SegmentIndex.decode(index_file(details=details))
    for data in (b"", framed(b"[]"), index_file() + framed(b"[]")):
        with pytest.raises(CorruptStorageError, match="an index is not whole"):
            SegmentIndex.decode(data)


def test_an_index_has_an_entry_for_each_quarter_of_a_megabyte() -> None:
    index, size = SegmentIndex(), 256 << 10
    for number, (position, at) in enumerate([(0, 5.0), (10, 3.0), (size - 1, 9.0), (size, 2.0), (2 * size - 1, 11.0)]):
        index.add(messages(number * 10 + 1, 2, topic=f"t/{number % 2}", at=at), 100 + number, position, 7)
    assert (index.positions, index.offsets, index.times, index.last_at) == ([0, size], [100, 103], [9.0, 11.0], 11.0)
    assert [(part.count, part.size, part.blocks) for part in index.topics.values()] == [
        (6, 21, [0, 1]),
        (4, 14, [0, 1]),
    ]
    assert [index.block_at(offset) for offset in (0, 100, 102, 103, 999)] == [0, 0, 0, 1, 1]
    assert [index.block_since(at) for at in (0.0, 9.0, 9.5, 11.0, 11.5)] == [0, 0, 1, 1, 2]
    (first, second) = index.streams.values()
    assert ([*first.held], first.last_at) == ([(1, 3), (21, 23), (41, 43)], 11.0)
    assert second.last_at == 3.0


def test_an_index_that_is_built_again_is_as_it_was() -> None:
    disk, log = filled(9, 600)
    for segment in log.segments:
        before = log._files.index(segment).encode(segment.base, segment.end, segment.size)
        found, is_damaged = Segments(disk).scanned(segment.base)
        assert found.index is not None
        assert not is_damaged
        assert found.index.encode(found.base, found.end, found.size) == before
    rewritten = log._files.rewritten(log.segments[0], [*log._files.records(log.segments[0], 0, 1 << 20, everything)])
    assert rewritten.index is None
    assert log._files.index(rewritten).encode(0, 0, 0) == Segments(disk).scanned(0)[0].index.encode(0, 0, 0)  # type: ignore[union-attr]


def test_32_indexes_are_in_memory() -> None:
    disk, _ = filled(1)
    files = Segments(disk)
    segments = []
    for base in range(33):
        segment, _ = files.scanned(base)
        files.save_index(segment)
        segments.append(segment)
    assert [*files._indexes] == [*range(1, 33)]
    index = files.index(segments[1])
    files.index(segments[0])
    assert [*files._indexes] == [*range(2, 33), 0]
    assert files.index(segments[1]) is not index
    assert all(segment.index is None for segment in segments)


def test_a_segment_of_64_megabytes_is_followed_by_another() -> None:
    for size, count in (((64 << 20) - 1, 1), (64 << 20, 2)):
        log = FileLog(SimulatedDisk(Random(1)), Random(1))
        log.append([messages(1)])
        log.segments[-1].size = size
        log.append([messages(2)])
        assert len(log.segments) == count
    log.roll()
    log.roll()
    assert len(log.segments) == 3, "an empty one is not finished"


def test_after_a_damaged_end_offsets_go_on_far_beyond() -> None:
    disk, log = filled(2)
    end = log.end
    name = log.segments[-1].file
    disk.flip(name, 8 * (disk.size(name) - 3))
    found = opened(disk)
    assert found.end == end - 1 + (1 << 32)
    assert found.segments[-1].base == found.end
    assert opened(SimulatedDisk(Random(1))).end == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"x", framed(b"{"), framed(b"[]"), framed(orjson.dumps([2, "id", 99, []])),
     framed(orjson.dumps([1, "id", 99])),
     framed(orjson.dumps([1, "id", 99, [[1]]])),
     framed(orjson.dumps([1, "id", 99, [["o", 7, "t", "n", [[1]], 1.0, 0, 1]]]))],
)  # fmt: skip
def test_a_file_of_streams_that_is_wrong_counts_as_missing(content: bytes) -> None:
    disk, log = filled(4, 100)
    before = {stream: [*state.held] for stream, state in log.streams(everything)}
    disk.create("streams")
    disk.append("streams", content)
    found = opened(disk, 100)
    assert {stream: [*state.held] for stream, state in found.streams(everything)} == before
    assert sequences(found) == [1, 2, 3, 4]


def test_a_damaged_id_is_drawn_anew() -> None:
    for content, is_kept in ((framed(b"mine"), True), (b"", False), (b"x" * 40, False)):
        disk, _ = filled(1)
        disk.create("log.id")
        disk.append("log.id", content)
        assert (opened(disk).id == "mine") is is_kept


def test_names_that_are_no_segments_are_left_alone() -> None:
    disk, _ = filled(1)
    for name in ("readme.log", "x.index", "consumers"):
        disk.create(name)
    assert Segments(disk).bases() == [0]
    assert sequences(opened(disk)) == [1]


def test_200000_streams_are_remembered() -> None:
    streams = Streams()
    streams._states = dict.fromkeys(range(199_999))  # type: ignore[assignment, arg-type]  # others
    for number, forgotten in ((1, 0), (1, 0), (2, 1), (3, 2)):
        streams.note(Stream("o", 1, str(number)), "n", 1, 2, 1.0, 0)
        assert (streams.forgotten, len(streams)) == (forgotten, 199_999 + 1)
    assert 0 not in streams._states  # type: ignore[comparison-overlap]


def test_notes_are_undone_from_the_end_and_made_durable_from_the_beginning() -> None:
    streams = Streams()
    stream = Stream("o" * 16, 1, "t")
    records = [Record("o" * 16, "n", 1, "t", number, [b"x"], float(number), number) for number in (1, 2, 3, 4)]
    for record in records[:3]:
        assert streams.take(record) == [record]
    assert streams.take(records[1]) == []
    assert streams.noted == 3
    streams.undo(2)
    state = streams.state(stream)
    assert state is not None
    assert ([*state.held], [*state.durable], streams.noted) == ([(1, 3)], [], 2)
    streams.synced(1)
    assert ([*state.durable], streams.noted) == ([(1, 2)], 2)
    streams.synced(1)
    assert [*state.durable] == [(1, 2)], "an earlier sync that ends later makes nothing else durable"
    streams.take(records[3])
    streams.synced()
    assert ([*state.durable], streams.noted, state.last_at, state.clock) == ([(1, 3), (4, 5)], 3, 4.0, 4)
    streams.removed(stream, 3)
    streams.removed(stream, 2)
    streams.lose(stream, 2, 3)
    assert (state.first_kept, [*state.held], [*state.durable]) == (3, [(1, 2), (4, 5)], [(1, 2), (4, 5)])
    (found,) = streams.missing(Record("o" * 16, "n", 1, "t", 1, [b"1", b"2", b"3"]))[:1]
    assert (found.sequence, found.payloads) == (2, [b"2", b"3"])


def test_a_sync_is_due_after_five_milliseconds_or_a_megabyte() -> None:
    commit = GroupCommit()
    assert commit.deadline > 1e9
    commit.stored(1.0, (1 << 20) - 1, False)
    assert commit.deadline == 1.005
    commit.stored(1.004, 0, False)
    assert commit.deadline == 1.005
    commit.stored(1.004, 1, False)
    assert commit.deadline < 0.0
    commit.synced()
    assert commit.deadline > 1e9
    commit.stored(2.0, (1 << 20) - 1, False)
    assert commit.deadline == 2.005
    commit.stored(2.0, 0, True)
    assert commit.deadline < 0.0


def test_a_journal_grows_by_a_quarter_of_a_megabyte_beyond_twice_its_snapshot() -> None:
    for growth in (2, 5):
        disk, snapshots = SimulatedDisk(Random(1)), Counter[str]()

        def snapshot(counts: Counter[str] = snapshots) -> list[bytes]:
            counts["made"] += 1
            return [bytes(1000 - 13)]

        journal = Journal(disk, "votes", snapshot, growth=growth) if growth > 2 else Journal(disk, "votes", snapshot)
        journal.sync()
        assert not snapshots["made"], "there is nothing to store"
        journal.add(b"first")
        assert journal.is_dirty
        journal.sync()
        assert (snapshots["made"], disk.size("votes"), journal.is_dirty) == (1, 1000, False)
        room = (growth - 1) * 1000 + (256 << 10)
        journal.add(bytes(room - 13))
        journal.sync()
        assert (snapshots["made"], disk.size("votes")) == (1, 1000 + room)
        journal.add(b"")
        journal.sync()
        assert (snapshots["made"], disk.size("votes")) == (2, 1000)
        assert journal.load() == [bytes(987)]


def test_a_journal_says_what_it_cannot_store() -> None:
    disk = SimulatedDisk(Random(1))
    journal = Journal(disk, "votes", lambda: [b"all"], "the votes")
    journal.add(b"1")
    journal.sync()
    disk.is_full = True
    journal.add(b"2" * 100)
    size = disk.size("votes")
    with pytest.raises(StorageFullError, match="this keeper stands aside"):
        journal.sync()
    assert (disk.size("votes"), journal.is_dirty, journal.failure) == (size, True, "")
    disk.is_full = False
    journal.sync()
    assert journal.load() == [b"all", b"2" * 100]
    disk.fails_to_sync = True
    journal.add(b"3")
    for _ in range(2):
        with pytest.raises(StorageError, match="the votes cannot be stored: "):
            journal.sync()
    nameless = Journal(disk, "votes", list)
    nameless.add(b"4")
    disk.fails_to_sync = True
    with pytest.raises(StorageError, match=r"^votes cannot be stored: "):
        nameless.sync()
    assert Journal(SimulatedDisk(Random(1)), "votes", list).load() == []


@pytest.mark.parametrize("is_full", [True, False])
def test_a_disk_that_stores_nothing_lets_no_journal_grow_in_memory(is_full: bool) -> None:
    disk, state = SimulatedDisk(Random(1)), [b"all"]
    journal = Journal(disk, "votes", lambda: state)
    journal.add(b"")
    journal.sync()
    disk.is_full, disk.fails_to_sync = is_full, not is_full
    tracemalloc.start()
    for number in range(100):
        state = [b"state %d" % number]
        journal.add(bytes(64 << 10))
        with suppress(StorageError):
            journal.sync()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1 << 20
    disk.is_full = disk.fails_to_sync = False
    assert journal.is_dirty
    if is_full:
        journal.sync()
        assert (journal.load(), journal.is_dirty) == ([b"state 99"], False)


def test_what_is_before_the_damage_of_a_journal_is_found() -> None:
    entries = [b"one", b"two", b"three"]
    whole = b"".join(map(framed, entries))
    first = framed_size(b"one")
    for flipped, found in ((0, []), (first - 2, []), (first, [b"one"]), (first + 13, [b"one"])):
        disk = SimulatedDisk(Random(1))
        disk.create("votes")
        disk.append("votes", whole)
        disk.flip("votes", 8 * flipped)
        journal = Journal(disk, "votes", list)
        assert (journal.load(), journal.damaged) == (found, True)
    for end in range(len(whole)):
        disk = SimulatedDisk(Random(1))
        disk.create("votes")
        disk.append("votes", whole[:end])
        journal = Journal(disk, "votes", list)
        assert journal.load() == entries[: (end >= first) + (end >= 2 * first)]
        assert not journal.damaged


def test_records_in_files_as_they_are_written() -> None:
    assert framed(b"abc") == b"\x03\x00\x00\x00\xc2A$5" + framed(b"abc")[8:12] + b"abc\xa5"
    assert framed_size(b"abc") == len(framed(b"abc")) == 16
    data = framed(b"abc") + framed(b"")
    payloads, size = scan(data + b"\x00" * 30)
    assert ([bytes(one) for one in payloads], size) == ([b"abc", b""], 29)
    with pytest.raises(CorruptStorageError, match=f"the record at byte 16 of {len(data) + 1} has a damaged header"):
        scan(framed(b"abc") + b"\x01" + data[17:] + b"x")
    broken = bytearray(data)
    broken[13] ^= 1
    with pytest.raises(CorruptStorageError, match="the record at byte 0 of 29 is damaged"):
        scan(bytes(broken))
    salvage = Salvage(bytes(broken) + b"\x05")
    assert [(at, bytes(payload)) for at, payload in salvage] == [(16, b"")]
    assert (salvage.damaged, salvage.size, salvage.is_torn) == ([(0, 16)], 29, True)
    broken = bytearray(data + framed(b"end"))
    broken[0] ^= 1
    salvage = Salvage(bytes(broken))
    assert [(at, bytes(payload)) for at, payload in salvage] == [(16, b""), (29, b"end")]
    assert (salvage.damaged, salvage.is_torn) == ([(0, 16)], False)


def test_a_record_has_a_million_messages_at_most_and_lengths_that_fit() -> None:
    record = Record("o" * 16, "n", 1, "t", 1, [b""] * 3)
    good = RecordEncoder().encode(record, 9)
    decoder = RecordDecoder()
    assert decoder.decode(good) == (9, record)
    head = [*HEAD.unpack_from(good)]
    for place, value, error in (
        (4, (1 << 20) + 1, "1048577 messages"), (5, 1, "cannot have 3 payloads of 1"),
        (5, 0xFFFF_FFFF, "cannot have 3 payloads"),
        (7, 2, "malformed"),
    ):  # fmt: skip
        wrong = [*head[:place], value, *head[place + 1 :]]
        with pytest.raises(CorruptStorageError, match=error):
            decoder.decode(HEAD.pack(*wrong) + good[HEAD.size :])
    most = [*head[:4], 1 << 20, *head[5:]]
    assert len(decoder.decode(HEAD.pack(*most) + good[HEAD.size :])[1].payloads) == 1 << 20
    with pytest.raises(CorruptStorageError, match=f"a record of {HEAD.size - 1} bytes is too short"):
        decoder.topic(good[: HEAD.size - 1])
    assert HEADER.size == 12


def test_a_log_in_memory_keeps_64_megabytes() -> None:
    log = MemoryLog("log")
    log.append([Record("o" * 16, "n", 1, "t", 1, [bytes(32 << 20)])])
    log.append([Record("o" * 16, "n", 1, "t", 2, [bytes(32 << 20)])])
    assert (log.first, log.size) == (0, 64 << 20)
    log.append([Record("o" * 16, "n", 1, "t", 3, [b"x"])])
    assert (log.first, log.size) == (1, (32 << 20) + 1)


def test_a_reading_gives_a_megabyte_unless_told_otherwise() -> None:
    for log in (MemoryLog("log"), FileLog(SimulatedDisk(Random(1)), Random(1))):
        for number, size in enumerate((1 << 19, (1 << 19) - 1, 1, 1), 1):
            log.append([Record("o" * 16, "n", 1, "t", number, [bytes(size)])])
        log.sync()
        reading = log.read(everything, 0)
        assert (len(reading.records), reading.next) == (3, 3)


def test_a_walk_in_memory_looks_at_4096_records() -> None:
    log = MemoryLog("log", syncs=False)
    log.append([Record("o" * 16, "n", 1, "t", number, [b""]) for number in range(1, 4099)])
    log.append([Record("o" * 16, "n", 1, "u", 1, [b"x"])])
    log.sync()
    stops = [0]
    while stops[-1] < log.durable:
        stops.append(log.walk({"u"}, stops[-1], 1 << 20, 1 << 20).next)
    assert [stop - start for start, stop in pairwise(stops)] == [4096, 3]
