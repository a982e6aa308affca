"""The schema is one thing: what Spark, Arrow and the documentation are told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark.schema import DATAGRAM, FILES, FRAMES, SEALED, Column, arrow_schema, ddl

PAGE = Path(__file__).parents[2] / "docs" / "traces.md"


@pytest.mark.parametrize("column", [*FRAMES, DATAGRAM, *FILES, *SEALED], ids=lambda column: column.name)
def test_every_column_is_documented(column: Column) -> None:
    kind = "array of struct" if "struct" in column.type else column.type
    assert f"| `{column.name}` | {kind} | {column.meaning} |\n" in PAGE.read_text()


def test_arrow_and_spark_are_told_the_same_columns() -> None:
    for table in (FRAMES, FILES, SEALED):
        names = [column.name for column in table]
        assert arrow_schema(table).names == names
        assert len(set(names)) == len(names)
        assert all(f"{column.name} {column.type}" in ddl(table) for column in table)
