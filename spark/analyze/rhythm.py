"""Order, jitter and loss patterns of deliveries: one sorted scan, where NumPy measures each group."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from spark.measures.order import departures, jitter, loss_pattern, reordering
from spark.schema import arrow_type

KEY = ("sender", "incarnation", "receiver", "interval")
RESULT = (
    "sender string, incarnation bigint, receiver int, interval bigint, loss_periods bigint, longest_loss bigint, "
    "least_loss_distance bigint, reordered bigint, reorder_extent bigint, reorder_late_ns bigint, "
    "jitter_ns double, jitter_total_ns bigint, jitter_count bigint"
)


def rhythm(rows: DataFrame) -> DataFrame:
    """Return the measures of `spark.measures.order` per sender, receiver and interval.

    A loss period that continues in the next interval counts there again. A worker holds the deliveries of one group at
    a time.
    """
    sequence = rows.where("receiver is not null").select(*KEY, "counter", "sent_ns", "arrived_ns", "lost")
    return sequence.repartition(*KEY).sortWithinPartitions(*KEY, "counter").mapInArrow(_measure, RESULT)


def _measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut sorted batches into groups. The last group of a batch may continue in the next batch."""
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table if rest is None else pa.concat_tables([rest, table])
        *starts, last = _starts(table)
        yield from _measured(table, [*starts, last])
        rest = table.slice(last)
    if rest is not None and len(rest):
        yield from _measured(rest, [0, len(rest)])


def _starts(table: pa.Table) -> list[int]:
    """Return the starts of groups in sorted rows."""
    changed = np.zeros(max(0, len(table) - 1), bool)
    for name in KEY:
        codes = table[name].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        changed |= codes[1:] != codes[:-1]
    return [0, *(np.flatnonzero(changed) + 1).tolist()]


def _measured(table: pa.Table, bounds: list[int]) -> Iterator[pa.RecordBatch]:
    rows = [_row(table.slice(start, stop - start)) for start, stop in pairwise(bounds)]
    if rows:
        schema = pa.schema([(name, arrow_type(kind)) for name, kind in (part.split() for part in RESULT.split(", "))])
        yield pa.RecordBatch.from_pylist(rows, schema)


def _row(group: pa.Table) -> dict[str, object]:
    order = departures(group["sent_ns"].fill_null(0).to_numpy(), group["sent_ns"].is_valid().to_numpy())
    group = group.take(pa.array(order))
    sent = group["sent_ns"].fill_null(0).to_numpy()
    had_sent = group["sent_ns"].is_valid().to_numpy()
    arrived = group["arrived_ns"].fill_null(0).to_numpy()
    has_arrived = group["arrived_ns"].is_valid().to_numpy()
    losses = loss_pattern(group["lost"].fill_null(False).to_numpy()[had_sent])
    overtaken = reordering(np.flatnonzero(has_arrived), arrived[has_arrived])
    timed = has_arrived & had_sent
    rhythm = jitter(sent[timed], arrived[timed])
    names = [part.split()[0] for part in RESULT.split(", ")]
    values = [group[name][0].as_py() for name in KEY]
    return dict(zip(names, [*values, *losses, *overtaken, *rhythm], strict=True))
