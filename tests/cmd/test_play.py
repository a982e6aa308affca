"""`glue play`: what was recorded once is heard again, by whoever is there now."""

from __future__ import annotations

import signal
from argparse import Namespace
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from glue.cmd import play
from glue.cmd.played import Playable
from glue.recording import McapReader, RecordedMessage
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from tests.cmd.conftest import Start
from tests.spark.truth import Taps
from tests.support.lan import PATIENCE, Lan

THERE = ("--trace-network-id", "1")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Two publishers on a bad network, captured where they were heard: 25 messages in a tenth of a second each."""
    world = World(9)
    kitchen, hall, ear = (world.endpoint(name) for name in ("kitchen", "hall", "ear"))
    taps = Taps(
        world, {one.name: one.host for one in (kitchen, hall, ear)}, dict.fromkeys(("kitchen", "hall", "ear"), Clock())
    )
    ear.subscribe("#")
    world.run(1.0)
    world.network.set_conditions(Conditions(loss=0.1, duplicate=0.1, jitter=0.002))
    for number in range(25):
        world.after(0.004 * number, partial(kitchen.publish, "home/lamp", {"number": number}, type="state"))
        world.after(0.004 * number, partial(hall.publish, "home/door", bytes(100 * number), retain=True))
    world.run(5.0)
    (path,) = taps.write(tmp_path, ["ear"])
    return str(path)


def test_each_message_is_published_again_once_and_in_order(trace: str, start: Start) -> None:
    listener = start("endpoint", "--subscribe", "home/#", "--count", "50")
    listener.expect("started")
    player = start("play", trace, *THERE, "--wait-for", "1", "--endpoint-name", "again")
    assert listener.finish() == 0
    assert player.finish() == 0, player.errors()
    told = player.events[-1]
    assert (told["event"], told["messages"], told["left_out"]) == ("played", 50, 0)
    heard = [event for event in listener.events if event["event"] == "message"]
    assert {event["publisher"] for event in heard} == {"again"}
    lamps = [event for event in heard if event["topic"] == "home/lamp"]
    assert [event["payload"] for event in lamps] == [{"number": number} for number in range(25)]
    assert {event["type"] for event in lamps} == {"state"}
    doors = [event for event in heard if event["topic"] == "home/door"]
    assert [len(event["payload"]) for event in doors] == [100 * number for number in range(25)]


def test_only_what_is_asked_for_is_played(trace: str, start: Start) -> None:
    by_topic = start("play", trace, *THERE, "--topics", "home/door", "--speed", "0")
    by_publisher = start("play", trace, *THERE, "--publisher", "kitchen", "--speed", "100")
    for player in (by_topic, by_publisher):
        assert player.finish() == 0, player.errors()
        assert (player.events[-1]["messages"], player.events[-1]["left_out"]) == (25, 25)


def test_ctrl_c_ends_it_in_the_middle(trace: str, start: Start) -> None:
    player = start("play", trace, *THERE, "--speed", "0.001")
    player.expect("progress")
    player.process.send_signal(signal.SIGINT)
    assert player.finish() == 0, player.errors()
    assert player.events[-1]["messages"] < 50


def test_a_recording_of_topics_is_played_byte_for_byte(
    lan: Lan, environment: dict[str, str], start: Start, tmp_path: Path
) -> None:
    first, again = tmp_path / "first.mcap", tmp_path / "again.mcap"
    address, number = environment["GLUE_MULTICAST_ADDRESS"], int(environment["GLUE_NETWORK_ID"])
    endpoint = lan.start("kitchen", multicast_address=address, network_id=number)
    with endpoint.record("home/#", first) as recorder:
        for number in range(20):
            endpoint.publish("home/lamp", {"number": number, "ü": [1.5, None]}, properties={"unit": "lux"})
            endpoint.publish("home/door", bytes(10 * number), retain=True)
            endpoint.publish("home/map", {"number": number}, codec="msgpack")
        assert endpoint._running().wait_until(lambda: recorder.messages == 60, PATIENCE)
    with endpoint.record("home/#", again) as recorder:
        player = start("play", str(first), "--wait-for", "1", "--speed", "0", "--loop", "2")
        assert player.finish() == 0, player.errors()
        assert player.events[-1]["messages"] == 120
        # and the retained value of the first publisher
        assert endpoint._running().wait_until(lambda: recorder.messages == 121, PATIENCE)
    found = [
        [
            (one.topic, one.payload, one.json, one.codec, one.retained, dict(one.properties))
            for one in messages(path)
            if (one.publisher == "kitchen") is (path == first)
        ]
        for path in (first, again)
    ]
    for topic in ("home/lamp", "home/door", "home/map"):
        was, now = ([one for one in side if one[0] == topic] for side in found)
        assert now == was * 2


def messages(path: Path) -> list[RecordedMessage]:
    reader = McapReader(path)
    try:
        return [*reader.messages()]
    finally:
        reader.close()


def test_the_longest_delay_of_a_message_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, left = [5000.0], list[float]()

    def publish(*arguments: object, **options: object) -> None:
        left.append(now[0])
        now[0] += 0.5 if len(left) == 2 else 0.0  # the second one waits for slow receivers

    def pause(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("glue.cmd.common.pause", pause)
    monkeypatch.setattr("glue.cmd.play.publish", publish)
    source = MagicMock(share=0.5)
    source.__iter__.return_value = [
        Playable(second * 10**9, "t", b"1", True, None, {}, None, False, None, True) for second in (7, 8, 9)
    ]
    played = play.Played()
    play.play(Mock(), source, Namespace(speed=2.0, wait_for=0), played, Mock())
    assert left == [5000.0, 5000.5, 5001.0]
    assert (played.messages, played.seconds, played.behind) == (3, 2.0, 0.5)


def test_a_trace_of_another_network_is_told(trace: str, start: Start) -> None:
    player = start("play", trace)
    assert player.finish() == 1
    assert player.events[-1]["event"] == "nothing"


def test_what_cannot_be_played_is_told(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("nothing of the kind")
    for arguments, why in (
        ([str(tmp_path / "text")], "neither pcap nor pcapng"), ([str(tmp_path / "none")], "No such file"),
        ([trace, "--topics", "a#"], "must be a whole level"), ([trace, "--topics", "$glue/#"], "are for glue"),
    ):  # fmt: skip
        assert play.main(arguments) != 0
        assert why in capsys.readouterr().err
