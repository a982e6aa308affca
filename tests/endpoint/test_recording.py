"""`Endpoint.record`: topics in an MCAP file, on threads and on a loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from mcap.reader import make_reader

import glue
import glue.aio
from glue.endpoint.secrets import write_secret
from glue.recording import McapReader, RecordedMessage
from glue.security import new_key
from tests.support.lan import PATIENCE, Lan, private_network


@dataclass
class Lamp:
    on: bool


def recorded(path: Path) -> list[RecordedMessage]:
    reader = McapReader(path)
    try:
        return [*reader.messages()]
    finally:
        reader.close()


def test_what_is_published_elsewhere_and_here_is_recorded_with_its_schema(lan: Lan, tmp_path: Path) -> None:
    path = tmp_path / "day.mcap"
    recorder_end, publisher = lan.start("recorder"), lan.start("publisher")
    lamps = publisher.topic("home/lamp", Lamp)
    publisher.topic("other/lamp", Lamp).publish(Lamp(False))  # the schema is there
    with recorder_end.record("home/#", path) as recorder:
        assert publisher.wait_for_subscribers("home/lamp", 1, PATIENCE)
        assert recorder_end._running().wait_until(lambda: bool(recorder._schemas._documents), PATIENCE)
        for _ in range(20):
            lamps.publish(Lamp(True))
        publisher.publish("home/raw", b"\x00\x01", properties={"unit": "lux"})
        publisher.publish("elsewhere", 1)
        recorder_end.publish("home/own", [1, None], retain=True)
        assert recorder_end._running().wait_until(lambda: recorder.messages == 22, PATIENCE)
        assert recorder.failure == ""
    found = recorded(path)
    assert [one.payload for one in found if one.topic == "home/lamp"] == [b'{"on":true}'] * 20
    (raw,) = [one for one in found if one.topic == "home/raw"]
    assert (raw.payload, raw.json, raw.properties, raw.publisher) == (b"\0\1", False, {"unit": "lux"}, "publisher")
    (own,) = [one for one in found if one.topic == "home/own"]
    assert (own.payload, own.json, own.publisher, own.retained) == (b"[1,null]", True, "recorder", False)
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert [schema.name for schema in summary.schemas.values()] == ["Lamp"]
    assert recorder_end.accounting.waiting == 0


def test_with_a_key_the_owner_alone_may_read_a_recording(lan: Lan, tmp_path: Path) -> None:
    write_secret(tmp_path / "plant.key", new_key(Random(3).randbytes).to_text())
    modes = []
    for number, settings in enumerate(({}, {"key": tmp_path / "plant.key"})):
        with lan.start(f"kitchen{number}", **settings) as kitchen:
            path = tmp_path / f"day{number}.mcap"
            kitchen.record("home/#", path).close()
            modes.append(path.stat().st_mode & 0o077)
    assert modes[0]
    assert not modes[1]


def test_mistakes_are_refused(lan: Lan, tmp_path: Path) -> None:
    endpoint = lan.start("a")
    with pytest.raises(glue.StorageError, match="No such file"):
        endpoint.record("#", tmp_path / "missing" / "a.mcap")
    for pattern in ("a#", "$glue/#"):
        with pytest.raises(glue.TopicError):
            endpoint.record(pattern, tmp_path / "a.mcap")
    assert not (tmp_path / "a.mcap").exists()


def test_a_disk_that_fails_ends_the_recording_and_nothing_else(
    lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = lan.start("a")
    recorder = endpoint.record("t", tmp_path / "a.mcap")

    def fail(messages: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder._thread.writer, "write", fail)
    heard: list[object] = []
    endpoint.subscribe("t", lambda message: heard.append(message.payload))
    for number in range(5):
        endpoint.publish("t", number)
    assert endpoint._running().wait_until(lambda: heard == [*range(5)] and recorder.failure != "", PATIENCE)
    assert "No space left" in recorder.failure
    recorder.close()
    assert endpoint.accounting.waiting == 0


def test_a_loop_records_and_closing_the_endpoint_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"

    async def main() -> None:
        async with glue.aio.Endpoint("a", **private_network()) as endpoint:
            recorder = endpoint.record("t", path)
            for number in range(10):
                await endpoint.publish("t", number)
            async with asyncio.timeout(PATIENCE):
                while recorder.messages < 10:
                    await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [one.payload for one in recorded(path)] == [b"%d" % number for number in range(10)]
