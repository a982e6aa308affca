"""What fuzzing found, each as a test of its own: what a decoder makes of content with a right checksum."""

from __future__ import annotations

from math import inf, nan
from random import Random
from typing import Any

import orjson
import pytest

from glue.capture.opened import Opener
from glue.consumers.positions import Positions
from glue.errors import CorruptStorageError
from glue.model.consensus import LogEntry, Vital
from glue.model.consensus.items import Kind
from glue.model.storage import FileStorage
from glue.model.storage.payloads import base_payload, read_base, read_snapshot, read_write, write_payload
from glue.security import AES_GCM
from glue.storage.file_log import FileLog
from glue.storage.framing import record
from glue.storage.records import HEAD, RecordDecoder, RecordEncoder
from glue.storage.segment import SegmentIndex, read_summary
from tests.fuzz.targets.storage import disk
from tests.security.pair import KEY
from tests.storage.records import messages

VITAL = Vital("life", "group", 3, "peer", (1, "a"), (1, "a"), b"value")
WRITE = write_payload(VITAL, [LogEntry(1, 1, Kind.COMMAND, b"data"), LogEntry(2, 1, Kind.COMMAND, b"more")])


@pytest.mark.parametrize("size", [0, 1, 3, 17, 30, 60, len(WRITE) - 10, len(WRITE) - 1])
def test_a_write_that_is_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptStorageError):
        read_write(memoryview(WRITE[:size]))


def test_a_write_with_bytes_behind_it_or_of_another_kind_is_corrupt() -> None:
    for payload in (WRITE + b"x", b"X" + WRITE[1:], WRITE[:17] + b"?" + WRITE[18:]):
        with pytest.raises(CorruptStorageError):
            read_write(memoryview(payload))


def test_a_base_and_a_snapshot_that_are_cut_short_are_corrupt() -> None:
    for read in (read_base, read_snapshot):
        with pytest.raises(CorruptStorageError):
            read(memoryview(b"B123"))
    with pytest.raises(CorruptStorageError):
        read_snapshot(memoryview(b"S" + bytes(20) + b"no configuration"))


def test_a_replica_with_a_malformed_log_begins_anew() -> None:
    storage = FileStorage(disk(log=record(base_payload((0, 0))) + record(WRITE[:40])), Random(1))
    with pytest.raises(CorruptStorageError):
        storage.load()
    assert not storage.begin_anew().entries


@pytest.mark.parametrize("summary", [[1, 2], 5, None, [1, 2, 3, 4, 5, 6]])
def test_the_summary_of_an_index_of_another_form_is_corrupt(summary: object) -> None:
    with pytest.raises(CorruptStorageError):
        read_summary(record(orjson.dumps(summary)))


@pytest.mark.parametrize("details", [[], 5, [[], [], [], [1], []], [[1], [], [], [], []], [[], [], [], [], [[1] * 7]]])
def test_the_details_of_an_index_of_another_form_are_corrupt(details: object) -> None:
    with pytest.raises(CorruptStorageError):
        SegmentIndex.decode(record(b"[]") + record(orjson.dumps(details)))


@pytest.mark.parametrize("entry", [b"no JSON", b"5", b"[]", b'{"id":["a"],"state":{}}'])
def test_positions_up_to_a_malformed_entry_are_kept(entry: bytes) -> None:
    state = {"position": [5, []], "reach": 9, "about": {}}
    entries = [orjson.dumps({"log": "L"}), orjson.dumps({"id": "a", "state": state}), entry]
    opened = Positions(disk(consumers=b"".join(map(record, entries))), "L")
    assert [*opened.stored] == ["a"]
    assert opened.damaged


@pytest.mark.parametrize("description", [b"5", b"null", b"[]", b'"text"', b"{}"])
def test_a_record_with_another_description_is_corrupt(description: bytes) -> None:
    encoded = RecordEncoder().encode(messages(size=8, topic="a"))
    size = len(encoded) - HEAD.size - 8  # of the description, before one payload of eight bytes
    malformed = description.ljust(size) if len(description) <= size else description
    with pytest.raises(CorruptStorageError):
        RecordDecoder().decode(encoded[: HEAD.size] + malformed + encoded[-8:])


@pytest.mark.parametrize(
    "facts",
    [{"term": "3"}, {"term": -1}, {"term": True}, {"term": None}, {"promised": ("1", "a")}, {"accepted": (1, 2)},
     {"promised": (1, "a", 2)}, {"life": 5}, {"group": None}, {"vote": []}],
)  # fmt: skip
def test_vital_facts_of_another_type_are_corrupt(facts: dict[str, Any]) -> None:
    assert read_write(memoryview(write_payload(VITAL, []))) == (VITAL, [])
    with pytest.raises(CorruptStorageError):
        read_write(memoryview(write_payload(VITAL._replace(**facts), [])))


@pytest.mark.parametrize(
    ("offset", "sequence", "at"),
    [(1 << 62, 1, 1.0), (0, 1 << 62, 1.0), (0, 2**64 - 1, 1.0), (0, 1, inf), (0, 1, nan)],
)
def test_a_record_whose_numbers_leave_none_for_what_follows_is_damage(offset: int, sequence: int, at: float) -> None:
    good, bad = messages((1 << 62) - 1), messages()
    bad.sequence, bad.published_at = sequence, at
    encoder = RecordEncoder()
    whole = encoder.encode(good, (1 << 62) - 1)
    assert RecordDecoder().decode(whole)[1].sequence == (1 << 62) - 1
    with pytest.raises(CorruptStorageError):
        RecordDecoder().decode(encoder.encode(bad, offset))
    directory = disk(**{f"{0:016x}.log": record(encoder.encode(bad, offset)), "log.id": record(b"0" * 16)})
    for _ in range(2):  # what is left can be opened again
        log = FileLog(directory, Random(1), 1 << 16)
        log.append([messages(100)])
        log.sync()
        log.close()


SAVED = ["o", 1, "t", "n", [[1, 2]], 1.0, 0, 1]
WRONG = (
    (0, 5),
    (1, None),
    (1, "1"),
    (2, 5),
    (3, 5),
    (4, None),
    (4, [[2]]),
    (5, None),
    (5, "x"),
    (6, None),
    (6, "x"),
    (7, None),
)


@pytest.mark.parametrize(
    "saved",
    [[1, "0", "x", []], [1, "0", None, []], [1, "0", 3, 5],
     *([1, "0", 3, [[*SAVED[:at], wrong, *SAVED[at + 1 :]]]] for at, wrong in WRONG)],
)  # fmt: skip
def test_the_streams_of_a_log_of_another_form_are_counted_anew(saved: list[Any]) -> None:
    whole = RecordEncoder().encode(messages(topic="a"))
    files = {f"{0:016x}.log": record(whole), "log.id": record(b"0" * 16), "streams": record(orjson.dumps(saved))}
    log = FileLog(disk(**files), Random(1), 1 << 16)
    assert [stream.topic for stream, _ in log.streams(lambda _: True)] == ["a"]


def test_a_datagram_with_the_last_number_in_a_capture_is_not_opened() -> None:
    forged = bytes([AES_GCM.format, KEY.newest.id]) + b"\xff" * 60
    assert Opener(KEY).open(forged) is None
