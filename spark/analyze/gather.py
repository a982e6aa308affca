"""Several tables by one query: Spark plans, schedules and compiles once, and its cores wait for no single stage.

An analysis ends in a dozen small tables. Asked for one after the other, each is a row of short jobs between which
nothing runs. Here every table becomes one column of structs, and all are the rows of one union.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark.schema import arrow_type


def gather(tables: Mapping[str, DataFrame], most: int) -> dict[str, pa.Table]:
    """All tables, at most so many rows of each, on the driver; their rows are in no order."""
    columns = [
        # The cast changes nothing but that fields may be null, as they are in the rows of other tables.
        table.limit(most).select(sql.struct("*").cast(table.schema.simpleString()).alias(name))
        for name, table in tables.items()
    ]
    found = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), columns).toArrow()
    return {name: pa.Table.from_struct_array(found[name].drop_null().combine_chunks()) for name in tables}


def local_table(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Rows of the driver for joins; they become a part of the plan, so that no job has to fetch them from Python."""
    fields = pa.schema([(name, arrow_type(kind)) for name, kind in (column.split() for column in schema.split(", "))])
    columns = zip(*rows, strict=True) if rows else ([] for _ in fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields))
