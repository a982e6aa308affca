"""Relations between the clocks of capture points, from the raw delays between them (see `spark.measures.clocks`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.analyze.gather import local_table
from spark.analyze.places import EVER
from spark.measures.clocks import Hull, Relation, lower_hull, relate

PARTS = 64
"""Number of parts of the trace with separate hulls, to detect that a clock was set. A hull has about a dozen points."""

HULLS = "from int, to int, forth boolean, part bigint, time_ns bigint, delay_ns bigint"


def find_relations(rows: DataFrame, span: tuple[int, int]) -> dict[tuple[int, int], list[Relation]]:
    """Return the relation of the clocks of each pair of points (lower number first) with traffic both ways."""
    length = max(1, (span[1] - span[0]) // PARTS)
    is_forth = sql.col("home") < sql.col("receiver")
    raw = rows.where("sent_ns is not null and arrived_ns is not null and receiver is not null").select(
        sql.least("home", "receiver").alias("from"),
        sql.greatest("home", "receiver").alias("to"),
        is_forth.alias("forth"),
        sql.when(is_forth, sql.col("sent_ns")).otherwise(sql.col("arrived_ns")).alias("time_ns"),
        (sql.col("arrived_ns") - sql.col("sent_ns")).alias("delay_ns"),
    )
    raw = raw.withColumn("part", sql.floor((sql.col("time_ns") - span[0]) / length)).select(
        "from", "to", "forth", "part", "time_ns", "delay_ns"
    )
    key = ["from", "to", "forth", "part"]
    hulls = raw.mapInArrow(_hulls_of_batches, HULLS).groupBy(*key).applyInArrow(_hull_of_group, HULLS)
    return _relations(hulls.toArrow().to_pylist())


def _hulls_of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reduce each group in each batch to the points on its lower hull."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        groups = table.select(["from", "to", "forth", "part"]).group_by(["from", "to", "forth", "part"]).aggregate([])
        for group in groups.to_pylist():
            mask = np.ones(len(batch), bool)
            for name, value in group.items():
                mask &= batch.column(name).to_numpy(zero_copy_only=False) == value
            yield from _hull_of_group(table.filter(pa.array(mask))).to_batches()


def _hull_of_group(table: pa.Table) -> pa.Table:
    """Return the rows of a group on its lower hull."""
    hull = lower_hull(table["time_ns"].to_numpy(), table["delay_ns"].to_numpy())
    out = table.slice(0, 1).take(pa.array(np.zeros(len(hull.times), np.int64)))
    out = out.set_column(4, table.schema.field("time_ns"), pa.array(hull.times))
    return out.set_column(5, table.schema.field("delay_ns"), pa.array(hull.delays))


def _relations(rows: Sequence[dict[str, Any]]) -> dict[tuple[int, int], list[Relation]]:
    points: dict[tuple[int, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for row in rows:
        forth, back = points.setdefault((row["from"], row["to"]), ([], []))
        (forth if row["forth"] else back).append((row["time_ns"], row["delay_ns"]))
    return {pair: relate(_hull(forth), _hull(back)) for pair, (forth, back) in points.items() if forth and back}


def _hull(points: list[tuple[int, int]]) -> Hull:
    table = np.array(sorted(points), np.int64)
    return Hull(table[:, 0], table[:, 1])


def offsets_table(session: SparkSession, relations: dict[tuple[int, int], list[Relation]]) -> DataFrame:
    """Return the relations in both directions as a table for joins: what to add to a time of `from` for the time of
    `to`.

    `offset_ns` holds at time `zero` of the clock of `from`, and changes by `drift` from there on. A piece holds until
    the next piece begins. The first and last pieces also hold before and after the measured time.
    """
    rows = []
    for (first, second), pieces in relations.items():
        for number, piece in enumerate(pieces):
            begins = 0 if number == 0 else piece.start
            ends = EVER if number + 1 == len(pieces) else pieces[number + 1].start
            offset, bound = round(piece.offset), piece.bound
            rows.append((first, second, begins, ends, piece.start, offset, piece.drift, bound))
            begins, ends = (time if time in (0, EVER) else time + offset for time in (begins, ends))
            slope = -piece.drift / (1 + piece.drift)
            rows.append((second, first, begins, ends, piece.start + offset, -offset, slope, bound))
    return local_table(
        session,
        rows,
        "from int, to int, begins bigint, ends bigint, zero bigint, offset_ns bigint, drift double, bound_ns double",
    )
