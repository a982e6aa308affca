"""The command `python -m spark.replay` without Java: its options, what it prints, and what it runs for them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glue.settings import effective
from spark.analyze.verdict import clock
from spark.read import CaptureError
from spark.replay import __main__ as command
from spark.replay import offered as offers
from spark.replay.engine import DATAGRAM_SIZE, Captured, Replayed, replay
from spark.replay.offered import MESSAGE_LIMIT, offered
from tests.spark.captures import GOLDEN, pcap

NS = 10**9
AT_HALL = ("10.0.0.1", 5000)


def test_options_have_their_defaults() -> None:
    assert vars(command.parser().parse_args(["a.pcap", "b"])) == {
        "captures": ["a.pcap", "b"], "endpoint": None, "speed": 0.0, "what_if": [], "output": None, "master": None,
    }  # fmt: skip
    words = ["a", "--endpoint", "hall", "--speed=2", "--what-if", "x=1", "--what-if", "y=2", "--output=o", "--master=m"]
    assert vars(command.parser().parse_args(words)) == {
        "captures": ["a"], "endpoint": "hall", "speed": 2.0, "what_if": ["x=1", "y=2"], "output": "o", "master": "m",
    }  # fmt: skip
    with pytest.raises(SystemExit):
        command.parser().parse_args([])


def test_a_replay_keeps_the_pace_of_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    at, slept = SimpleNamespace(now=100.0), list[float]()
    time = SimpleNamespace(monotonic=lambda: at.now, sleep=slept.append)
    monkeypatch.setattr(command, "time", time)
    wait = command.pace(2.0)
    for captured, now in ((7 * NS, 100.0), (8 * NS, 100.1), (10 * NS, 105.0), (17 * NS, 101.0)):
        at.now = now
        wait(captured)
    assert slept == pytest.approx([0.0, 0.4, 0.0, 4.0])
    command.pace(0.0)(7 * NS)
    assert len(slept) == 4


def test_a_summary_tells_peers_messages_and_what_was_dropped() -> None:
    told = Replayed(
        [(1, "t", "b", 1, 3), (2, "s", "b", 1, 1), (3, "t", "a", 1, 1000), (4, "t", "b", 4, 2)],
        [(NS, "hall", "found"), (61 * NS, "hall", "expired")],
        {"topics": Counter(b=1, a=2, c=0), "network": Counter()},
    )
    assert command.summary(told) == [
        f"{clock(NS)}  hall: found",
        f"{clock(61 * NS)}  hall: expired",
        "        1 messages on s from b",
        "    1,000 messages on t from a",
        "        5 messages on t from b",
        "        2 a (topics)",
        "        1 b (topics)",
    ]
    assert told.message_count == 1006


def test_bars_are_as_long_as_their_share_of_the_largest() -> None:
    rows: list[dict[str, object]] = [{"lease": "2", "x.Y": "10", "expired": count} for count in (1000, 500, 0)]
    rows[1]["lease"] = "200"
    assert command.trade_off(rows, "expired") == [
        "lease 2, x.Y 10      1,000 expired  " + "█" * 40,
        "lease 200, x.Y 10      500 expired  " + "█" * 20,
        "lease 2, x.Y 10          0 expired  ",
    ]
    assert command.trade_off([{"a": "b", "n": 0}], "n") == ["a b        0 n  "]
    assert command.trade_off([{"a": "b", "n": 1}], "n") == ["a b        1 n  " + "█" * 40]


def test_outcomes_are_a_table_with_columns_to_the_right() -> None:
    rows = [
        {"lease": "2", "n": 12345, "p50_ms": 1234.5678, "none": None},
        {"lease": "30", "n": 1, "p50_ms": 0.5, "none": 2},
    ]
    assert command.lines_of(rows) == [
        "lease       n  p50_ms  none",
        "    2  12,345   1,235  None",
        "   30       1     0.5     2",
    ]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a command runs, with all that needs Java or captures played."""
    done: list[Any] = []

    def noted(name: str, result: Any) -> Any:
        def call(*given: Any) -> Any:
            done.append((name, *given))
            return result

        return call

    def run(name: str, master: str | None, work: Any, left: str) -> int:
        done.append((name, master, left))
        done.append(work(noted("connect", "spark")))
        return 3

    monkeypatch.setattr("spark.command.run", run)
    monkeypatch.setattr(command, "check", noted("check", None))
    monkeypatch.setattr(command, "inbound", noted("inbound", "datagrams"))
    monkeypatch.setattr(command, "offered", noted("offered", "offer"))
    monkeypatch.setattr(command, "what_if", noted("what_if", [{"a": "1", "expired": 1, "messages": 2}]))
    monkeypatch.setattr(command, "what_if_all", noted("what_if_all", [{"a": "1", "n": 5}]))
    monkeypatch.setattr(command, "replay", noted("replay", Replayed()))
    monkeypatch.setattr(command, "pace", lambda speed: f"pace {speed}")
    monkeypatch.setattr(command, "page", lambda rows: f"<p>é {rows}")
    return done


def test_an_endpoint_s_view_is_replayed_without_java(ran: list[Any]) -> None:
    assert command.main(["a", "b", "--endpoint", "hall", "--speed", "3"]) == 3
    settings = effective({"name": "hall"}, {})
    assert ran == [
        ("replay", None, "nothing was written"), ("check", ["a", "b"]), ("inbound", ["a", "b"], "hall"),
        ("replay", "datagrams", settings, "pace 3.0"), [],
    ]  # fmt: skip


def test_other_settings_of_an_endpoint_are_tried_and_compared(ran: list[Any]) -> None:
    command.main(["a", "--endpoint", "hall", "--what-if", "lease_intervals=2,3", "--master", "m"])
    sets = [{"lease_intervals": "2"}, {"lease_intervals": "3"}]
    bars = ["a 1        1 expired  " + "█" * 40, "a 1        2 messages  " + "█" * 40]
    assert ran == [
        ("replay", "m", "nothing was written"), ("check", ["a"]), ("connect",), ("inbound", ["a"], "hall"),
        ("what_if", "spark", "hall", "datagrams", sets), bars,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="expected a setting"):
        command.main(["a", "--endpoint", "hall", "--what-if", "round_trip.MAX_PROBE=2"])
    assert ran.count(("connect",)) == 1, "a mistake is told before Java starts"


def test_without_an_endpoint_all_are_simulated_and_told_as_a_page_if_asked_for(ran: list[Any], tmp_path: Path) -> None:
    command.main(["a"])
    whole: list[Any] = [
        ("check", ["a"]),
        ("connect",),
        ("offered", "spark", ["a"]),
        ("what_if_all", "spark", "offer", [{}]),
    ]
    assert ran[1:] == [*whole, ["a  n", "1  5"]]
    command.main(["a", "--what-if", "round_trip.MAX_PROBE=2", "--output", str(tmp_path / "page.html")])
    assert ran[-2] == ("what_if_all", "spark", "offer", [{"round_trip.MAX_PROBE": "2"}])
    assert (tmp_path / "page.html").read_text("utf-8") == "<p>é [{'a': '1', 'n': 5}]"


# ------------------------------------------------------------------------------------------- offers and engine


@pytest.mark.parametrize(("homes", "is_enough"), [(["p", "q"], True), (["p", None], False), (["p", "p"], True)])
def test_an_offer_needs_two_endpoints_at_home(
    homes: list[str | None], is_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]))
    paths, closed = [str(tmp_path)], list[bool]()
    lives = [SimpleNamespace(sender=f"id {n}", name="ba"[n], home=home) for n, home in enumerate(homes)]
    analysis = SimpleNamespace(lives=lives, close=lambda: closed.append(True))
    spark: Any = "spark"
    monkeypatch.setattr(offers, "frames", lambda *given: given)
    monkeypatch.setattr(offers, "analyze", lambda given: analysis if given == (spark, paths, None) else None)
    monkeypatch.setattr(offers, "_links", lambda *given: given)
    read: list[Any] = []
    monkeypatch.setattr(offers, "_read", lambda *given: read.append(given))
    if is_enough:
        found = offered(spark, paths)
        assert [found.endpoints, found.links] == [["a", "b"], (analysis, {"b": homes[0], "a": homes[1]})]
        named = {"id 0": ("b", homes[0]), "id 1": ("a", homes[1])}
        assert read == [(found, paths, named, analysis)]
    else:
        with pytest.raises(CaptureError, match=r"takes captures at the hosts of two endpoints, or more$"):
            offered(spark, paths)
    assert closed == [True]
    with pytest.raises(CaptureError, match="no capture there"):
        offered(spark, [str(tmp_path / "none")])
    assert closed == [True], "which is told before the analysis"


def test_a_peer_that_leaves_is_told_with_its_reason() -> None:
    trace = [
        Captured(5 * NS, AT_HALL, GOLDEN["announcement"]), Captured(6 * NS, AT_HALL, GOLDEN["goodbye"]),
        Captured(7 * NS, AT_HALL, b"noise"),
    ]  # fmt: skip
    told = replay(trace, effective({"name": "yard"}, {}))
    assert told.peers == [(5 * NS, "hall", "found"), (6 * NS, "hall", "goodbye")]
    assert (DATAGRAM_SIZE, MESSAGE_LIMIT) == (1472, 256 << 20)
