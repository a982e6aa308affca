"""What other settings would have done with an offer made by hand, as it is written down; nothing here needs Spark.

A change that is meant is taken over by `pytest tests/spark --rewrite`, and read in the diff.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from spark.replay import __main__ as command
from spark.replay.__main__ import lines_of, pace, trade_off
from spark.replay.engine import Captured
from spark.replay.offered import Offer, Offered
from spark.replay.options import combinations
from spark.replay.senders import simulate
from spark.replay.what_if import outcome
from spark.report.trade_off import page
from tests.spark.page import tags
from tests.spark.recordings import compare

WORDS = (["parity=0,0.4"], ["queue_limit=20000,4000000"], ["round_trip.MAX_PROBE=0.1,2", "window.INITIAL=2,128"])


def offer() -> Offered:
    """Two publishers and three subscribers, one of which changes what it wants; links that lose and delay."""
    rng = Random(5)
    found = Offered(["a", "b", "c"])
    for number in range(160):
        size = 12_000 if number % 20 == 0 else 300
        kept = None if number % 5 else 0.2
        message = Offer(
            10 + number * 0.004, "ab"[number % 2], f"t/{number % 3}", size, number % 4 > 0, number < 3, kept
        )
        found.messages.append(message)
    found.interests = [(9.0, "a", "+t/0"), (9.0, "b", "+t/#"), (9.5, "c", "+#"), (10.3, "c", "-#"), (10.4, "c", "+t/1")]
    for source in "abc":
        for target in "abc":
            if source != target:
                times = [10 + place * 0.002 for place in range(400)]
                delays = [None if rng.random() < 0.06 else 0.002 + rng.random() / 500 for _ in times]
                found.links[source, target] = times, delays
    return found


@pytest.mark.parametrize("number", range(len(WORDS)))
def test_settings_for_all(number: int, pytestconfig: pytest.Config) -> None:
    rows = [simulate(offer(), one) for one in combinations(WORDS[number])]
    compare([*lines_of(rows), *tags(page(rows))], f"settings-{number}", pytestconfig)


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_page_is_written_if_it_is_asked_for(
    is_asked_for: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [simulate(Offered(["a", "b"]), one) for one in combinations(["parity=0,0.4"])]
    monkeypatch.setattr(command, "offered", lambda spark, captures: None)
    monkeypatch.setattr(command, "what_if_all", lambda spark, offer, sets: rows)
    output = ["--output", str(tmp_path / "page.html")] * is_asked_for
    options = command.parser().parse_args(["trace.pcapng", "--what-if", "parity=0,0.4", *output])
    assert command.explore(Mock(), options) == lines_of(rows)
    assert [path.read_text() for path in tmp_path.iterdir()] == [page(rows)] * is_asked_for


def test_without_messages_there_is_nothing_to_tell() -> None:
    row = simulate(Offered(["a", "b"]), {})
    assert (row["expected"], row["delivered"], row["p99_ms"], row["overhead"]) == (0, 0, None, None)
    assert "<circle" not in page([row])


def test_settings_for_one_endpoint() -> None:
    first = 1_700_000_000_000_000_000
    own = [Captured(first, ("10.0.0.1", 1), b"", (0, ("+t/#",))), Captured(first + 10**9, ("10.0.0.2", 2), b"noise")]
    assert outcome("a", own, {"lease_intervals": "2"}) == {
        "lease_intervals": "2",
        "messages": 0,
        "found": 0,
        "expired": 0,
        "goodbye": 0,
        "restarted": 0,
    }


def test_bars_are_as_long_as_their_values() -> None:
    rows: list[dict[str, object]] = [{"x": "1", "expired": 4}, {"x": "22", "expired": 2}, {"x": "3", "expired": 0}]
    first, second, third = trade_off(rows, "expired")
    assert first.startswith("x 1         4 expired  █")
    assert (first.count("█"), second.count("█"), third.count("█")) == (first.count("█"), first.count("█") // 2, 0)
    assert first.count("█") >= 20
    assert trade_off([{"x": "1", "expired": 0}], "expired") == ["x 1        0 expired  "]


def test_a_replay_at_the_speed_of_a_clock_waits_and_one_at_once_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [100.0], list[float]()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", slept.append)
    wait = pace(2.0)
    for captured in (5 * 10**9, 6 * 10**9, 9 * 10**9):
        wait(captured)
    clock[0] = 101.5
    wait(9 * 10**9)
    assert slept == [0.0, 0.5, 2.0, 0.5]
    pace(0)(7 * 10**9)
    assert len(slept) == 4
