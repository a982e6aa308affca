"""What if: a trace under other settings, many sets of them, spread over Spark's executors; a row for each.

For one endpoint, the datagrams that reached it go through its layers again: what the receiver's settings, such as the
lease, would have changed. For all of them together, senders included, see `senders`.
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
    """A row for one set of settings: what the application would have seen."""
    settings = effective({"name": name}, {variable(setting): value for setting, value in changed.items()})
    told = replay(datagrams, settings)
    happened = [what for _, _, what in told.peers]
    row: Row = {**changed, "messages": told.message_count}
    return row | {what: happened.count(what) for what in ("found", "expired", "goodbye", "restarted")}


def what_if(spark: SparkSession, name: str, datagrams: Sequence[Captured], sets: Sequence[dict[str, str]]) -> list[Row]:
    """The outcomes at one endpoint of all sets, in their order; the trace is sent to each executor once."""
    trace = spark.sparkContext.broadcast(list(datagrams))
    return spark.sparkContext.parallelize(sets, len(sets)).map(lambda one: outcome(name, trace.value, one)).collect()


def what_if_all(spark: SparkSession, offer: Offered, sets: Sequence[dict[str, str]], seed: int = 0) -> list[Row]:
    """The same for all endpoints together, senders included."""
    trace = spark.sparkContext.broadcast(offer)
    return spark.sparkContext.parallelize(sets, len(sets)).map(lambda one: simulate(trace.value, one, seed)).collect()
