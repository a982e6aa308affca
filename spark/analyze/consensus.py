"""Activity of models in their messages: leaders, terms, and the durations of commits.

A leader's appends carry its entries and its commit index, and the leader sends a new commit index at once. Therefore
the leader's messages tell everything except resends. Candidates ask for votes. Definitions are in docs/analysis.md, and
the messages in docs/consensus.md.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from spark.analyze.datagrams import interval_of

APPEND, VOTE = "append", "vote?"
MODEL = ["model", "group"]
LEADER = ["sender", "incarnation", *MODEL, "term"]


def messages(frames: DataFrame) -> DataFrame:
    """Return the messages of consensus, one row for each."""
    columns = ["capture_point", "time_ns", "sender", "incarnation"]
    return frames.where("consensus is not null").select(*columns, sql.inline("consensus"))


def leaders(said: DataFrame, vantage: DataFrame) -> DataFrame:
    """Return the terms of each model with their leaders, null if no leader was elected.

    - `from_ns`, `to_ns`: the leader's first and last append.
    - `vacant_ns`: time from an earlier leader's last append at the same point to this leader's first.
    - `candidates`: number of endpoints that asked for votes in this term.
    - `last_index`, `commit_index`: the highest of the term's appends.

    All times are by the clock of the leader's capture point.
    """
    appends, asks = sql.col("kind") == APPEND, (sql.col("kind") == VOTE) & ~sql.col("pre")
    who = sql.struct("sender", "incarnation")
    terms = said.groupBy(*MODEL, "term", "capture_point").agg(
        sql.max(sql.when(appends, who)).alias("leading"),
        sql.max(sql.when(asks, who)).alias("asking"),
        sql.min(sql.when(appends, sql.col("time_ns"))).alias("from_ns"),
        sql.max(sql.when(appends, sql.col("time_ns"))).alias("to_ns"),
        sql.count_distinct(sql.when(asks, sql.col("sender"))).alias("candidates"),
        sql.max(sql.col("previous_index") + sql.col("entries")).alias("last_index"),
        sql.max("commit_index").alias("commit_index"),
    )
    earlier = Window.partitionBy(*MODEL, "capture_point").orderBy("term").rowsBetween(Window.unboundedPreceding, -1)
    seen = terms.withColumn("before", sql.max("to_ns").over(earlier)).withColumn(
        "who", sql.coalesce("leading", "asking")
    )
    there = sql.broadcast(vantage.select(sql.struct("sender", "incarnation").alias("who"), "point"))
    return (
        seen.join(there, "who")
        .where("capture_point = point")
        .select(
            *MODEL, "term", sql.col("leading.sender").alias("leader"), "from_ns", "to_ns",
            (sql.col("from_ns") - sql.col("before")).alias("vacant_ns"), "candidates", "last_index", "commit_index",
        )
    )  # fmt: skip


def commits(said: DataFrame, vantage: DataFrame, interval_ns: int) -> DataFrame:
    """Return the durations of commits: (measure, sender, receiver, value_ns, interval). The receiver is "model …".

    A commit lasts from the leader's first append with an entry to the first append with a commit index that covers the
    entry, at the point where the leader is seen best. Entries committed before they were first seen give no sample.
    """
    here = said.join(sql.broadcast(vantage), ["sender", "incarnation"]).where("capture_point = point")
    appends = here.where(sql.col("kind") == APPEND)
    sent = (
        appends.where("entries > 0")
        .select(
            *LEADER, "time_ns", sql.expr("explode(sequence(previous_index + 1, previous_index + entries)) as place")
        )
        .groupBy(*LEADER, "place")
        .agg(sql.min("time_ns").alias("sent_ns"))
        .withColumn("told_ns", sql.lit(None).cast("bigint"))
    )
    told = (
        appends.groupBy(*LEADER, sql.col("commit_index").alias("place"))
        .agg(sql.min("time_ns").alias("told_ns"))
        .select(*LEADER, "place", sql.lit(None).cast("bigint").alias("sent_ns"), "told_ns")
    )
    covering = Window.partitionBy(*LEADER).orderBy(sql.desc("place"))  # this index and all higher ones
    both = sent.unionByName(told).withColumn("committed_ns", sql.min("told_ns").over(covering))
    return both.where("sent_ns < committed_ns").select(
        sql.lit("commit").alias("measure"),
        "sender",
        sql.concat(sql.lit("model "), "model").alias("receiver"),
        (sql.col("committed_ns") - sql.col("sent_ns")).alias("value_ns"),
        interval_of(sql.col("sent_ns"), interval_ns).alias("interval"),
    )
