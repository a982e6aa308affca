"""How the commands end: with what they found, with a mistake in one line, or by Ctrl-C, however often it is pressed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark import command
from spark.analyze.__main__ import main as analyze
from spark.convert import main as convert
from spark.live.__main__ import main as live
from spark.read import CaptureError
from spark.replay.__main__ import main as replay
from tests.spark.conftest import BRIEF

ROOT = Path(__file__).parents[2]
PATIENCE = 200.0  # seconds, also for a Java to start on a machine that is busy
PRESSES = 8  # of a Ctrl-C that is held
Connect = Callable[[], SparkSession]

ENDLESS = """
import pathlib, sys, time
from spark import command
from spark.analyze.__main__ import main as analyze
from spark.convert import main as convert
from spark.live.__main__ import main as live

def wait(began):
    pathlib.Path(began).touch()
    time.sleep(600)

def work(connect):
    return connect().sparkContext.parallelize(sys.argv[1:], 1).map(wait).collect()

sys.exit(command.run("test", "local[1]", work, "nothing was written"))
"""


def alive(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = status.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(status.parent.name))
    return found


def test_what_was_found_is_told_and_the_code_is_0(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.run("test", None, lambda _: ["one", "two"], "") == 0
    assert capfd.readouterr().out == "one\ntwo\n"


def test_names_in_a_capture_cannot_command_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.run("test", None, lambda _: ["3 messages on home/\x1b[2J\r\ud800 from küche ██"], "") == 0
    command.say("test", "the stream failed: \x1b]0;x\x07")
    told = capfd.readouterr()
    assert told.out == "3 messages on home/\\x1b[2J\\r\\ud800 from küche ██\n"
    assert told.err == "spark.test: the stream failed: \\x1b]0;x\\x07\n"


@pytest.mark.parametrize(("error", "code"), [(CaptureError("no such file"), 2), (OSError("no such file"), 1)])
def test_a_mistake_is_one_line(error: Exception, code: int, capfd: pytest.CaptureFixture[str]) -> None:
    def work(_: Connect) -> list[str]:
        raise error

    assert command.run("test", None, work, "") == code
    assert capfd.readouterr().err == "spark.test: no such file\n"


@pytest.mark.parametrize("main", [analyze, convert, live, replay])
def test_a_capture_that_is_not_there_is_told_at_once(
    main: Callable[[list[str]], int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing, output = tmp_path / "captures", tmp_path / "output"
    assert main([str(missing), "--output", str(output)]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert str(missing) in line
    assert not output.exists()


@pytest.mark.parametrize(
    ("main", "words"),
    [(analyze, ["a.pcap"]), (analyze, ["--output", "x"]), (convert, ["a.pcap"]), (convert, ["--output", "x"]),
     (live, ["captures"]), (live, ["--output", "x"]), (replay, [])],
)  # fmt: skip
def test_what_has_to_be_named_is_asked_for(
    main: Callable[[list[str]], int], words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "the following arguments are required" in capfd.readouterr().err


def test_what_no_user_can_have_caused_is_not_hidden() -> None:
    def work(_: Connect) -> list[str]:
        raise KeyError("a mistake of ours")

    with pytest.raises(KeyError):
        command.run("test", None, work, "")


def test_after_an_interrupt_no_session_is_made(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # which an interrupted command takes away
    over, ended = threading.Event(), threading.Event()

    def work(connect: Connect) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        assert over.wait(PATIENCE)
        try:
            connect()
        except SystemExit:
            ended.set()
        return []

    assert command.run("test", None, work, "nothing was written") == 130
    over.set()
    assert ended.wait(PATIENCE)
    assert capfd.readouterr().err == "spark.test: interrupted; nothing was written\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_held_in_the_midst_of_a_job_leaves_one_line_and_no_process(tmp_path: Path) -> None:
    temporary, began, said = tmp_path / "temporary", tmp_path / "began", tmp_path / "said"
    temporary.mkdir()
    options = f"{BRIEF} -Djava.io.tmpdir={temporary}"
    environment = {**os.environ, "TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": options}
    command = [sys.executable, "-c", ENDLESS, str(began)]
    with said.open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True, stderr=log)
    try:
        end = time.monotonic() + PATIENCE
        while not began.exists():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        for _ in range(PRESSES):  # each goes to all processes, as from a terminal
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.03)
        assert process.wait(PATIENCE) == 130
        while alive(process.pid):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        for number in alive(process.pid):
            os.kill(number, signal.SIGKILL)
        process.wait(PATIENCE)
    lines = [line for line in said.read_text().splitlines() if "JAVA_TOOL_OPTIONS" not in line]
    assert lines == ["spark.test: interrupted; nothing was written"]
    assert not list(temporary.iterdir())
