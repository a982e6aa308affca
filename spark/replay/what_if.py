"""Outcomes of what-if analyses: a row for each set of other settings, computed on Spark's executors.

The trace of one endpoint's received datagrams runs through its layers again. The outcome shows the effect of the
receiver's settings, such as the lease. `senders` simulates all endpoints together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from glue.settings import effective, variable
from spark.replay.engine import Captured, replay
from spark.replay.offered import Offered
from spark.replay.senders import simulate

Row = dict[str, Any]


def outcome(name: str, datagrams: Sequence[Captured], changed: dict[str, str]) -> Row:
    """Replay one set of settings, and return a row with the events that the application would have seen."""
    settings = effective({"name": name}, {variable(setting): value for setting, value in changed.items()})
    told = replay(datagrams, settings)
    happened = [what for _, _, what in told.peers]
    row: Row = {**changed, "messages": told.message_count}
    return row | {what: happened.count(what) for what in ("found", "expired", "goodbye", "restarted")}


def what_if(spark: SparkSession, name: str, datagrams: Sequence[Captured], sets: Sequence[dict[str, str]]) -> list[Row]:
    """Replay all sets at one endpoint, and return the rows in order. Each executor gets the trace once."""
    trace = spark.sparkContext.broadcast(list(datagrams))
    return spark.sparkContext.parallelize(sets, len(sets)).map(lambda one: outcome(name, trace.value, one)).collect()


def what_if_all(spark: SparkSession, offer: Offered, sets: Sequence[dict[str, str]], seed: int = 0) -> list[Row]:
    """Simulate all endpoints with all sets, and return the rows in order."""
    trace = spark.sparkContext.broadcast(offer)
    return spark.sparkContext.parallelize(sets, len(sets)).map(lambda one: simulate(trace.value, one, seed)).collect()
