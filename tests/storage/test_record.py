"""The encoded form of records: what was encoded is decoded, and wrong bytes raise one error."""

from __future__ import annotations

from random import Random

import orjson
import pytest

from glue.errors import CorruptStorageError
from glue.storage import JSON, RETAINED, Record, Stream
from glue.storage.records import HEAD, RecordDecoder, RecordEncoder
from tests.storage.records import LIFE, NAME, ORIGIN, messages

RECORDS = [
    messages(),
    messages(5, count=3),
    Record(ORIGIN, NAME, LIFE, "a", 1, [b""]),
    Record(ORIGIN, NAME, LIFE, "a", 1, [b"", b""]),
    Record(ORIGIN, NAME, LIFE, "a", 1, [b"", b"xx", b"y"], 1.25, -5, JSON | RETAINED, "kind", 3, {"k": "v"}),
    messages(topic="x" * 65_535),
    Record(ORIGIN, "ü" * 100, 2**52, "t/" * 1000, 2**60, [b"x" * 70_000], codec="own"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_decoded_as_it_was_encoded(record: Record) -> None:
    encoder, decoder = RecordEncoder(), RecordDecoder()
    for offset in (0, 2**62 - 1):
        data = encoder.encode(record, offset)
        assert decoder.decode(data) == (offset, record)
        assert decoder.decode(memoryview(data)) == (offset, record)
        assert decoder.topic(data) == record.topic


@pytest.mark.parametrize("record", RECORDS[:5])
def test_wrong_bytes_raise_one_error(record: Record) -> None:
    data, decoder, luck = RecordEncoder().encode(record), RecordDecoder(), Random(1)
    wrong = [data[:size] for size in range(len(data))] + [data + b"x"]
    for _ in range(500):
        changed = bytearray(data)
        changed[luck.randrange(len(changed))] ^= 1 << luck.randrange(8)
        wrong.append(bytes(changed))
    for one in wrong:
        try:
            decoder.decode(one)
        except CorruptStorageError:
            continue
        assert len(one) == len(data), "only a change in a number or a text may pass; a checksum is for that"


def test_a_part_of_a_record_has_the_numbers_of_its_messages() -> None:
    record = messages(10, count=5)
    assert record.part(1, 99) is record
    assert record.part(12, 14) == messages(12, count=2)
    assert (record.stop, record.stream) == (15, Stream(ORIGIN, LIFE, "pump/speed"))


def test_many_descriptions_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.storage.records.KNOWN_DESCRIPTIONS", 3)
    encoder, decoder = RecordEncoder(), RecordDecoder()
    for number in range(10):
        record = messages(topic=f"t/{number}")
        assert decoder.decode(encoder.encode(record))[1] == record
    assert len(encoder._known) <= 3
    assert len(decoder._known) <= 3


def test_a_record_of_which_no_more_is_known_is_read_like_that() -> None:
    _, record = RecordDecoder().decode(RecordEncoder().encode(Record(ORIGIN, NAME, 0, "a", 1, [b"x"])))
    assert (record.life, record.published_at, record.clock, record.flags) == (0, 0.0, 0, 0)
    assert (record.type, record.codec, record.properties) == (None, None, {})


@pytest.mark.parametrize(
    ("place", "right", "wrong"),
    [
        (0, ["", "ü"], [None, 7, ["o"]]), (1, [""], [None, 7]), (2, [0, 1 << 52], [-1, True, 1.0, "1", None]),
        (3, ["", "a/b"], [None, 7]), (4, [None, "", "kind"], [7, ["kind"]]),
        (5, [None, 0, 7, "own"], [True, 1.5, ["own"]]), (6, [{}, {"k": "v"}], [None, [], {"k": 7}, "k"]),
    ],
)  # fmt: skip
def test_each_part_of_a_description_has_its_type(place: int, right: list[object], wrong: list[object]) -> None:
    whole = RecordEncoder().encode(messages())
    head = [*HEAD.unpack_from(whole)]
    rest = whole[HEAD.size + head[-1] :]

    def read(value: object) -> Record:
        parts: list[object] = [ORIGIN, NAME, LIFE, "a", None, None, {}]
        parts[place] = value
        description = orjson.dumps(parts)
        return RecordDecoder().decode(HEAD.pack(*head[:-1], len(description)) + description + rest)[1]

    for value in right:
        record = read(value)
        fields = (record.origin, record.name, record.life, record.topic, record.type, record.codec, record.properties)
        assert fields[place] == value
    for value in wrong:
        with pytest.raises(CorruptStorageError, match="malformed"):
            read(value)
