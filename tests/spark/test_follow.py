"""A stream goes on after a failure, says so, and gives up what fails again and again; files may vanish meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from spark.live.follow import PAUSES, cause, follow
from spark.live.source import NEWEST, TALLY, LiveReader
from spark.source import Part
from tests.spark.captures import GOLDEN, ethernet, frame, ipv4, pcap, udp

ERROR = """[STREAM_FAILED] Query [id = 8, runId = 6] terminated with exception: Python worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory.create(PythonWorkerFactory.scala:111)
=== Streaming Query ===
Current State: ACTIVE
Thread State: RUNNABLE
"""


class Query:
    """One that fails, or ends by itself."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def awaitTermination(self) -> None:  # noqa: N802 (Spark's name)
        if self._fails:
            raise StreamingQueryException(ERROR)


class Life:
    """A stream of which `outcomes` tells whether each query fails, and how many rounds it does before."""

    def __init__(self, *outcomes: tuple[bool, int]) -> None:
        self.rounds = 0
        self.sessions = 0
        self._outcomes = list(outcomes)

    def start(self, _: Any) -> Any:
        fails, rounds = self._outcomes.pop(0)
        self.rounds += rounds
        return Query(fails)

    def __call__(self) -> Any:
        self.sessions += 1

    java_ended = False

    def renew(self) -> bool:
        return self.java_ended


def test_a_stream_that_failed_goes_on_and_says_why() -> None:
    life, said, slept = Life((True, 0), (True, 0), (False, 1)), list[str](), list[float]()
    follow(life, life, said.append, slept.append)
    assert slept == list(PAUSES[:2])
    assert said[:2] == [
        "the stream failed: [STREAM_FAILED] Query [id = 8, runId = 6] terminated with exception: Python worker failed "
        "to connect back.",
        "going on from the checkpoint in 1 s (attempt 1 of 10)",
    ]


def test_what_fails_again_and_again_is_given_up() -> None:
    life, slept = Life(*[(True, 0)] * (len(PAUSES) + 1)), list[float]()
    with pytest.raises(StreamingQueryException):
        follow(life, life, lambda _: None, slept.append)
    assert slept == list(PAUSES)


def test_a_round_between_two_failures_begins_to_count_anew() -> None:
    life, slept = Life(*[(True, 1)] * (2 * len(PAUSES)), (False, 0)), list[float]()
    follow(life, life, lambda _: None, slept.append)
    assert slept == [PAUSES[0]] * (2 * len(PAUSES))


def test_each_attempt_is_told_with_its_pause_and_what_ended() -> None:
    life, said = Life((True, 0), (True, 0), (True, 2), (True, 0), (False, 0)), list[str]()
    life.java_ended = True
    follow(life, life, said.append, lambda _: None)
    assert {line.partition(":")[0] for line in said[::2]} == {"Java ended"}
    assert [line.removeprefix("going on from the checkpoint in ") for line in said[1::2]] == [
        "1 s (attempt 1 of 10)", "2 s (attempt 2 of 10)", "1 s (attempt 1 of 10)", "2 s (attempt 2 of 10)",
    ]  # fmt: skip
    assert life.sessions == 5


def test_a_mistake_of_the_program_is_no_failure_to_wait_for() -> None:
    life, slept = Life((False, 0)), list[float]()
    with pytest.raises(IndexError):
        follow(Life(), life, lambda _: None, slept.append)
    assert slept == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("disk full", "disk full"),
        ("  \n disk full \n\n", "disk full"),
        ("first\nlast", "last"),
        ("java.io.IOException: disk full\n\tat a.b(C.java)\n\t... 3 more", "java.io.IOException: disk full"),
        ("a.B: x\nCaused by: java.lang.Error: gone\nsome more", "Caused by: java.lang.Error: gone"),
        ("KeyError: 1\nPy4JException: 2\nan exception: 3\nno cause", "an exception: 3"),
        ('Traceback (most recent call last):\n  File "a.py"\nOSError: full', "OSError: full"),
        ("at x\n...\nFile y\nTraceback z", "OSError('at x\\n...\\nFile y\\nTraceback z')"),
        ("it failed\n=== Streaming Query ===\nThe Error: x", "it failed"),
        ("x" * 300, "x" * 300),
        ("y" * 301, "y" * 300),
    ],
)
def test_a_cause_is_one_line(text: str, told: str) -> None:
    assert cause(OSError(text)) == told


def test_a_cause_without_words_is_the_error_itself() -> None:
    assert cause(ValueError()) == "ValueError()"


def capture(path: Path) -> Path:
    path.write_bytes(pcap([ethernet(ipv4(udp(b"a query")))]))
    return path


def test_a_directory_without_captures_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert LiveReader(str(tmp_path), 0.0).latestOffset() == {NEWEST: 0}


def test_a_file_that_is_deleted_before_it_is_read_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    reader = LiveReader(str(tmp_path), 0.0)
    gone, stays = capture(tmp_path / "a.pcap"), capture(tmp_path / "b.pcap")
    end = reader.latestOffset()
    parts = reader.partitions({NEWEST: 0}, end)
    gone.unlink()
    told = []
    for part in parts:
        assert isinstance(part, Part)
        told += [row[TALLY] for batch in reader.read(part) for row in batch.to_pylist() if row[TALLY]]
    assert {row["file"]: (row["fault"], row["faults"], row["records"]) for row in told} == {
        str(gone): ("it was deleted before it was read", 1, 0),
        str(stays): (None, 0, 1),
    }
    stays.unlink()
    assert reader.latestOffset() == end  # else what comes later would be read twice


def test_a_file_that_is_deleted_once_its_frames_were_read_is_told(tmp_path: Path) -> None:
    reader = LiveReader(str(tmp_path), 0.0)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([frame(GOLDEN["data"])]))
    (part,) = reader.partitions({NEWEST: 0}, reader.latestOffset())
    assert isinstance(part, Part)
    batches = reader.read(part)
    rows = next(batches).to_pylist()
    path.unlink()
    (told,) = [row[TALLY] for batch in batches for row in batch.to_pylist()]
    assert (len(rows), told["records"], told["fault"]) == (1, 1, "it was deleted before it was read")


def test_a_file_that_is_deleted_while_it_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stays = capture(tmp_path / "b.pcap")
    paths = [str(tmp_path / "a.pcap"), str(stays)]
    monkeypatch.setattr("spark.live.source.captures", lambda _: paths)
    reader = LiveReader(str(tmp_path), 0.0)
    end = reader.latestOffset()
    assert end == {NEWEST: stays.stat().st_mtime_ns}
    assert len(reader.partitions({NEWEST: 0}, end)) == 1
