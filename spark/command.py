"""What the commands of this package share: a session for their work, mistakes in one line, and an end by Ctrl-C.

The work is done in a thread of its own, so that Ctrl-C finds nothing but a main thread that waits. Raised in the midst
of a call to Java, as Spark does it, KeyboardInterrupt breaks that connection, and each further Ctrl-C breaks what was
cleaning up. Here Java is told to end, which it does tidily at any time, and what the work makes of that nobody hears.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.java import NoJavaError
from spark.session import session

MISTAKE, FAILURE = 2, 1
"""Exit codes: what was given is wrong; something went wrong on the way. By a signal: 128 and its number."""

START_PATIENCE = 60.0  # seconds for a Java that is starting: it cannot be told anything before
END_PATIENCE = 10.0  # seconds for Java to end its workers and remove its files before it is killed


class Connect(Protocol):
    """What makes the session of a command."""

    def __call__(self, size: int | None = None) -> SparkSession:
        """The session; `size` as for `spark.session.session`."""

    def renew(self) -> bool:
        """Let the next call make another session if Java has ended; returns whether it has."""


Work = Callable[[Connect], Sequence[str]]
"""Gets what makes the session, for when it needs one, and returns lines for the terminal."""


def say(name: str, text: str) -> None:
    """Tell on stderr what the command `name` does now, or what happened to it."""
    print(f"spark.{name}: {text}", file=sys.stderr, flush=True)


def progress(name: str) -> Callable[[str], object]:
    """What tells on stderr how far the command `name` is, with the seconds so far; on a terminal Spark's bar does."""
    began = time.monotonic()

    def said(text: str) -> None:
        if not sys.stderr.isatty():
            say(name, f"{time.monotonic() - began:.0f} s: {text}")

    said("starting Java")
    return said


def seconds(text: str) -> float:
    """A length of time of an option: 0 is none. For argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def period(text: str) -> float:
    """The same above 0."""
    if not (value := seconds(text)):
        raise argparse.ArgumentTypeError("has to be more than 0 seconds")
    return value


class Connection:
    """The session of a command, made at most once, and never after it was ended."""

    def __init__(self, name: str, master: str | None) -> None:
        self._name, self._master = name, master
        self._making = threading.Lock()
        self._session: SparkSession | None = None
        self._ended = False

    def __call__(self, size: int | None = None) -> SparkSession:
        """The session; `size` as for `spark.session.session`."""
        with self._making:
            if self._ended:
                raise SystemExit
            if self._session is None:
                self._session = session(f"glue {self._name}", self._master, size=size)
            return self._session

    def renew(self) -> bool:
        """Let the next call make another session if Java has ended; returns whether it has."""
        java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
        if self._session is None or java is None or java.poll() is None:
            return False
        with self._making, contextlib.suppress(Exception):  # each of its calls to Java fails
            self._session.stop()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self._session = None
        return True

    def stop(self) -> None:
        """End it after its work."""
        if self._session is not None:
            self._session.stop()

    def abort(self) -> None:
        """End it in the midst of its work."""
        self._ended = True
        if not self._making.acquire(timeout=START_PATIENCE):
            return
        self._making.release()
        java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
        if self._session is None:
            return
        if java is None:  # it is spark-submit that started Java
            self._session.stop()
            return
        with contextlib.suppress(Py4JError, OSError):  # it may have ended
            self._session.sparkContext.setLogLevel("OFF")  # of tasks that now fail
        java.terminate()
        try:
            java.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            java.kill()


def run(name: str, master: str | None, work: Work, spoiled: str) -> int:
    """Do the work of the command `name`, tell what it found, and return the exit code.

    `spoiled` says what becomes of its output when Ctrl-C or SIGTERM ends it. To be called by the main thread.
    """
    connection = Connection(name, master)
    told: SimpleQueue[Sequence[str] | BaseException | signal.Signals] = SimpleQueue()  # handlers may put, too

    def labour() -> None:
        try:
            told.put(work(connection))
        except BaseException as error:
            told.put(error)

    before = {
        number: signal.signal(number, lambda number, _: told.put(signal.Signals(number)))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        threading.Thread(target=labour, name=f"spark.{name}", daemon=True).start()
        outcome = told.get()
        if isinstance(outcome, signal.Signals):
            stderr, sys.stderr = sys.stderr, io.StringIO()  # for what fails now, until the very end
            connection.abort()
            print(f"spark.{name}: interrupted; {spoiled}", file=stderr)
            return 128 + outcome
        code = _tell(name, outcome)
        connection.stop()
        return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(name: str, outcome: Sequence[str] | BaseException) -> int:
    if not isinstance(outcome, BaseException):
        print("\n".join(outcome))
        return 0
    if not isinstance(outcome, ValueError | OSError | NoJavaError | PySparkException | Py4JError):
        raise outcome
    print(f"spark.{name}: {outcome}", file=sys.stderr)
    return MISTAKE if isinstance(outcome, ValueError | NoJavaError) else FAILURE
