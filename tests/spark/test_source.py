"""Captures in Spark: the data source gives what the reader gives, in parts, by column, from many files."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.convert import convert, summary
from spark.read import CaptureError, check
from tests.spark.captures import GOLDEN, ethernet, frame, ipv4, pcap, pcapng, udp
from tests.spark.rows import read

ROOT = Path(__file__).parents[2]
FRAMES = [frame(datagram) for datagram in GOLDEN.values()]
FOREIGN = ethernet(ipv4(udp(b"M-SEARCH * HTTP/1.1\r\n")))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two captures, one of them cut off."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "left.pcap").write_bytes(pcap([*FRAMES, FOREIGN] * 200))
    (tmp_path / "in" / "right.pcapng").write_bytes(pcapng(FRAMES)[:-1])
    return tmp_path / "in"


def test_rows_are_those_of_the_reader(spark: SparkSession, directory: Path) -> None:
    whole = spark.read.format("pcap").option("partitionBytes", 200_000).load(str(directory))
    rows = sorted((row.asDict(True) for row in whole.collect()), key=lambda row: (row["file"], row["offset"]))
    left, _ = read(directory / "left.pcap")
    right, _ = read(directory / "right.pcapng")
    assert rows == left + right
    assert whole.rdd.getNumPartitions() > 4


def test_columns_chosen_and_several_paths(spark: SparkSession, directory: Path) -> None:
    paths = [str(directory / "left.pcap"), f"file://{directory}/right.*"]
    some = spark.read.format("pcap").schema("counter bigint, datagram binary").load(paths)
    assert some.columns == ["counter", "datagram"]
    assert {bytes(row.datagram) for row in some.collect()} == set(GOLDEN.values())


def test_mistakes_are_told(spark: SparkSession, directory: Path) -> None:
    source = spark.read.format("pcap")
    with pytest.raises(PySparkException, match="counter string: that is bigint"):
        source.schema("counter string").load(str(directory)).collect()
    with pytest.raises(PySparkException, match="no capture there"):
        spark.read.format("pcap").load(str(directory / "missing")).collect()


def test_a_file_that_is_no_capture_is_told_in_a_line_before_work_begins(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.pcap"
    wrong.write_bytes(b"these are notes")
    with pytest.raises(CaptureError, match=r"notes\.pcap: neither pcap nor pcapng"):
        check([str(wrong)])
    check([str(tmp_path)])  # only found there: told in the table files, beside what is read


def test_an_error_in_the_log_of_spark_is_one_line(spark: SparkSession) -> None:
    java: Any = spark._jvm
    log4j = java.org.apache.logging.log4j
    cause = java.java.lang.IllegalStateException("no room\nleft", java.java.io.IOException("disk"))
    event = log4j.core.impl.Log4jLogEvent.newBuilder().setLevel(log4j.Level.ERROR).setLoggerName("org.spark.Writer")
    event = event.setMessage(log4j.message.SimpleMessage("it\nfailed")).setThrown(cause).build()
    console = log4j.LogManager.getContext(False).getConfiguration().getAppender("console")
    told = "spark: ERROR Writer: it failed java.lang.IllegalStateException: no room left"
    assert console.getLayout().toSerializable(event).rstrip().splitlines() == [told]


def test_conversion_to_parquet_tells_what_was_not_read(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    files = convert(spark, [str(directory)], str(tmp_path / "out"), None, "errorifexists")
    count = 201 * len(FRAMES) - 1
    assert summary(files) == [
        f"{count + 200:,} frames captured, {count:,} of them glue's datagrams",
        "skipped: 200 (other UDP)",
        f"{directory}/right.pcapng: the file ends within a record at byte "
        f"{len(pcapng(FRAMES[:-1])):,}, {len(pcapng(FRAMES)) - len(pcapng(FRAMES[:-1])) - 1:,} bytes unread",
    ]
    frames = spark.read.parquet(str(tmp_path / "out" / "frames"))
    assert frames.where("point = 'left' and hour = '2023-11-14-22'").count() == 200 * len(FRAMES)


PROGRAM = """
import time
from spark.session import session
spark = session()
print(spark.read.format("pcap").load({path!r}).count(), flush=True)
spark.sparkContext.parallelize(range(4), 4).foreach(lambda _: time.sleep({patience}))
spark.stop()
"""
BAR = re.compile(r"\[Stage \d+:[=> ]*\([\d +]+\) / \d+\]")
WORK = 1.0  # seconds of each of four tasks: Spark draws its bar for what takes longer than half of one


@pytest.fixture
def path_without_java(tmp_path: Path) -> Path:
    """A directory with all commands of this machine but Java."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for directory in os.environ["PATH"].split(":"):
        for command in Path(directory).glob("*") if directory else ():
            if command.name != "java" and not (commands / command.name).is_symlink():
                (commands / command.name).symlink_to(command)
    return commands


def on_terminal(command: list[str], environment: dict[str, str]) -> tuple[str, str, int]:
    """Run a command of which only stderr is a terminal; returns what it printed, what the terminal got, its code."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def watch() -> None:
        with contextlib.suppress(OSError):  # so Linux tells that nobody has the terminal open any more
            while piece := os.read(ours, 1 << 16):
                shown.extend(piece)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with os.fdopen(theirs, "wb") as terminal:
            done = subprocess.run(
                command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, timeout=100, check=False
            )
    finally:
        watcher.join()
        os.close(ours)
    return done.stdout.decode(), shown.decode(), done.returncode


def test_a_machine_without_java_uses_the_one_from_pypi_and_a_terminal_sees_a_bar_and_no_log(
    directory: Path, path_without_java: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    command = [sys.executable, "-c", PROGRAM.format(path=str(directory), patience=WORK)]
    printed, shown, code = on_terminal(command, {**environment, "PATH": str(path_without_java)})
    assert (printed, code) == (f"{201 * len(FRAMES) - 1}\n", 0)
    assert BAR.search(shown)
    assert BAR.sub("", shown).strip() == ""
