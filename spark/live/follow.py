"""Restart of a failed stream: from its checkpoint, after a pause, a few times in a row, and never silently.

Spark gives the Python process that plans a stream ten seconds to start. No setting changes this limit, and a busy
machine may exceed it. Java may also be killed for its memory. Finished batches are in the store, and a new query reads
unfinished ones from the captures again. Therefore a restart neither loses nor doubles a frame.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 60.0, 60.0, 60.0)
"""Seconds before each new attempt. When all attempts fail without a finished round, the cause is permanent."""

CAUSE = re.compile(r"(Error|Exception|exception): ")
MOST_LETTERS = 300  # most letters shown of a cause


class Follows(Protocol):
    """Interface of a stream to keep running, such as `spark.live.job.Live`."""

    rounds: int
    """Rounds finished so far."""

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start a query where the last one ended."""


class Connects(Protocol):
    """Interface of a session's maker, such as `spark.command.Connection`."""

    def __call__(self) -> SparkSession:
        """Return the session."""

    def renew(self) -> bool:
        """If Java has ended, let the next call make another session. Return whether Java has ended."""


def follow(
    live: Follows,
    connect: Connects,
    say: Callable[[str], object],
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Run queries until one ends by itself.

    Raises the last error if the attempts after all `PAUSES` have failed in a row.
    """
    failures, done = 0, live.rounds
    while True:
        try:
            live.start(connect()).awaitTermination()
            return
        except (PySparkException, Py4JError, OSError) as error:
            if live.rounds > done:
                failures, done = 0, live.rounds
            if failures == len(PAUSES):
                raise
            what = "Java ended" if connect.renew() else "the stream failed"
            say(f"{what}: {cause(error)}")
            say(f"going on from the checkpoint in {PAUSES[failures]:g} s (attempt {failures + 1} of {len(PAUSES)})")
            sleep(PAUSES[failures])
            failures += 1


def cause(error: BaseException) -> str:
    """Return an error as one line. Of Java's stack traces this is the last named error, which is the cause."""
    text = str(error).partition("=== Streaming Query ===")[0]  # the state of the query follows
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "...", "File ", "Traceback"))] or [repr(error)]
    named = [line for line in told if CAUSE.search(line)]
    return (named or told)[-1][:MOST_LETTERS]
