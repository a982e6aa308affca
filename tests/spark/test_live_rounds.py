"""A round of the live analysis: what it stores, what is final, what it tells, and what it forgets. No Java but once."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import Row, SparkSession

from spark import command
from spark.analyze.job import USED
from spark.live import __main__ as program
from spark.live import job
from spark.live.job import EVER, Live
from spark.live.source import NEWEST, ROWS, TALLY, LiveCaptures, LiveReader
from spark.read import CaptureError
from spark.schema import FILES
from tests.spark.captures import ethernet, ipv4, pcap, udp
from tests.spark.recordings import RECORDED
from tests.spark.rows import restored
from tests.spark.test_recorded_words import result

NS = 10**9


def mark(first: int, latest: int, frames: int = 5, late: int = 0) -> dict[str, int]:
    return {"first_ns": first * NS, "latest_ns": latest * NS, "frames": frames, "late": late}


class Rounds(Live):
    """A live analysis without Spark: what its batches hold is given, and what it would analyse is noted."""

    def __init__(self, state: Path, **options: Any) -> None:
        self.steps: list[Any] = []
        self.batch, self.kept = Mock(), Mock()
        self.batch.persist.return_value = self.kept
        options = {"delay": 8.0, "interval": 2.0, **options}
        super().__init__(captures=state, state=state, told=self.steps.append, said=self.steps.append, **options)
        self.given: dict[str, int] = {}
        self.outcome: Any = "the result"

    def _store(self, batch: Any, number: int, final: int) -> dict[str, int]:
        assert batch is self.kept, "what is counted and written is read once"
        self.steps.append(("store", number, final // NS))
        (self.frames / f"batch={number}").mkdir(parents=True, exist_ok=True)
        (self.files / f"batch={number}").mkdir(parents=True, exist_ok=True)
        if not self.given:
            raise OSError("no space")
        return self.given

    def _analysis(self, spark: Any, marks: dict[str, dict[str, int]], final: int) -> Any:
        self.steps.append(("analyse", sorted(marks), final if final == EVER else final // NS))
        return self.outcome

    def round(self, number: int, given: dict[str, int]) -> list[Any]:
        self.given, self.steps[:] = given, []
        self._round(self.batch, number)
        return self.steps


def test_an_interval_is_final_once_the_delay_is_over_and_frames_before_it_are_late(tmp_path: Path) -> None:
    live = Rounds(tmp_path)
    assert live.round(0, mark(10, 21)) == [
        ("store", 0, 0), "took 5 datagrams; the report is made of 5", ("analyse", ["0"], 12), "the result",
    ]  # fmt: skip
    assert live.round(1, mark(15, 17, 2000)) == [
        ("store", 1, 12), "took 2,000 datagrams; the report is made of 2,005", ("analyse", ["0", "1"], 12),
        "the result",
    ]  # fmt: skip
    assert live.round(2, mark(22, 22))[0] == ("store", 2, 12)
    assert live.rounds == 3
    assert live.kept.unpersist.call_count == 3
    assert [live.final(at * NS) // NS for at in (0, 7, 8, 9, 10, 11, 12)] == [0, 0, 0, 0, 2, 2, 4]


def test_a_batch_that_comes_again_counts_once(tmp_path: Path) -> None:
    live = Rounds(tmp_path)
    live.round(0, mark(10, 20))
    live.round(1, mark(20, 40))
    again = Rounds(tmp_path).round(1, mark(20, 40, 6))
    assert again[:3] == [("store", 1, 12), "took 6 datagrams; the report is made of 11", ("analyse", ["0", "1"], 32)]
    assert json.loads((tmp_path / "batches.json").read_text()) == {"0": mark(10, 20), "1": mark(20, 40, 6)}
    assert not (tmp_path / "batches.new").exists()


def test_what_could_not_be_stored_is_no_round_and_is_released(tmp_path: Path) -> None:
    live = Rounds(tmp_path)
    with pytest.raises(OSError, match="no space"):
        live.round(0, {})
    live.kept.unpersist.assert_called_once_with()
    assert live.rounds == 0


def test_what_is_older_than_the_report_is_deleted(tmp_path: Path) -> None:
    live = Rounds(tmp_path, keep=100.0)
    live.round(0, mark(0, 10))
    live.round(1, mark(10, 12))
    assert live.round(2, mark(110, 118))[-2:] == [("analyse", ["0", "1", "2"], 110), "the result"]
    assert live.round(3, mark(119, 119))[-2:] == [("analyse", ["1", "2", "3"], 110), "the result"]
    kept = ["batch=1", "batch=2", "batch=3"]
    assert [sorted(path.name for path in part.iterdir()) for part in (live.frames, live.files)] == [kept, kept]
    assert sorted(json.loads((tmp_path / "batches.json").read_text())) == ["1", "2", "3"]


def test_a_job_that_is_killed_while_it_notes_its_batches_knows_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Rounds(tmp_path)
    live.round(0, mark(0, 10))

    def write(path: Path, text: str) -> None:
        path.write_bytes(text[:9].encode())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write)
        with pytest.raises(KeyboardInterrupt):
            live.round(1, mark(10, 12))
    assert [*Rounds(tmp_path)._marks()] == ["0"]
    assert live.round(1, mark(10, 12))[-2][1] == ["0", "1"]


def test_a_batch_of_late_frames_and_faults_alone_is_told_as_long_as_the_frames_beside_it(tmp_path: Path) -> None:
    live = Rounds(tmp_path, keep=100.0)
    live.round(0, mark(0, 0, 0))  # such as a file that was deleted before it was read
    live.round(1, mark(1000, 1010))
    assert live.round(2, mark(0, 0, 0, late=7))[-2:] == [("analyse", ["0", "1", "2"], 1002), "the result"]
    assert live.round(3, mark(1110, 1118))[-2:] == [("analyse", ["0", "1", "2", "3"], 1110), "the result"]
    assert live.round(4, mark(1119, 1119))[-2:] == [("analyse", ["3", "4"], 1110), "the result"]


def test_once_everything_is_told_though_it_is_not_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Rounds(tmp_path, once=True, every=1.0)
    monkeypatch.setattr("time.monotonic", iter(range(0, 1000, 50)).__next__)
    assert live.round(0, mark(10, 20))[-2:] == [("analyse", ["0"], EVER), "the result"]
    live.steps.clear()
    live.finish(Mock())
    assert live.steps == []
    other = Rounds(tmp_path, once=True)
    other.finish(Mock())
    assert other.steps == [("analyse", ["0"], EVER), "the result"]
    other.outcome, other.steps[:] = None, []
    other.finish(Mock())
    assert other.steps == [("analyse", ["0"], EVER)]


@pytest.mark.parametrize(("took", "is_told"), [(10, False), (11, True)])
def test_a_round_that_takes_longer_than_the_time_between_reports_is_told(
    tmp_path: Path, took: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Rounds(tmp_path)
    live.outcome = None
    monkeypatch.setattr("time.monotonic", iter((100, 100 + took)).__next__)
    said = "this round took 11 s, longer than the 10 s between two reports"
    assert live.round(0, mark(10, 20))[3:] == [said] * is_told


def analysed(monkeypatch: pytest.MonkeyPatch, marks: dict[str, dict[str, int]], final: int) -> tuple[Any, list[Any]]:
    """What a live analysis makes of these batches, and what it asked for."""
    asked: list[Any] = []
    spark, analysis = Mock(), Mock()
    spark.read.parquet = lambda *paths: [path.removeprefix("/state/") for path in paths]
    analysis.close = lambda: asked.append("closed")

    def analyze(*arguments: Any, **named: Any) -> Any:
        asked.append((arguments, named))
        return analysis

    monkeypatch.setattr(job, "suit", lambda _, size: asked.append(size))
    monkeypatch.setattr(job, "analyze", analyze)
    monkeypatch.setattr(job, "collect", lambda _, files: {"trace": {}, "files": files})
    live = Live(captures=Path("/c"), state=Path("/state"), told=Mock())
    return live._analysis(spark, marks, final), asked


def test_the_analysis_reads_the_batches_that_hold_something(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"0": mark(10, 20, 5, 1), "1": mark(0, 0, 0, 2), "2": mark(15, 30, 7, 4)}
    found, asked = analysed(monkeypatch, marks, 11 * NS)
    assert found == {"trace": {"late_frames": 7}, "files": ["files/batch=0", "files/batch=1", "files/batch=2"]}
    frames = (["frames/batch=0", "frames/batch=2"], 1.0)
    assert asked == [6000, (frames, {"until_ns": 11 * NS}), "closed"]
    assert analysed(monkeypatch, marks, EVER)[1][1] == (frames, {"until_ns": None})


@pytest.mark.parametrize("marks", [{}, {"0": mark(0, 0, 0)}, {"0": mark(10, 20)}])
def test_nothing_is_told_before_an_interval_is_final(
    marks: dict[str, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert analysed(monkeypatch, marks, 10 * NS) == (None, [])


def test_a_batch_is_stored_without_what_is_late_and_its_files_beside(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(captures=tmp_path, state=tmp_path, told=Mock())
    frames = [(at * NS, None) for at in (9, 12, 10, 11)]
    batch = spark.createDataFrame([*frames, (None, Row(file="a"))], f"time_ns bigint, {TALLY} struct<file: string>")
    assert live._store(batch.limit(1), 3, 13 * NS) == mark(0, 0, 0, 1)
    assert live._store(batch, 3, 11 * NS) == mark(11, 12, 2, 2), "a batch that comes again replaces what it left"
    stored = [sorted(map(tuple, spark.read.parquet(str(part)).collect())) for part in (live.frames, live.files)]
    assert stored == [[(11 * NS, 3), (12 * NS, 3)], [("a", 3)]]


@pytest.mark.parametrize(
    ("once", "trigger"), [(True, {"availableNow": True}), (False, {"processingTime": "2.5 seconds"})]
)
def test_a_stream_begins_at_its_checkpoint(tmp_path: Path, once: bool, trigger: dict[str, Any]) -> None:
    spark, state = Mock(), tmp_path / "state"
    live = Live(captures=tmp_path, state=state, told=Mock(), once=once, every=2.5, settle=7.0)
    query = live.start(spark)
    spark.dataSource.register.assert_called_once_with(LiveCaptures)
    reader = spark.readStream.format
    reader.assert_called_once_with("pcap-live")
    reader().option.assert_called_once_with("settle", "7.0")
    reader().option().load.assert_called_once_with(str(tmp_path))
    source = reader().option().load().select
    source.assert_called_once_with(*USED, TALLY)
    writer = source().writeStream.option
    writer.assert_called_once_with("checkpointLocation", str(state / "checkpoint"))
    writer().trigger.assert_called_once_with(**trigger)
    assert query is writer().trigger().foreachBatch(live._round).start()
    assert live.frames.is_dir()
    live.start(spark)  # of what is there already


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the command makes and does, instead of following a stream."""
    did: list[Any] = []

    def live(**options: Any) -> Any:
        finish = lambda session: did.append(f"finish {session}")  # noqa: E731
        did.append(SimpleNamespace(**options, finish=finish))
        return did[-1]

    monkeypatch.setattr(program, "Live", live)
    monkeypatch.setattr(program, "follow", lambda live, connect, said: did.append("follow"))
    monkeypatch.setattr(
        command, "run", lambda name, master, work, spoiled: [*work(lambda: "it"), name, master, spoiled]
    )
    yield did
    logging.disable(logging.NOTSET)


def test_the_command_follows_with_what_the_options_say(
    made: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path), "--output", f"{tmp_path}/out"]
    spoiled = f"started again, it goes on from {tmp_path}/out/state"
    assert program.main(words) == ["live", None, spoiled]  # type: ignore[comparison-overlap]
    assert made[1:] == ["follow"]
    given = vars(made[0])
    assert [given[name] for name in ("interval", "delay", "keep", "every", "settle", "once")] == [
        1,
        30,
        3600,
        10,
        5,
        False,
    ]
    assert (given["captures"], given["state"]) == (tmp_path, tmp_path / "out" / "state")
    assert capsys.readouterr().err == f"spark.live: following {tmp_path}; a report every 10 s\n"
    assert not logging.getLogger("py4j").isEnabledFor(logging.ERROR)
    made.clear()
    program.main([*words, "--once", "--state", "/s", "--every", "2.5", "--master", "local[1]"])
    assert (made[0].once, made[0].state, made[1:]) == (True, Path("/s"), ["follow", "finish it"])
    assert capsys.readouterr().err == f"spark.live: taking what is in {tmp_path}\n"


def test_captures_in_a_directory_that_is_missing_are_refused(made: list[Any], tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there: no such directory"):
        program.main([f"{tmp_path}/there", "--output", str(tmp_path)])
    assert made[1:] == []


def test_a_result_becomes_a_report_beside_its_tables_and_a_line(
    made: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program.main([str(tmp_path), "--output", str(tmp_path)])
    flush = Mock()
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "flush", flush)
        made[0].told(result({"end_ns": 36_061 * NS}))
    assert flush.called, "a reader of a pipe waits for it"
    assert capsys.readouterr().out == (
        "until 10:01:01 UTC: Nothing betrays a loss, which no single capture sees itself, and nobody was given up.\n"
    )
    made[0].told(restored((RECORDED / "analysis.json").read_text()))
    assert (tmp_path / "analysis.json").exists()
    assert "<html" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "tables" / "pairs.parquet").exists()


def test_a_file_is_whole_once_nothing_was_written_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = LiveCaptures({"path": str(tmp_path)})
    assert source.streamReader(Mock())._settle == 5.0  # type: ignore[attr-defined]
    reader = LiveCaptures({"path": str(tmp_path), "settle": "2"}).streamReader(Mock())
    assert isinstance(reader, LiveReader)
    assert reader.initialOffset() == {NEWEST: 0}
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([ethernet(ipv4(udp(b"a query")))]))
    changed = path.stat().st_mtime_ns
    for since, offset in ((2 * NS - 1, 0), (2 * NS, changed)):
        monkeypatch.setattr("time.time_ns", lambda since=since: changed + since)
        assert reader.latestOffset() == {NEWEST: offset}
    assert len(reader.partitions({NEWEST: changed - 1}, {NEWEST: changed})) == 1
    assert len(reader.partitions({NEWEST: 0}, {NEWEST: changed - 1})) == 0
    assert len(reader.partitions({NEWEST: changed}, {NEWEST: changed + 1})) == 0
    path.unlink()
    assert reader.latestOffset() == {NEWEST: changed}
    older = tmp_path / "older.pcap"
    older.touch()
    os.utime(older, ns=(changed - 1, changed - 1))
    assert reader.latestOffset() == {NEWEST: changed}, "never below what was told, whatever is deleted"
    older.unlink()
    restarted = LiveReader(str(tmp_path), 2.0)
    restarted.partitions({NEWEST: changed}, {NEWEST: changed})
    assert restarted.latestOffset() == {NEWEST: changed}, "never below what was read before a restart"
    assert source.schema().startswith(f"{ROWS.names[0]} ")
    assert source.schema().endswith(f"{TALLY} struct<{','.join(f'{c.name}:{c.type}' for c in FILES)}>")
