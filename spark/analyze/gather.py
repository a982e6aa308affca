"""Several tables by one query: Spark plans and compiles once, and no core waits for a single stage.

An analysis ends in a dozen small tables. Separate queries would be sequences of short jobs with idle time between them.
Here every table becomes one column of structs, and all tables form the rows of one union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.schema import arrow_type


def gather(tables: Mapping[str, DataFrame], most: int) -> dict[str, pa.Table]:
    """Return all tables on the driver, at most `most` rows of each, in no particular order."""
    columns = [
        # The cast only makes fields nullable, because rows of other tables have nulls there.
        table.limit(most).select(sql.struct("*").cast(table.schema.simpleString()).alias(name))
        for name, table in tables.items()
    ]
    found = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), columns).toArrow()
    return {name: pa.Table.from_struct_array(found[name].drop_null().combine_chunks()) for name in tables}


def local_table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Return rows of the driver as a table for joins. They are part of the plan, so no job fetches them from Python."""
    fields = pa.schema([(name, arrow_type(kind)) for name, kind in (column.split() for column in schema.split(", "))])
    columns = zip(*rows, strict=True) if rows else ([] for _ in fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields))
