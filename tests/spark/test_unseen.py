"""Captures that miss frames or are cut off: the report tells that from a network that loses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from glue.contract.sealed import HEAD
from glue.simulation import Conditions, World
from glue.simulation.clock import Clock
from spark.analyze.__main__ import parser, run, summary
from spark.analyze.job import NothingFoundError
from spark.analyze.result import Result
from tests.golden.seal import BLOCK, FOLDER
from tests.spark.captures import STEP_NS, ethernet, frame, ipv4, pcap, udp
from tests.spark.truth import Frame, Taps

COUNT = 120
EVERY = 10  # a frame in so many is missed by the capture at the receiver's


class Missed(NamedTuple):
    """What was analysed, the frames that only the capture missed, and those that the network lost at first."""

    result: Result
    unseen: int
    lost: int
    page: str


def sequence(frame: Frame) -> int | None:
    """The place in its channel of a data frame; None of anything else."""
    head = frame.data.partition(b"\n")[0]
    return int(head.rpartition(b",")[2].rstrip(b"]}")) if b'"transport":["data"' in head else None


def sealed(name: str) -> bytes:
    """A golden sealed datagram, or a train of them."""
    return (FOLDER / f"{name}.sealed").read_bytes()


@pytest.fixture(scope="module")
def missed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Missed:
    """One way loses datagrams, and the capture behind it loses others; the file of the other end is cut off."""
    world = World(7)
    a, b = world.endpoint("a", parity=0.0), world.endpoint("b")
    taps = Taps(world, {"a": a.host, "b": b.host}, {"a": Clock(), "b": Clock(0.2)})
    b.subscribe("t")
    world.run(1.0)
    world.network.set_conditions(Conditions(loss=0.05, delay=0.001), source=a.host)
    for number in range(COUNT):
        world.after(0.01 * number, partial(a.publish, "t", b"%d" % number))
    world.run(4.0)
    came = {sequence(frame) for frame in taps.captured["b"]} - {None}
    gone = {number for number in came if number is not None and number % EVERY == 0}
    taps.captured["b"] = [frame for frame in taps.captured["b"] if sequence(frame) not in gone]
    directory = tmp_path_factory.mktemp("missed")
    whole, _ = taps.write(directory)
    whole.write_bytes(whole.read_bytes()[:-6])
    (directory / "sealed.pcap").write_bytes(pcap([frame(sealed("data"))] * 2))
    result = run(spark, parser().parse_args([str(directory), "--output", str(directory / "report")]))
    lost = sum(not outcome.arrived_at for outcome in taps.outcomes if (outcome.source, outcome.receiver) == ("a", "b"))
    return Missed(result, len(gone), lost, (directory / "report" / "report.html").read_text())


def test_what_was_acknowledged_but_not_captured_is_counted_for_its_stream(missed: Missed) -> None:
    (stream,) = [row for row in missed.result["streams"] if row["kind"] == "data" and row["sender"] == "a"]
    assert stream["unseen"] == missed.unseen == COUNT // EVERY
    assert sum(row["lost"] for row in missed.result["streams"] if row["sender"] == "a") >= missed.lost + missed.unseen
    assert not any(row["unrepaired"] for row in missed.result["repairs"])


def test_the_verdict_tells_it_from_the_losses_of_the_network(missed: Missed) -> None:
    told = summary(missed.result)
    assert any(
        "b lost" in line and f"{missed.unseen} or more of these only the capture missed" in line for line in told
    )


def test_the_verdict_and_the_page_tell_that_a_file_is_damaged(missed: Missed) -> None:
    (told,) = [line for line in summary(missed.result) if "is damaged" in line]
    assert told.startswith(" bad  ")
    assert "a.pcapng is damaged at byte" in told
    assert "the file ends within a record" in told
    assert "a.pcapng is damaged at byte" in missed.page
    assert [row["fault"] is None for row in missed.result["files"]] == [False, True, True]


def test_captures_without_a_datagram_of_glue_are_told_by_what_is_in_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.pcapng").touch()
    (tmp_path / "names.pcap").write_bytes(pcap([ethernet(ipv4(udp(b"a query")))] * 3))
    output = tmp_path / "report"
    with pytest.raises(NothingFoundError) as told:
        run(spark, parser().parse_args([str(tmp_path), "--output", str(output)]))
    assert str(told.value) == (
        "there is no datagram of glue in it; 3 frames captured, 0 of them glue's datagrams; skipped: 3 (other UDP)"
    )
    assert not output.exists()


def test_sealed_datagrams_beside_others_are_told_too(missed: Missed) -> None:
    (row,) = missed.result["sealed"]
    assert (row["datagrams"], row["doubled"], row["missing"]) == (2, 1, 0)
    assert "2 captured datagrams of 1 life are sealed" in "\n".join(summary(missed.result))
    assert "Sealed datagrams" in missed.page


def test_sealed_captures_that_are_not_opened_are_told_by_what_is_in_the_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    announcement, data, block = map(sealed, ("announcement", "data", "block"))
    later = announcement[: HEAD.size - 1] + bytes([announcement[HEAD.size - 1] + 3]) + announcement[HEAD.size :]
    captured = [announcement, later, later, data, block]
    (tmp_path / "sealed.pcap").write_bytes(pcap([frame(payload) for payload in captured]))
    output = tmp_path / "report"
    result = run(spark, parser().parse_args([str(tmp_path), "--output", str(output)]))
    rows = {row["kind"]: row for row in result["sealed"]}
    multicasts, unicasts = rows["multicast"], rows["unicast"]
    assert (multicasts["datagrams"], multicasts["missing"], multicasts["doubled"]) == (3, 2, 1)
    assert multicasts["bytes"] == 3 * len(announcement)
    assert multicasts["silence_ns"] == STEP_NS
    assert (unicasts["datagrams"], unicasts["missing"], unicasts["doubled"]) == (1 + BLOCK, 0, 0)
    assert unicasts["bytes"] == len(data) + len(block)
    told = "\n".join(summary(result))
    assert "2 of 4 sealed multicasts from 10.0.0.1:5000 are missing" in told
    assert "12 captured datagrams of 2 lives are sealed: without their key this tells " in told
    assert "; name their key with --key." in told
    assert "Sealed datagrams" in (output / "report.html").read_text()
    assert (output / "tables" / "sealed.parquet").exists()
