"""Common parts of this package's commands: a session, errors in one line, and an end by Ctrl-C.

The work runs in a separate thread, so that Ctrl-C interrupts only a waiting main thread. Spark's own handling would
raise KeyboardInterrupt within a call to Java. That breaks the connection to Java, and each further Ctrl-C breaks the
cleanup. Here Java is told to end, which it does cleanly at any time, and later errors of the work are not shown.
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
"""Exit codes: wrong input, and a failure on the way. After a signal the code is 128 plus its number."""

START_PATIENCE = 60.0  # seconds for a starting Java, which accepts no commands before
END_PATIENCE = 10.0  # seconds for Java to end its workers and remove its files before SIGKILL


class Connect(Protocol):
    """Maker of a command's session."""

    def __call__(self, size: int | None = None) -> SparkSession:
        """Return the session; `size` as for `spark.session.session`."""

    def renew(self) -> bool:
        """If Java has ended, let the next call make another session. Return whether Java has ended."""


Work = Callable[[Connect], Sequence[str]]
"""Work of a command. It gets the maker of the session, and returns lines for the terminal."""


def say(name: str, text: str) -> None:
    """Print a line on stderr: what the command `name` does, or an event."""
    print(f"spark.{name}: {printable(text)}", file=sys.stderr, flush=True)


def printable(line: str) -> str:
    """Make a line safe for a terminal: names and topics come from the network, and may have control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def progress(name: str) -> Callable[[str], object]:
    """Return a function that reports the progress of the command `name` on stderr, with the seconds so far.

    On a terminal it prints nothing, because Spark shows a bar.
    """
    began = time.monotonic()

    def said(text: str) -> None:
        if not sys.stderr.isatty():
            say(name, f"{time.monotonic() - began:.0f} s: {text}")

    said("starting Java")
    return said


def seconds(text: str) -> float:
    """Parse an option's duration in seconds, 0 or more, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def period(text: str) -> float:
    """Parse an option's duration in seconds, more than 0, for argparse."""
    if not (value := seconds(text)):
        raise argparse.ArgumentTypeError("has to be more than 0 seconds")
    return value


class Connection:
    """Session of a command. It is made when needed, and never after `abort`."""

    def __init__(self, name: str, master: str | None) -> None:
        self._name, self._master = name, master
        self._making = threading.Lock()
        self._session: SparkSession | None = None
        self._ended = False

    def __call__(self, size: int | None = None) -> SparkSession:
        """Return the session; `size` as for `spark.session.session`. Raises SystemExit after `abort`."""
        with self._making:
            if self._ended:
                raise SystemExit
            if self._session is None:
                self._session = session(f"glue {self._name}", self._master, size=size)
            return self._session

    def renew(self) -> bool:
        """If Java has ended, let the next call make another session. Return whether Java has ended."""
        java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
        if self._session is None or java is None or java.poll() is None:
            return False
        with self._making, contextlib.suppress(Exception):  # each call to the ended Java fails
            self._session.stop()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self._session = None
        return True

    def stop(self) -> None:
        """End the session after its work."""
        if self._session is not None:
            self._session.stop()

    def abort(self) -> None:
        """End the session during its work."""
        self._ended = True
        if not self._making.acquire(timeout=START_PATIENCE):
            return
        self._making.release()
        java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
        if self._session is None:
            return
        if java is None:  # spark-submit has started Java
            self._session.stop()
            return
        with contextlib.suppress(Py4JError, OSError):  # Java may have ended
            self._session.sparkContext.setLogLevel("OFF")  # hides the errors of tasks that fail now
        java.terminate()
        try:
            java.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            java.kill()


def run(name: str, master: str | None, work: Work, spoiled: str) -> int:
    """Run the work of the command `name`, print the outcome, and return the exit code.

    `spoiled` tells the state of the output after Ctrl-C or SIGTERM. Only the main thread may call this function.
    """
    connection = Connection(name, master)
    # signal handlers put outcomes, too
    told: SimpleQueue[Sequence[str] | BaseException | signal.Signals] = SimpleQueue()

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
            stderr, sys.stderr = sys.stderr, io.StringIO()  # hides errors from now until the end
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
        print("\n".join(map(printable, outcome)))
        return 0
    if not isinstance(outcome, ValueError | OSError | NoJavaError | PySparkException | Py4JError):
        raise outcome
    print(f"spark.{name}: {outcome}", file=sys.stderr)
    return MISTAKE if isinstance(outcome, ValueError | NoJavaError) else FAILURE
