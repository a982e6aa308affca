"""A command's session: made once, renewed after Java has ended, and ended in the way that leaves nothing behind."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark import command
from spark.command import Connection, period, progress, seconds
from spark.java import NoJavaError


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The maker of sessions."""
    made = Mock(side_effect=lambda *_, **__: Mock())
    monkeypatch.setattr(command, "session", made)
    return made


def java(monkeypatch: pytest.MonkeyPatch, process: Mock | None) -> Any:
    """Let Spark's own state be that of a Java with this process; None is one that spark-submit has started."""
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=process), _jvm=1, _active_spark_context=1)
    monkeypatch.setattr(command, "SparkContext", context)
    monkeypatch.setattr(command, "SparkSession", SimpleNamespace(_instantiatedSession=1))
    return context


def remembered() -> Any:
    """What PySpark keeps of the session of this process."""
    return vars(command)["SparkSession"]._instantiatedSession


def test_a_session_is_made_once_and_stopped_if_it_was_made(sessions: Mock) -> None:
    connection: Any = Connection("test", "local[1]")
    connection.stop()
    assert not sessions.called
    one = connection(77)
    assert connection() is one
    sessions.assert_called_once_with("glue test", "local[1]", size=77)
    connection.stop()
    one.stop.assert_called_once_with()


def test_only_a_java_that_has_ended_is_renewed(sessions: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = Connection("test", None)
    process = Mock()
    context = java(monkeypatch, process)
    process.poll.return_value = 1
    assert not connection.renew()  # there is no session yet
    first = connection()
    process.poll.return_value = None
    assert not connection.renew()
    context._gateway.proc = None
    assert not connection.renew()
    assert connection() is first
    context._gateway.proc = process
    process.poll.return_value = 0
    first.stop.side_effect = ConnectionError
    assert connection.renew()
    first.stop.assert_called_once_with()
    assert vars(context) == {"_gateway": None, "_jvm": None, "_active_spark_context": None}
    assert remembered() is None
    assert connection() is not first


def test_an_end_in_the_midst_tells_java_to_end_and_ends_it_if_it_does_not(
    sessions: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_stuck in (False, True):
        connection, process = Connection("test", None), Mock()
        java(monkeypatch, process)
        made: Any = connection()
        made.sparkContext.setLogLevel.side_effect = OSError if is_stuck else Py4JError
        process.wait.side_effect = subprocess.TimeoutExpired("java", 1) if is_stuck else None
        connection.abort()
        made.sparkContext.setLogLevel.assert_called_once_with("OFF")
        process.terminate.assert_called_once_with()
        process.wait.assert_called_once_with(10.0)
        assert process.kill.called == is_stuck
        assert not made.stop.called
        with pytest.raises(SystemExit):
            connection()


def test_an_end_without_a_java_of_ones_own_stops_the_session_and_one_without_a_session_nothing(
    sessions: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(monkeypatch, None)
    connection = Connection("test", None)
    made: Any = connection()
    connection.abort()
    made.stop.assert_called_once_with()
    process = Mock()
    java(monkeypatch, process)
    Connection("test", None).abort()
    assert not process.terminate.called


def test_a_java_that_starts_too_long_is_left_alone(sessions: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    process, began, over = Mock(), threading.Event(), threading.Event()
    java(monkeypatch, process)
    monkeypatch.setattr(command, "START_PATIENCE", 0.01)

    def make(*_: Any, **__: Any) -> Mock:
        began.set()
        over.wait(60)
        return Mock()

    sessions.side_effect = make
    connection = Connection("test", None)
    thread = threading.Thread(target=connection)
    thread.start()
    began.wait(60)
    connection.abort()
    over.set()
    thread.join()
    assert not process.terminate.called
    with pytest.raises(SystemExit):
        connection()


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        (ValueError("wrong"), 2, "spark.test: wrong\n"),
        (NoJavaError("none was found"), 2, "spark.test: Spark needs Java 17"),
        (OSError("disk"), 1, "spark.test: disk\n"),
        (PySparkException("failed"), 1, "spark.test: failed\n"),
        (Py4JError("failed"), 1, "spark.test: failed\n"),
        (None, 0, ""),
    ],
)
def test_the_session_is_stopped_whatever_the_work_came_to(
    sessions: Mock, work: Exception | None, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = list[Any]()

    def labour(connect: command.Connect) -> list[str]:
        made.append(connect())
        if work is not None:
            raise work
        return ["found"]

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert command.run("test", "local[1]", labour, "spoiled") == code
    sessions.assert_called_once_with("glue test", "local[1]", size=None)
    made[0].stop.assert_called_once_with()
    printed = capsys.readouterr()
    assert printed.err.startswith(said)
    assert printed.out == ("found\n" if code == 0 else "")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_service_manager_ends_a_command_as_ctrl_c_does(
    sessions: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", sys.stderr)  # which an interrupted command takes away
    java(monkeypatch, None)
    made, over = list[Any](), threading.Event()

    def labour(connect: command.Connect) -> list[str]:
        made.append(connect())
        assert threading.current_thread().daemon
        os.kill(os.getpid(), signal.SIGTERM)
        over.wait(60)
        return []

    assert command.run("test", None, labour, "half of it is there") == 143
    made[0].stop.assert_called_once_with()
    over.set()
    assert capsys.readouterr().err == "spark.test: interrupted; half of it is there\n"


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1.5", 1.5), ("1e3", 1000.0)])
def test_durations_are_read(text: str, value: float) -> None:
    assert seconds(text) == value
    if value:
        assert period(text) == value


@pytest.mark.parametrize("text", ["-1", "inf", "nan", "", "1 s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    for read in (seconds, period):
        with pytest.raises(argparse.ArgumentTypeError, match="is no number of seconds"):
            read(text)
    with pytest.raises(argparse.ArgumentTypeError, match="more than 0"):
        period("0")


def test_progress_is_told_with_its_time_but_not_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    said = progress("test")
    now[0] = 107.4
    said("half of it")
    assert capsys.readouterr().err == "spark.test: 0 s: starting Java\nspark.test: 7 s: half of it\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress("test")("half of it")
    assert capsys.readouterr().err == ""
