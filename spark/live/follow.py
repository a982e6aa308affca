"""A stream that goes on after a failure: from its checkpoint, after a pause, a few times in a row, and never silently.

Spark gives the Python process that plans a stream ten seconds to start, which no setting changes: too little on a busy
machine. Java may be killed for its memory. What was taken is in the store, and what was not is read again from the
captures, so that another query, or another Java, loses and doubles nothing.
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
"""Seconds before each new attempt; what fails once more without a round in between has a cause that stays."""

CAUSE = re.compile(r"(Error|Exception|exception): ")
MOST_LETTERS = 300  # of a cause


class Follows(Protocol):
    """What is to be kept going: `spark.live.job.Live`."""

    rounds: int
    """How many were done so far."""

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start a query where the last one ended."""


class Connects(Protocol):
    """What makes the session: `spark.command.Connection`."""

    def __call__(self) -> SparkSession:
        """The session."""

    def renew(self) -> bool:
        """Let the next call make another one if Java has ended; returns whether it has."""


def follow(
    live: Follows,
    connect: Connects,
    say: Callable[[str], object],
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Run queries until one ends by itself. Raises what the last one failed by once all `PAUSES` in a row were for
    nothing.
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
    """An error in one line: of Java's stack traces, what they say at last, which is the cause."""
    text = str(error).partition("=== Streaming Query ===")[0]  # behind it, the state of the query
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "...", "File ", "Traceback"))] or [repr(error)]
    named = [line for line in told if CAUSE.search(line)]
    return (named or told)[-1][:MOST_LETTERS]
