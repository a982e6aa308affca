"""Channels of recordings: what makes one, what it tells, what is read of it, and how many a file takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader
from mcap.writer import Writer

from glue.errors import MissingExtraError
from glue.recording import McapReader, McapWriter, RecordedMessage, writer
from glue.recording.channels import described, encoding_of, metadata_of, missing_extra
from glue.recording.reader import is_mcap
from glue.recording.writer import LOOK_AGAIN, Schema
from tests.recording.test_mcap import SECOND, message, read, written

PLAIN = RecordedMessage(1, 1, "t", 1, b"1")


@pytest.mark.parametrize(("changed", "encoding"), [
    ({"json": True}, "json"), ({}, "application/octet-stream"), ({"codec": 1}, "msgpack"), ({"codec": 2}, "cbor"),
    ({"codec": 3}, "3"), ({"codec": "own"}, "own"),
])  # fmt: skip
def test_a_channel_names_the_encoding_of_its_messages(changed: dict[str, Any], encoding: str) -> None:
    one = PLAIN._replace(**changed)
    assert encoding_of(one) == encoding
    back = described("t", encoding, metadata_of(one))
    assert (back.json, back.codec) == (one.json, one.codec)


def test_a_channel_tells_only_what_is_set() -> None:
    assert metadata_of(PLAIN) == {}
    one = PLAIN._replace(
        publisher="hall", publisher_id="h", incarnation=7, type="T", codec="own", retained=True, properties={"a": "ü"}
    )
    assert metadata_of(one) == {
        "publisher": "hall", "publisher_id": "h", "incarnation": "7", "type": "T", "codec": '"own"', "retained": "1",
        "properties": '{"a":"ü"}',
    }  # fmt: skip
    assert metadata_of(PLAIN._replace(codec=3)) == {"codec": "3"}
    empty = one._replace(time_ns=0, published_ns=0, sequence=0, payload=b"")
    assert described("t", "own", metadata_of(one)) == empty
    assert described("t", "raw", {}) == PLAIN._replace(time_ns=0, published_ns=0, sequence=0, payload=b"")


@pytest.mark.parametrize("metadata", [
    {"codec": "{"}, {"codec": "0"}, {"codec": "[1]"}, {"incarnation": "-1"}, {"incarnation": "٣"},
    {"incarnation": ""}, {"properties": "{"}, {"properties": "[]"}, {"properties": '{"a":1}'}, {"retained": "0"},
    {"retained": "true"}, {"type": ""}, {"other": "x"},
])  # fmt: skip
def test_what_another_program_wrote_differently_is_left_out(metadata: dict[str, str]) -> None:
    assert described("t", "raw", metadata) == described("t", "raw", {})
    assert described("t", "cbor", metadata).codec == 2


def test_only_the_package_itself_is_an_extra_that_is_missing() -> None:
    for name in ("mcap", "mcap.reader", None):
        found = missing_extra(ImportError("none", name=name))
        assert isinstance(found, MissingExtraError)
        assert "glue-lan[mcap]" in str(found)
    other = ImportError("none", name="zstandard")
    assert missing_extra(other) is other


DIFFERENT: list[dict[str, Any]] = [
    {}, {"topic": "u"}, {"publisher_id": "b"}, {"incarnation": 8}, {"json": False}, {"json": False, "codec": 1},
    {"type": "T"}, {"retained": True}, {"publisher": "attic"}, {"properties": {"a": "b"}},
]  # fmt: skip


def test_messages_that_are_told_differently_have_channels_of_their_own(tmp_path: Path) -> None:
    messages = [message(number, **changed) for number, changed in enumerate(DIFFERENT * 2, 1)]
    path = written(tmp_path / "a.mcap", messages)
    assert read(path) == (messages, None)
    with path.open("rb") as file:
        reader = make_reader(file)
        summary, header = reader.get_summary(), reader.get_header()
    assert summary is not None
    assert len(summary.channels) == len(DIFFERENT)
    assert (header.profile, header.library.split(";")[0]) == ("glue", "glue")
    assert (summary.statistics.message_count, summary.schemas) == (20, {})  # type: ignore[union-attr]


def test_messages_and_bytes_are_counted_and_numbers_fit(tmp_path: Path) -> None:
    told = McapWriter(tmp_path / "a.mcap")
    told.write([message(1, payload=b"abc", sequence=(1 << 32) - 1), message(2, payload=b"", sequence=(1 << 32) + 5)])
    told.write([message(3, payload=b"de", published_ns=-7)])
    assert (told.messages, told.bytes, told.left_out) == (3, 5, 0)
    told.close()
    assert [(one.sequence, one.published_ns) for one in read(tmp_path / "a.mcap")[0]] == [
        ((1 << 32) - 1, SECOND - 5), (5, 2 * SECOND - 5), (3, 0),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="closed"):
        told.write([message(4, payload=bytes(1 << 20))])


def test_a_schema_is_looked_for_once_a_second_until_it_is_known(tmp_path: Path) -> None:
    asked: list[int] = []

    def schema_of(one: RecordedMessage) -> Schema | None:
        asked.append(one.time_ns)
        return None if one.time_ns < 4 * LOOK_AGAIN else Schema("T", b"{}")

    told = McapWriter(tmp_path / "a.mcap", schema_of)
    start = 10**9 // 2
    times = [start, start + LOOK_AGAIN, start + LOOK_AGAIN + 1, start + 2 * LOOK_AGAIN + 1, start + 2 * LOOK_AGAIN + 2]
    times += [5 * LOOK_AGAIN, 9 * LOOK_AGAIN]
    told.write([message(1, time_ns=at) for at in times])
    told.write([message(1, topic="u", time_ns=5 * LOOK_AGAIN), message(1, topic="u", time_ns=9 * LOOK_AGAIN)])
    told.close()
    assert asked == [times[0], times[2], times[4], times[5], 5 * LOOK_AGAIN]
    with (tmp_path / "a.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert [(one.name, one.encoding, one.data) for one in summary.schemas.values()] == [("T", "jsonschema", b"{}")]
    assert [one.schema_id for one in summary.channels.values()] == [0, 1, 1]


def test_a_file_takes_only_so_many_schemas_and_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (writer.CHANNELS, writer.SCHEMAS, writer.CHUNK_SIZE) == (60_000, 4096, 65_536)
    monkeypatch.setattr(writer, "SCHEMAS", 2)
    monkeypatch.setattr(writer, "CHANNELS", 4)
    known: list[bool] = []
    told = McapWriter(
        tmp_path / "a.mcap", lambda one: None if one.topic == "t/0" and not known else Schema(one.topic, b"{}")
    )
    told.write([message(1, topic=f"t/{number}") for number in range(4)])
    known.append(True)
    told.write([message(5, topic="t/0"), message(6, topic="t/4"), message(7, topic="t/3")])
    told.close()
    assert (told.messages, told.left_out) == (6, 1)
    with (tmp_path / "a.mcap").open("rb") as file:
        found = [(channel.topic, one.log_time // SECOND, schema and schema.name)
                 for schema, channel, one in make_reader(file).iter_messages()]  # fmt: skip
    assert found == [
        ("t/0", 1, None), ("t/1", 1, "t/1"), ("t/2", 1, "t/2"), ("t/3", 1, None), ("t/0", 5, None), ("t/3", 7, None),
    ]  # fmt: skip


def test_a_file_is_replaced_and_opened_as_asked_and_closed_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, modes = tmp_path / "a.mcap", list[int]()
    path.write_bytes(b"x" * 10_000)

    def opener(name: str, flags: int) -> int:
        modes.append(flags)
        return os.open(name, flags, 0o600)

    told = McapWriter(path, opener=opener)
    told.write([message(1)])
    told.close()
    assert (len(modes), path.stat().st_mode & 0o777, read(path)[0]) == (1, 0o644, [message(1)])
    told = McapWriter(path)

    def fail(self: Writer) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Writer, "finish", fail)
    with pytest.raises(OSError, match="no space"):
        told.close()
    assert told._file.closed


# ----------------------------------------------------------------------------------------------- reading


def test_messages_come_in_the_order_of_time_and_as_often_as_they_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mcap", [message(number) for number in (3, 1, 2)])
    reader = McapReader(path)
    assert (reader.path, reader.start_ns, reader.stop_ns, reader.fault) == (str(path), SECOND, 3 * SECOND, None)
    for start, numbers in ((None, [1, 2, 3]), (2 * SECOND, [2, 3]), (2 * SECOND + 1, [3]), (4 * SECOND, [])):
        assert [one.sequence for one in reader.messages(start)] == numbers
    reader.close()
    assert reader._file.closed
    assert reader.fault is None


def test_a_file_without_an_index_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    told = McapWriter(path)
    told.write([message(number, payload=bytes(70_000), json=False) for number in (3, 1, 2, 4)])
    killed = path.read_bytes()  # zeros take little room, and are on the disk all the same
    told.close()
    path.write_bytes(killed)
    reader = McapReader(path)
    assert (reader.start_ns, reader.stop_ns) == (0, 0)
    assert reader.fault is not None
    assert reader.fault.startswith("no index, as of a recording that did not end: ")
    found = [[one.sequence for one in reader.messages(start)] for start in (None, 2 * SECOND)]
    reader.close()
    assert found == [[3, 1, 2, 4], [3, 2, 4]]
    assert reader.fault.startswith("a part is damaged, or the end is missing: ")


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mcap", [message(1)])
    assert is_mcap(path)
    for content in (b"", path.read_bytes()[:7], b"x" + path.read_bytes()[1:], b" " + path.read_bytes()):
        path.write_bytes(content)
        assert not is_mcap(path)
    with pytest.raises(OSError, match="No such file"):
        is_mcap(tmp_path / "none")
