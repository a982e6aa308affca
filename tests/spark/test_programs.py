"""What the commands do with their options, and what they write and print; Spark's part is replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from glue.errors import ConfigurationError
from spark import command, convert
from spark.analyze import __main__ as analyze
from spark.analyze import sealed as sealed_module
from spark.analyze.job import NothingFoundError
from spark.analyze.sealed import add_sealed, only_sealed, sealed_lines
from spark.read import CaptureError
from spark.replay import __main__ as replay
from spark.replay.engine import Replayed
from spark.source import total_size
from tests.golden.seal import FOLDER, KEY
from tests.spark.captures import frame, pcap
from tests.spark.recordings import RECORDED
from tests.spark.rows import read, restored
from tests.spark.test_recorded_words import NS, life, pair, result

SEALED_FILE = {"file": "a.pcap", "skipped": "7 sealed", "dropped": None, "fault": None}
Steps = list[Any]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """What an analysis does, step by step."""
    did: Steps = []

    def note(module: Any, name: str, value: Any = None) -> None:
        def noted(*arguments: Any, **named: Any) -> Any:
            shown = arguments[name in ("frames", "read_files", "read") :]  # without the session
            did.append((name, *shown, *named.items()))
            return value

        monkeypatch.setattr(module, name, noted)

    found = restored((RECORDED / "analysis.json").read_text())
    analysis = Mock()
    analysis.close = lambda: did.append("closed")
    analysis.tables = {"deliveries": Mock()}
    analysis.tables["deliveries"].write.mode.return_value.parquet = lambda path: did.append(("deliveries", path))
    note(analyze, "read_files", Mock())
    note(analyze, "frames", "sealed rows")
    note(analyze, "read", "rows")
    note(analyze, "analyze", analysis)
    note(analyze, "collect", found)
    note(analyze, "add_sealed")
    monkeypatch.setattr(analyze, "converted", lambda paths: paths == ["frames"])
    return did


def run(words: list[str], output: Path, captures: tuple[str, ...] = (), **more: Any) -> Any:
    arguments = analyze.parser().parse_args([*words, "--output", str(output)])
    return analyze.run(Mock(), arguments, captures=captures, **more)


def names(steps: Steps) -> list[str]:
    return [step if isinstance(step, str) else step[0] for step in steps]


def test_an_analysis_leaves_a_report_and_tables(steps: Steps, tmp_path: Path) -> None:
    said = Mock()
    found = run(["a.pcap", "--interval", "2", "--capture-point", "pi"], tmp_path, said=said, stored=True)
    assert steps[:3] == [
        ("read_files", ["a.pcap"], "pi"), ("frames", ["a.pcap"], "pi", "sealed"), ("read", ["a.pcap"], "pi"),
    ]  # fmt: skip
    assert steps[3] == ("analyze", "rows", 2.0, ("said", said), ("stored", True))
    assert names(steps[4:]) == ["collect", "closed"]
    said.assert_called_once_with("writing the report")
    assert "<html" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "analysis.json").exists()
    assert found["pairs"]


def test_deliveries_are_written_if_they_are_asked_for_before_all_is_released(steps: Steps, tmp_path: Path) -> None:
    run(["a.pcap", "--deliveries"], tmp_path)
    assert steps[-2:] == [("deliveries", f"{tmp_path}/tables/deliveries.parquet"), "closed"]
    written = tmp_path / "tables" / "deliveries.parquet"
    written.mkdir()
    (written / "part-0.parquet").touch()
    run(["b.pcap"], tmp_path)
    assert not written.exists()  # it would tell of an earlier capture


@pytest.mark.parametrize(
    ("words", "captures", "cure"),
    [
        (["a.pcap"], (), "name their key with --key"),
        (["a.pcap", "--key", "k.key"], (), "k.key does not open them"),
        (["frames"], ("a.pcap",), "name their key with --key"),
        (["frames"], (), None),
    ],
)
def test_what_is_sealed_is_told_where_the_captures_are_known(
    words: list[str], captures: tuple[str, ...], cure: str | None, steps: Steps, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(analyze, "collect", lambda *_: result(files=[{**SEALED_FILE, "skipped": "3 other UDP"}]))
    run(words, tmp_path, captures)
    assert "add_sealed" not in names(steps)
    told = result(files=[{**SEALED_FILE, "skipped": ""}, SEALED_FILE])
    monkeypatch.setattr(analyze, "collect", lambda *_: told)
    run(words, tmp_path, captures)
    sealed = [step for step in steps if step[0] == "add_sealed"]
    assert sealed == ([("add_sealed", told, "sealed rows", cure)] if cure else [])


def test_what_fails_in_the_midst_is_released_too(steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "collect", Mock(side_effect=OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        run(["a.pcap"], tmp_path)
    assert steps[-1] == "closed"
    assert not (tmp_path / "report.html").exists()


def test_a_trace_without_datagrams_of_glue_tells_what_it_has(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(lines: list[str], words: list[str]) -> str:
        monkeypatch.setattr(analyze, "what_was_read", lambda files: list(lines))
        with pytest.raises(NothingFoundError) as raised:
            run(words, tmp_path)
        return str(raised.value)

    monkeypatch.setattr(analyze, "analyze", Mock(side_effect=NothingFoundError()))
    nothing = "there is no datagram of glue in it"
    assert told(["3 frames"], ["a.pcap"]) == f"{nothing}; 3 frames"
    line = "skipped: 3 (sealed)"
    assert told([line], ["frames"]).endswith(
        f"{line}; what is sealed is not in these frames: name the captures instead"
    )
    monkeypatch.setattr(analyze, "read_files", lambda *_: None)
    assert told([line], ["a.pcap"]) == nothing


def test_a_trace_of_sealed_datagrams_alone_is_analysed_by_what_is_open(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = Mock(return_value=result())
    monkeypatch.setattr(analyze, "analyze", Mock(side_effect=NothingFoundError()))
    monkeypatch.setattr(analyze, "what_was_read", lambda files: ["skipped: 3 (sealed)"])
    monkeypatch.setattr(analyze, "only_sealed", only)
    run(["a.pcap"], tmp_path)
    (datagrams, _, cure) = only.call_args.args
    assert (datagrams, cure) == ("sealed rows", "name their key with --key")
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "analysis.json").exists()


def flow(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "capture_point": "b" if number % 2 else "a", "network": 1, "life": f"{number:016x}", "kind": "unicast",
        "sender": f"10.0.0.{number}:5", "destination": "10.0.0.9:7", "datagrams": 1000 + number, "bytes": number * 1000,
        "first_ns": (36_000 + number) * NS, "last_ns": (36_100 + number) * NS, "datagrams_per_s": 1.0,
        "bytes_per_s": 1234.5, "silence_ns": 2_000_000, "missing": number, "doubled": 1, **changed,
    }  # fmt: skip


def test_the_largest_sealed_flows_are_lines_on_the_terminal() -> None:
    rows = [flow(number) for number in range(1, 13)]
    assert sealed_lines([]) == []
    lines = sealed_lines(rows)
    assert len(lines) == 13
    assert lines[1].split() == [
        "a", "10.0.0.12:5", "00000000", "10.0.0.9:7", "1,012", "12,000", "1,234", "10:00:12", "10:01:52",
        "2", "ms", "12", "1",
    ]  # fmt: skip
    few = sealed_lines([flow(1, bytes_per_s=None, silence_ns=None, destination=None, sender=None)])[1].split()
    assert few == ["b", "00000000", "unicast", "1,001", "1,000", "10:00:01", "10:01:41", "1", "1"]
    assert sealed_lines([*rows, flow(13), flow(14)])[-1] == "… and 2 more in the report."


def test_sealed_flows_are_a_table_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [flow(3), flow(4), flow(5), flow(1), flow(3, bytes=9_000)]
    asked = list[int]()

    def gather(tables: dict[str, Any], most: int) -> dict[str, pa.Table]:
        asked.append(most)
        return {"sealed": pa.Table.from_pylist(rows)}

    monkeypatch.setattr(sealed_module, "gather", gather)
    monkeypatch.setattr(sealed_module, "flows", lambda datagrams: datagrams)
    monkeypatch.setattr(sealed_module, "files_rows", lambda files: [SEALED_FILE])
    monkeypatch.setattr(sealed_module, "MOST_ROWS", 5)
    found = only_sealed(Mock(), Mock(), "no key")
    assert [(row["capture_point"], row["missing"], row["bytes"]) for row in found["sealed"]] == [
        ("a", 4, 4000), ("b", 1, 1000), ("b", 3, 9000), ("b", 3, 3000), ("b", 5, 5000),
    ]  # fmt: skip
    assert found["trace"] == {
        "namesakes": {}, "left_out": [], "sealed": "no key", "start_ns": 36_001 * NS, "end_ns": 36_105 * NS,
        "interval_ns": NS, "points": ["a", "b"],
    }  # fmt: skip
    assert (found["files"], found["pairs"], asked) == ([SEALED_FILE], [], [6])
    rows.append(flow(8))
    add_sealed(found, Mock(), "no key")
    assert (found["trace"]["left_out"], len(found["sealed"])) == (["sealed"], 5)
    rows.clear()
    empty: dict[str, Any] = {"trace": {}}
    monkeypatch.setattr(sealed_module, "gather", lambda *_: {"sealed": pa.table({})})
    add_sealed(empty, Mock(), "no key")
    assert empty == {"trace": {}}


def test_the_pairs_that_sent_most_are_lines_on_the_terminal() -> None:
    rows = [pair(f"e{number:02}", "z", 1000 * number, number) for number in range(1, 15)]
    way = {"measure": "one way", "sender": "e14", "receiver": "z", "count": 10, "p50_ns": 1.5e6}
    lines = analyze.summary(result(pairs=rows, latencies=[way, {**way, "measure": "other", "sender": "e13"}]))
    at = lines.index("")
    assert lines[at + 1].split()[:4] == ["sender", "receiver", "sent", "lost"]
    assert lines[at + 2].split() == ["e14", "z", "14,000", "14", "0.1", "%", "1", "1.5", "ms"]
    assert [line.split()[0] for line in lines[at + 2 :]] == [f"e{number:02}" for number in range(14, 2, -1)]
    assert lines[at + 3].split()[-1] == "1"
    sealed = [flow(1)]
    only = analyze.summary(result({"sealed": "no key"}, sealed=sealed))
    assert not any(line.startswith("Give captures") for line in only)
    assert only[-2:] == sealed_lines(sealed)
    both = analyze.summary(result({"sealed": "no key"}, sealed=sealed, endpoints=[life("a")]))
    assert any(line.startswith("Give captures") for line in both)


Run = Callable[[Callable[[list[str]], Any], list[str]], tuple[list[str], Mock]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this thread; returns its lines, and the maker of its session."""

    def run_it(main: Callable[[list[str]], Any], words: list[str]) -> tuple[list[str], Mock]:
        connect = Mock()
        monkeypatch.setattr(command, "run", lambda name, master, work, spoiled: work(connect))
        lines: list[str] = main(words)
        return lines, connect

    return run_it


@pytest.mark.parametrize("is_ahead", [True, False])
def test_small_captures_are_read_ahead_and_large_ones_by_spark(
    is_ahead: bool, ran: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, warmed, analysed = Mock(), Mock(), Mock(return_value=result())
    monkeypatch.setattr(analyze, "converted", lambda paths: False)
    monkeypatch.setattr(analyze, "total_size", lambda paths: 4321)
    monkeypatch.setattr(analyze, "is_worth_it", lambda size, master: is_ahead)
    monkeypatch.setattr(analyze, "Ahead", ahead)
    monkeypatch.setattr(analyze, "warm", warmed)
    monkeypatch.setattr(analyze, "run", analysed)
    lines, connect = ran(analyze.main, ["a.pcap", "--output", "/o", "--capture-point", "pi"])
    assert lines[-2:] == ["", "the report: /o/report.html"]
    connect.assert_called_once_with(4321)
    spark, arguments, _, stored, captures = analysed.call_args.args
    assert (spark, stored, captures) == (connect.return_value, is_ahead, ["a.pcap"])
    assert arguments.captures == ([ahead.return_value.frames.return_value] if is_ahead else ["a.pcap"])
    assert ahead.call_args_list == [((["a.pcap"], "pi"),)] * is_ahead
    assert ahead.return_value.close.call_count == warmed.call_count == is_ahead


def test_frames_that_were_converted_have_no_size_and_no_captures(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    analysed = Mock(return_value=result())
    monkeypatch.setattr(analyze, "converted", lambda paths: True)
    monkeypatch.setattr(analyze, "run", analysed)
    _, connect = ran(analyze.main, ["frames", "--output", "/o"])
    connect.assert_called_once_with(None)
    assert analysed.call_args.args[3:] == (False, ())


def test_sealed_captures_are_opened_for_the_time_of_an_analysis(
    ran: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sealed, asked, sizes = tmp_path / "sealed.pcap", list[Path](), list[int]()
    sealed.write_bytes(pcap([frame((FOLDER / "announcement.sealed").read_bytes())]))
    key, wrong = tmp_path / "plant.key", tmp_path / "wrong.key"
    for path, text in ((key, KEY.read_bytes()), (wrong, b"no key")):
        path.write_bytes(text)
        path.chmod(0o600)

    def run(_: Any, arguments: Any, __: Any, is_ahead: bool, captures: list[str]) -> Any:
        assert captures == arguments.captures
        asked.extend(map(Path, captures))
        sizes.append(total_size(captures))
        assert [tally.datagrams for _, tally in map(read, asked)] == [1]
        return result()

    monkeypatch.setattr(analyze, "is_worth_it", lambda size, master: False)
    monkeypatch.setattr(analyze, "run", run)
    assert read(sealed)[1].datagrams == 0
    _, connect = ran(analyze.main, [str(sealed), "--output", "/o", "--key", str(key)])
    connect.assert_called_once_with(*sizes)
    assert asked[0].name == "sealed.pcap"
    assert not asked[0].exists()
    for name in ("missing.key", "wrong.key"):
        with pytest.raises(CaptureError, match=name):
            ran(analyze.main, [str(sealed), "--output", "/o", "--key", str(tmp_path / name)])


@pytest.mark.parametrize(("words", "mode"), [([], "errorifexists"), (["--overwrite"], "overwrite")])
def test_a_conversion_replaces_nothing_unless_it_is_told_to(
    words: list[str], mode: str, ran: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted, checked = Mock(), Mock()
    monkeypatch.setattr(convert, "convert", converted)
    monkeypatch.setattr(convert, "check", checked)
    monkeypatch.setattr(convert, "summary", lambda files: ["so many"])
    lines, connect = ran(convert.main, ["a.pcap", "--output", "out", "--capture-point", "pi", *words])
    assert lines == ["so many"]
    checked.assert_called_once_with(["a.pcap"])
    converted.assert_called_once_with(connect.return_value, ["a.pcap"], "out", "pi", mode)


def test_a_table_of_captures_is_asked_for_with_the_point_of_files_without_one() -> None:
    for point in (None, "pi"):
        spark = Mock()
        reader = spark.read.format.return_value.option.return_value
        convert.frames(spark, ["a.pcap"], point, "files")
        assert reader.option.call_args_list == [(("capturePoint", "pi"),)] * (point is not None)
        (reader if point is None else reader.option.return_value).load.assert_called_once_with(["a.pcap"])


def test_a_replay_of_one_endpoint_needs_no_spark(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Replayed()
    told.peers = [(36_000 * NS, "b", "found")]
    told.messages = [(1, "t", "b", 1, 1000), (2, "t", "b", 1001, 500), (3, "s", "c", 7, 1)]
    told.statistics = {"transport": Counter({"x": 0, "other": 1200})}
    replayed, paced, checked = Mock(return_value=told), Mock(), Mock()
    monkeypatch.setattr(replay, "replay", replayed)
    monkeypatch.setattr(replay, "pace", paced)
    monkeypatch.setattr(replay, "check", checked)
    monkeypatch.setattr(replay, "inbound", lambda captures, name: (captures, name))
    lines, connect = ran(replay.main, ["a.pcap", "--endpoint", "a", "--speed", "2"])
    assert lines == [
        "10:00:00  b: found", "        1 messages on s from c", "    1,500 messages on t from b",
        "    1,200 other (transport)",
    ]  # fmt: skip
    datagrams, settings, _ = replayed.call_args.args
    assert (datagrams, settings.name) == ((["a.pcap"], "a"), "a")
    paced.assert_called_once_with(2.0)
    checked.assert_called_once_with(["a.pcap"])
    assert not connect.called


def test_other_settings_of_one_endpoint_are_bars(ran: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(return_value=[{"lease_intervals": "2", "expired": 1, "messages": 5}])
    monkeypatch.setattr(replay, "what_if", asked)
    monkeypatch.setattr(replay, "check", Mock())
    monkeypatch.setattr(replay, "inbound", lambda captures, name: (captures, name))
    words = ["a.pcap", "--endpoint", "a", "--what-if", "lease_intervals=2,3"]
    lines, connect = ran(replay.main, words)
    assert [line.split()[2:4] for line in lines] == [["1", "expired"], ["5", "messages"]]
    sets = [{"lease_intervals": "2"}, {"lease_intervals": "3"}]
    asked.assert_called_once_with(connect.return_value, "a", (["a.pcap"], "a"), sets)
    with pytest.raises(ValueError, match=r"'window\.INITIAL=2': expected a setting"):  # of senders alone
        ran(replay.main, [*words, "--what-if", "window.INITIAL=2"])
    with pytest.raises(ConfigurationError, match="lease_intervals="):
        ran(replay.main, [*words, "--what-if", "lease_intervals=x"])


def test_a_capture_that_is_missing_is_told_before_anything_is_read(ran: Run, tmp_path: Path) -> None:
    for main in (replay.main, convert.main, analyze.main):
        with pytest.raises(CaptureError, match="no capture there"):
            ran(main, [f"{tmp_path}/missing", "--output", str(tmp_path)])
