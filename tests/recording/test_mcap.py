"""MCAP files: what is written is read again, by glue and by the format's own library, also from damaged files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcap.reader import make_reader

from glue.recording import McapReader, McapWriter, RecordedMessage
from glue.recording.writer import CHUNK_SIZE, LOOK_AGAIN, Schema

SECOND = 10**9


def message(number: int, topic: str = "home/lamp", **more: object) -> RecordedMessage:
    base = RecordedMessage(
        number * SECOND, number * SECOND - 5, topic, number, b"%d" % number, True,
        publisher="kitchen", publisher_id="a" * 16, incarnation=7,
    )  # fmt: skip
    return base._replace(**more)  # type: ignore[arg-type]


VARIETY = [
    message(1),
    message(2, payload=b"\x00\xff", json=False),
    message(3, payload=b"\x81\xa1x\x01", json=False, codec=1),
    message(4, payload=b"own", json=False, codec="own codec"),
    message(5, type="celsius", retained=True),
    message(6, properties={"content-type": "text/csv", "ü": ""}),
    message(7, topic="a//ü/+", publisher="", publisher_id="", incarnation=0),
    message(8, payload=bytes(300_000), json=False),
    message(9, payload=b""),
]


def written(path: Path, messages: list[RecordedMessage]) -> Path:
    writer = McapWriter(path)
    writer.write(messages)
    writer.close()
    return path


def read(path: Path, start_ns: int | None = None) -> tuple[list[RecordedMessage], str | None]:
    reader = McapReader(path)
    try:
        return [*reader.messages(start_ns)], reader.fault
    finally:
        reader.close()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.mcap", VARIETY)) == (VARIETY, None)
    assert read(tmp_path / "a.mcap", 8 * SECOND) == (VARIETY[7:], None)


def test_other_readers_find_topics_encodings_and_times(tmp_path: Path) -> None:
    written(tmp_path / "a.mcap", VARIETY)
    with open(tmp_path / "a.mcap", "rb") as file:
        found = [
            (channel.topic, channel.message_encoding, one.log_time, one.publish_time, one.sequence, one.data)
            for _, channel, one in make_reader(file).iter_messages()
        ]
    assert [(topic, *rest) for topic, _, *rest in found] == [
        (one.topic, one.time_ns, one.published_ns, one.sequence, one.payload) for one in VARIETY
    ]
    octets = "application/octet-stream"
    assert [encoding for _, encoding, *_ in found] == [
        "json", octets, "msgpack", "own codec", "json", "json", "json", octets, "json",
    ]  # fmt: skip


def test_a_schema_that_becomes_known_later_is_recorded_from_then_on(tmp_path: Path) -> None:
    schema = Schema("Lamp", b'{"type":"integer"}')
    known: list[Schema] = []
    writer = McapWriter(tmp_path / "a.mcap", lambda one: known[0] if known else None)
    writer.write([message(1)])
    known.append(schema)
    writer.write([message(1), message(1)._replace(time_ns=2 * SECOND + LOOK_AGAIN), message(5)])
    writer.close()
    with open(tmp_path / "a.mcap", "rb") as file:
        schemas = [found for found, _, _ in make_reader(file).iter_messages()]
    assert [found and (found.name, found.encoding, json.loads(found.data)) for found in schemas] == [
        None, None, ("Lamp", "jsonschema", {"type": "integer"}), ("Lamp", "jsonschema", {"type": "integer"}),
    ]  # fmt: skip


def test_a_recorder_that_was_killed_leaves_all_but_the_last_part(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    many = [message(number, payload=b"%064d" % number) for number in range(1, 5001)]
    writer = McapWriter(path)
    writer.write(many)
    killed = path.read_bytes()
    writer.close()
    path.write_bytes(killed)
    found, fault = read(path)
    assert found == many[: len(found)]
    assert (len(many) - len(found)) * 64 <= CHUNK_SIZE
    assert fault is not None


def test_damage_is_told_and_what_comes_before_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mcap", [message(number, payload=b"%064d" % number) for number in range(1, 2001)])
    whole = path.read_bytes()
    for place in range(8, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        found, fault = read(path)
        assert fault is not None or len(found) == 2000
        assert all(one.payload == b"%064d" % number for number, one in enumerate(found, 1)) or fault is not None
    path.write_bytes(whole[: len(whole) // 2])
    found, fault = read(path)
    assert found == [message(number, payload=b"%064d" % number) for number in range(1, len(found) + 1)]
    assert fault is not None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing_into_a_recording(tmp_path: Path) -> None:
    writer = McapWriter(tmp_path / "a.mcap")
    writer.write([message(1)])
    if not (child := os.fork()):
        writer.abandon()
        writer.close()  # the index, as at the child's end
        os._exit(0)
    os.waitpid(child, 0)
    writer.write([message(2)])
    writer.close()
    assert read(tmp_path / "a.mcap") == ([message(1), message(2)], None)


def test_messages_that_need_too_many_channels_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.recording.writer.CHANNELS", 2)
    writer = McapWriter(tmp_path / "a.mcap")
    writer.write([message(number, topic=f"t/{number}") for number in range(1, 5)])
    writer.write([message(9, topic="t/1")])
    writer.close()
    assert (writer.messages, writer.left_out) == (3, 2)
    assert [one.topic for one in read(tmp_path / "a.mcap")[0]] == ["t/1", "t/2", "t/1"]
