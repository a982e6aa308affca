"""Homes, recordings, clocks and the tables on the driver at their limits: exactly so much, and one more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.analyze import __main__ as command
from spark.analyze import delays, job
from spark.analyze import result as result_module
from spark.analyze.job import Analysis, NothingFoundError
from spark.analyze.places import Life
from spark.analyze.result import collect, files_rows, replaced, write_tables
from spark.analyze.rhythm import RESULT, _measure
from spark.measures.clocks import Hull, Relation, lower_hull, relate
from spark.read import CaptureError
from tests.spark.test_namesakes import found_by_file, seen
from tests.spark.test_places import NO_ANSWERS, homes

SECOND = 10**9


def test_a_single_point_is_home_if_it_lacks_a_thousandth_at_most() -> None:
    assert homes({"a": [999], "b": [998], "c": [0]}, "p", NO_ANSWERS) == {"a": "p", "b": None, "c": None}


def test_points_that_saw_98_of_a_hundred_of_the_best_are_told_apart_by_answers() -> None:
    answers = {("a", "b", "q"): 50.0, ("a", "b", "p"): 10.0}
    assert [homes({"a": [1000, seen_there]}, "p q", answers)["a"] for seen_there in (980, 979)] == ["q", "p"]


def test_answers_of_others_count_against_a_point_and_the_shortest_decides() -> None:
    for answers, home in (
        ({("b", "a", "p"): 30.0}, "q"),
        ({("b", "a", "q"): 30.0}, "p"),
        ({("a", "b", "p"): 30.0}, "p"),
        ({("a", "b", "p"): 10.0, ("a", "c", "p"): 90.0, ("a", "b", "q"): 20.0}, "q"),
        ({("b", "a", "p"): 10.0, ("c", "a", "p"): 90.0, ("b", "a", "q"): 20.0}, "p"),
        ({("b", "c", "q"): 99.0, ("c", "b", "p"): 1.0}, "p"),  # of others alone
    ):
        assert homes({"a": [1000, 999]}, "p q", answers) == {"a": home}


def test_what_left_at_two_points_left_at_the_one_with_more_or_the_last_by_name() -> None:
    def left(p: int, q: int) -> Any:
        return homes({"a": [5, 5]}, "p q", NO_ANSWERS, a={"p": p, "q": q})["a"]

    assert [left(3, 2), left(2, 3), left(2, 2), left(1, 0)] == ["p", "q", "q", "p"]


@pytest.mark.parametrize(
    ("one", "other", "are_apart"),
    [
        ((0, 7), (4, 11), True), ((0, 7), (5, 12), False),  # four numbers, and three
        ((0, 98), (89, 300), True), ((0, 99), (90, 300), False), ((200, 400), (111, 210), True),  # a tenth
        ((201, 400), (111, 210), False), ((0, 300), (50, 53), True), ((0, 9), (20, 29), False),
    ],
)  # fmt: skip
def test_files_are_of_two_places_if_they_share_four_numbers_and_a_tenth_of_the_shorter(
    one: tuple[int, int], other: tuple[int, int], are_apart: bool
) -> None:
    assert bool(found_by_file(seen("a.pcap", one), seen("b.pcap", other))) == are_apart
    assert bool(found_by_file(seen("b.pcap", other), seen("a.pcap", one))) == are_apart


def test_pieces_of_a_rotation_are_of_two_places_only_if_their_times_overlap_too() -> None:
    def apart(time: int, name: str = "t-00002.pcap") -> bool:
        first = seen("t-00001.pcap", (0, 99), (0, 99))
        return bool(found_by_file(first, seen(name, (0, 99), (time, time + 99))))

    assert [apart(89), apart(90), apart(90, "t-0002.pcap")] == [True, False, True]


def test_names_by_file_avoid_those_of_other_points() -> None:
    found = found_by_file(
        seen("x/a.pcap", (0, 900)), seen("x/b.pcap", (0, 900)), seen("other.pcap", (0, 900), point="b")
    )
    assert found == {"x/a.pcap": "x/a", "x/b.pcap": "x/b"}


def points(*pairs: tuple[int, int]) -> Hull:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Hull(table[:, 0], table[:, 1])


def test_a_way_without_time_leaves_an_error_of_a_nanosecond() -> None:
    (relation,) = relate(points((10, 500), (1010, 500)), points((0, -500), (1000, -500)))
    assert (relation.start, relation.stop) == (0, 1010)
    assert relation.offset == pytest.approx(500, abs=0.1)
    assert relation.bound == pytest.approx(1.0, abs=3.0)
    assert relation.at([0, 505, 1010]).tolist() == pytest.approx([500, 500, 500], abs=3)


@pytest.mark.parametrize(("drift", "fits"), [(999e-6, True), (-999e-6, True), (1.01e-3, False), (-1.01e-3, False)])
def test_a_clock_drifts_by_a_millisecond_in_a_second_at_most(drift: float, fits: bool) -> None:
    times = [SECOND * place for place in range(5)]
    gain = [round(drift * time) for time in times]
    forth = points(*((time, more + 1000) for time, more in zip(times, gain, strict=True)))
    back = points(*((time, 1000 - more) for time, more in zip(times, gain, strict=True)))
    relations = relate(forth, back)
    assert (relations[0].bound is not None) == fits
    if fits:
        assert relations[0].drift == pytest.approx(drift, abs=1e-6)


@pytest.mark.parametrize(("each", "pieces"), [(4, 2), (3, 1)])
def test_a_clock_that_was_set_needs_four_points_each_way_on_both_sides(each: int, pieces: int) -> None:
    def hull(sign: int) -> Hull:
        early = [(place * SECOND, sign * 10**8 + 1000) for place in range(each)]
        late = [((100 + place) * SECOND, sign * 5 * 10**8 + 1000) for place in range(each)]
        return points(*early, *late)

    relations = relate(hull(1), hull(-1))
    assert [relation.bound is None for relation in relations] == [pieces == 1] * pieces
    if pieces == 2:
        assert [relation.offset for relation in relations] == pytest.approx([10**8, 5 * 10**8], abs=20_000)
        assert relations[1].start == relations[0].stop + 1


def test_a_hull_is_cut_at_times_that_belong_to_the_later_part() -> None:
    whole = points((1, 10), (2, 20), (3, 30))
    assert [part.tolist() for part in whole.between(1, 3)] == [[1, 2], [10, 20]]
    assert [part.tolist() for part in lower_hull(np.array([2, 1, 1]), np.array([5, 9, 7]))] == [[1, 2], [7, 5]]
    assert relate(points((1, 2)), points()) == relate(points(), points((1, 2))) == []


def test_a_group_goes_on_in_the_next_batch() -> None:
    def batch(*rows: tuple[str, int, bool]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{"sender": sender, "incarnation": 1, "receiver": 0, "interval": 0, "counter": number, "sent_ns": number,
              "arrived_ns": None if lost else number + 5, "lost": lost} for sender, number, lost in rows],
            pa.schema([("sender", pa.string()), ("incarnation", pa.int64()), ("receiver", pa.int32()),
                       ("interval", pa.int64()), ("counter", pa.int64()), ("sent_ns", pa.int64()),
                       ("arrived_ns", pa.int64()), ("lost", pa.bool_())]),
        )  # fmt: skip

    def measured(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
        rows = [row for found in _measure(batches) for row in found.to_pylist()]
        assert all(list(row) == [column.split()[0] for column in RESULT.split(", ")] for row in rows)
        return [(row["sender"], row["loss_periods"], row["longest_loss"], row["jitter_count"]) for row in rows]

    rows = [("a", 1, False), ("a", 2, True), ("b", 1, True), ("b", 2, True), ("b", 3, False), ("c", 1, False)]
    for cut in range(1, 6):
        batches = iter([batch(*rows[:cut]), batch(*rows[cut:])])
        assert measured(batches) == [("a", 1, 1, 0), ("b", 1, 2, 0), ("c", 0, 0, 0)]
    assert measured(iter([])) == []


def test_workers_keep_the_lower_hull_of_each_group() -> None:
    columns = {"from": [0, 0, 0, 0, 0], "to": [1, 1, 1, 1, 1], "forth": [True, True, True, False, True],
               "part": [0, 0, 0, 0, 1], "time_ns": [3, 1, 2, 1, 9], "delay_ns": [10, 10, 30, 70, 40]}  # fmt: skip
    found = [row for batch in delays._hulls_of_batches(iter([pa.record_batch(columns)])) for row in batch.to_pylist()]
    told = sorted(tuple(row.values()) for row in found)
    assert told == [(0, 1, False, 0, 1, 70), (0, 1, True, 0, 1, 10), (0, 1, True, 0, 3, 10), (0, 1, True, 1, 9, 40)]
    relations = delays._relations([*reversed(found), {**found[0], "to": 2}])  # without answers
    assert list(relations) == [(0, 1)]
    assert (relations[0, 1][0].start, relations[0, 1][0].stop) == (1, 9)


def test_intervals_are_the_shortest_round_ones_of_which_120_are_enough() -> None:
    lengths = [12.0, 12.1, 24, 60, 120, 240, 600, 1200, 2400, 3600, 7200, 14400, 36_000, 72_000, 144_000, 216_000,
               432_000, 864_000, 1_728_000, 5_184_000, 10_368_000, 99_999_999]  # fmt: skip
    assert [job._interval_ns(round(length * SECOND), None) / SECOND for length in lengths] == [
        0.1, 0.2, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 86400,
    ]  # fmt: skip
    assert [job._interval_ns(5, value) for value in (0.25, 1e-12)] == [SECOND // 4, 1]


def lives() -> list[Life]:
    return [
        Life("1", 1, "a", ("10.0.0.1", 5), {"q": (30, 90), "p": (20, 80)}),
        Life("1", 2, "a", ("10.0.0.1", 5), {"q": (95, 99)}, home="q"),
        Life("2", 1, "b", ("10.0.0.2", 6), {"p": (10, 70)}, home="p"),
        Life("3", 1, "b", ("10.0.0.3", 7), {"p": (25, 60)}, home="p"),
    ]


def test_a_point_spans_what_it_saw_and_a_life_is_watched_at_home_or_where_it_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [job._span(lives(), point) for point in "pq"] == [(10, 80), (30, 99)]
    monkeypatch.setattr(job, "local_table", lambda _, rows, schema: rows)
    found: Any = job._vantage(Mock(), lives(), ["p", "q"])
    assert found == [("1", 1, "p", False), ("1", 2, "q", True), ("2", 1, "p", True), ("3", 1, "p", True)]
    assert str(NothingFoundError(["3 frames"])) == "there is no datagram of glue in it; 3 frames"
    forgotten = Mock()
    monkeypatch.setattr(job, "forget", forgotten)
    Analysis(0, 1, 1, [], [], {}, {}, {}, ["one", "two"]).close()  # type: ignore[list-item]
    assert [call.args for call in forgotten.call_args_list] == [("one",), ("two",)]


def test_an_analysis_is_collected_by_name_in_order_up_to_the_most_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"sender": "2", "receiver": 1, "x": 2}, {"sender": "1", "receiver": 0, "x": 1},
            {"sender": "1", "receiver": 0, "x": None}]  # fmt: skip
    files = [{"file": "b", "start": 0, "skipped": [("other UDP", 1200), ("sealed", 3)]},
             {"file": "a", "start": 9, "skipped": None}, {"file": "a", "start": 0, "skipped": []}]  # fmt: skip
    texts = [{"leader": "1", "newcomer": "9", "receiver": text, "at": at} for at, text in enumerate(["q", "3", "z"])]
    kept: dict[str, list[dict[str, Any]]] = {"pairs": rows, "texts": texts, "files": files}
    asked = list[tuple[list[str], int]]()

    def gather(tables: dict[str, Any], most: int) -> dict[str, pa.Table]:
        asked.append((list(tables), most))
        kinds = pa.schema([("file", pa.string()), ("start", pa.int64()), ("skipped", pa.map_(pa.string(), pa.int64()))])
        return {name: pa.Table.from_pylist(kept[name], kinds if name == "files" else None) for name in tables}

    monkeypatch.setattr(result_module, "gather", gather)
    monkeypatch.setattr(result_module, "MOST_ROWS", 3)
    relation = Relation(1, 2, 3.0, 0.5, None, None)
    relations = {(0, 1): [relation, relation._replace(start=2)], (0, 0): [relation]}
    tables: Any = {"deliveries": None, "pairs": None, "texts": None}
    names = {("pi", "x"): "a", ("pi", "y"): "b", ("pi", "z"): "a"}
    analysis = Analysis(10, 99, 7, ["p", "q"], lives(), relations, tables, names)
    found = collect(analysis, Mock())
    assert found["trace"] == {
        "start_ns": 10, "end_ns": 99, "interval_ns": 7, "points": ["p", "q"], "namesakes": {"pi": ["a", "b"]},
        "left_out": [],
    }  # fmt: skip
    assert [tuple(row.values()) for row in found["pairs"]] == [("2", "a", 2), ("a", "p", None), ("a", "p", 1)]
    assert [tuple(row.values()) for row in found["texts"]] == [
        ("a", "9", name, at) for at, name in ((1, "3"), (0, "a"), (2, "z"))
    ]
    assert [tuple(row.values()) for row in found["endpoints"]] == [
        ("a", "1", 1, None, "10.0.0.1:5", 30, 90), ("a", "1", 2, "q", "10.0.0.1:5", 95, 99),
        ("2", "2", 1, "p", "10.0.0.2:6", 10, 70), ("3", "3", 1, "p", "10.0.0.3:7", 25, 60),
    ]  # fmt: skip
    assert [(row["from"], row["to"], row["start"]) for row in found["clocks"]] == [
        ("p", "p", 1),
        ("p", "q", 1),
        ("p", "q", 2),
    ]
    assert [(row["file"], row["first_byte"], row["skipped"]) for row in found["files"]] == [
        ("a", 0, ""), ("a", 9, ""), ("b", 0, "1,200 other UDP, 3 sealed"),
    ]  # fmt: skip
    rows.append({"sender": "1", "receiver": 0, "x": 5})
    found = collect(analysis)
    assert (found["trace"]["left_out"], len(found["pairs"]), found["files"]) == (["pairs"], 3, [])
    assert asked == [(["pairs", "texts", "files"], 4), (["pairs", "texts"], 4)]
    assert files_rows(pa.table({"file": pa.array([], pa.string()), "start": pa.array([], pa.int64())})) == []


def test_tables_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    found = {"trace": {"points": ["p"]}, "pairs": [{"lost": 3}], "rhythm": []}
    write_tables({**found, "rhythm": [{"x": 1}], "sealed": [{"y": 2}]}, tmp_path / "new" / "report")  # an earlier one
    for _ in range(2):
        write_tables(found, tmp_path / "new" / "report")
    report = tmp_path / "new" / "report"
    assert sorted(path.name for path in report.rglob("*")) == ["analysis.json", "pairs.parquet", "tables"]
    assert pq.read_table(report / "tables" / "pairs.parquet").to_pylist() == [{"lost": 3}]
    assert json.loads((report / "analysis.json").read_text()) == found
    with pytest.raises(ValueError, match="JSON"):
        write_tables({"trace": {"x": float("nan")}}, report)
    assert json.loads((report / "analysis.json").read_text()) == found

    def fail(path: Path) -> None:
        path.touch()
        raise OSError("full")

    with pytest.raises(OSError, match="full"), replaced(tmp_path / "a") as fresh:
        fail(fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_frames_that_were_converted_are_told_from_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, capture = (str(tmp_path / name) for name in ("one/frames", "two/frames", "a.pcap"))
    for frames in (first, second):
        Path(frames).mkdir(parents=True)
        Path(frames, "_SUCCESS").touch()
    Path(capture).touch()
    spark, read = Mock(), Mock()
    monkeypatch.setattr(command, "frames", read)
    assert [command.converted(paths) for paths in ([first, second], [capture])] == [True, False]
    with pytest.raises(CaptureError):
        command.converted([str(tmp_path / "missing")])
    assert command.read(spark, [first, second], "pi") is spark.read.parquet.return_value
    assert command.read_files(spark, [first, second], "pi") is None
    Path(second).with_name("files").mkdir()
    assert command.read_files(spark, [first, second], "pi") is spark.read.parquet.return_value
    assert [call.args for call in spark.read.parquet.call_args_list] == [(first, second), (f"{tmp_path}/two/files",)]
    assert not read.called
    assert command.read(spark, [capture], "pi") is command.read_files(spark, [capture], "pi") is read.return_value
    assert [call.args[1:] for call in read.call_args_list] == [([capture], "pi"), ([capture], "pi", "files")]
