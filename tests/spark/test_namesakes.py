"""Captures of several places that bear one name are told apart by their files, and pieces of one recording are not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from glue.simulation import World
from glue.simulation.clock import Clock
from spark.analyze.__main__ import parser, run, summary
from spark.analyze.namesakes import Presence, find_namesakes
from tests.spark.captures import interface, packet, section
from tests.spark.truth import Taps, ethernet

NAME = "raspberrypi-eth0"
SECOND = 10**9


def found_by_file(*given: Presence) -> dict[str, str]:
    """What the points of files are called instead of `NAME`."""
    found = find_namesakes(given)
    assert {point for point, _ in found} <= {NAME}
    return {file: name for (_, file), name in found.items()}


def seen(file: str, counters: tuple[int, int], times: tuple[int, int] | None = None, point: str = NAME) -> Presence:
    return Presence(point, file, ("a", 1), counters, times or counters)


def test_what_was_captured_at_once_is_named_by_file_whatever_the_clocks_say() -> None:
    found = found_by_file(seen("x/a.pcapng", (0, 900)), seen("x/b.pcapng", (10, 950), (SECOND, 2 * SECOND)))
    assert found == {"x/a.pcapng": "a", "x/b.pcapng": "b"}


def test_files_of_one_name_are_told_by_their_directories() -> None:
    found = found_by_file(
        *[seen(f"/day/{host}/trace-0000{n}.pcapng", (n * 100, n * 100 + 99)) for host in "pq" for n in (1, 2)]
    )
    assert set(found.values()) == {"p/trace", "q/trace"}
    assert len(found) == 4
    found = found_by_file(seen("trace.pcap", (0, 99)), seen("more/trace.pcap", (0, 99)))
    assert found == {"trace.pcap": "trace", "more/trace.pcap": "more/trace"}


@pytest.mark.parametrize("names", [("t-00001.pcapng", "t-00002.pcapng"), ("monday.pcapng", "tuesday.pcapng")])
def test_pieces_of_one_recording_stay_one_place(names: tuple[str, str]) -> None:
    late = 98  # what came late is in the second file, although later ones are in the first
    assert found_by_file(seen(names[0], (0, 100)), seen(names[1], (late, 300))) == {}


def test_pieces_of_a_rotation_in_which_one_waited_for_long_stay_one_place() -> None:
    assert found_by_file(seen("t-00001.pcap", (0, 90), (0, 100)), seen("t-00002.pcap", (3, 99), (101, 200))) == {}


def test_places_that_are_numbered_as_a_rotation_would_be_are_told_apart() -> None:
    found = found_by_file(*[seen(f"t-0000{n}.pcap", (0, 900 + n)) for n in (1, 2, 3)])
    assert sorted(found.values()) == ["t-00001", "t-00002", "t-00003"]


def test_other_points_are_left_alone() -> None:
    others = [seen("c.pcap", (0, 900), point="c"), seen("d.pcap", (0, 900), point="d")]
    found = found_by_file(*others, seen("a.pcap", (0, 900)), seen("b.pcap", (0, 900)))
    assert found == {"a.pcap": "a", "b.pcap": "b"}


def test_hosts_of_one_name_are_points_of_their_own_and_the_verdict_says_so(spark: SparkSession, tmp_path: Path) -> None:
    world = World(11)
    a, b = world.endpoint("a"), world.endpoint("b")
    taps = Taps(world, {"a": a.host, "b": b.host}, {"a": Clock(), "b": Clock(0.2)})
    b.subscribe("t")
    for number in range(60):
        world.after(1 + 0.01 * number, partial(a.publish, "t", b"%d" % number))
    world.run(4.0)
    for point, frames in taps.captured.items():
        packets = [packet(ethernet(frame), frame.time) for frame in sorted(frames)]
        start = section() + interface(description=f"glue capture point: {NAME}")
        (tmp_path / f"{point}.pcapng").write_bytes(start + b"".join(packets))
    result = run(spark, parser().parse_args([str(tmp_path), "--output", str(tmp_path / "report")]))
    assert result["trace"]["points"] == ["a", "b"]
    assert {row["endpoint"]: row["home"] for row in result["endpoints"]} == {"a": "a", "b": "b"}
    assert sum(row["sent"] for row in result["pairs"] if row["receiver"] == "b") >= 60
    (told,) = [line for line in summary(result) if NAME in line]
    assert told == (
        f"note  2 captures made at the same time name one place, {NAME}: each counts as a place of its own, named by "
        "its file: a, b."
    )
