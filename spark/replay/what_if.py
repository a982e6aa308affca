"""What if: the same datagrams through stacks with other settings, spread over Spark's executors.

Only what the settings change at the receiver is seen, for the senders did what they did. The lease is such a setting:
how many peers would have been given up although they lived, had it been shorter?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import product
from typing import Any

from pyspark.sql import SparkSession

from glue.settings import Settings, effective, variable
from spark.replay.engine import Captured, replay

Row = dict[str, Any]


def settings_of(words: Sequence[str]) -> list[dict[str, str]]:
    """All combinations of settings told as "name=value,value,…". Raises ValueError for other words."""
    known = {field.name for field in fields(Settings)}
    choices = []
    for word in words:
        name, _, values = word.partition("=")
        if name not in known or not values:
            raise ValueError(f"{word!r}: expected a setting and its values, such as lease_intervals=2,3,5")
        choices.append([(name, value) for value in values.split(",")])
    return [dict(combination) for combination in product(*choices)]


def outcome(name: str, datagrams: Sequence[Captured], changed: dict[str, str]) -> Row:
    """A row for one set of settings: what the application would have seen."""
    settings = effective({"name": name}, {variable(setting): value for setting, value in changed.items()})
    told = replay(datagrams, settings)
    happened = [what for _, _, what in told.peers]
    row: Row = {**changed, "messages": told.message_count}
    return row | {what: happened.count(what) for what in ("found", "expired", "goodbye", "restarted")}


def what_if(spark: SparkSession, name: str, datagrams: Sequence[Captured], sets: Sequence[dict[str, str]]) -> list[Row]:
    """The outcomes of all sets, in their order; the trace is sent to each executor once."""
    trace = spark.sparkContext.broadcast(list(datagrams))
    return spark.sparkContext.parallelize(sets, len(sets)).map(lambda one: outcome(name, trace.value, one)).collect()
