"""One Spark session for all tests that need a JVM: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine."""
    made = session("glue tests", progress=False, settings={"spark.sql.warehouse.dir": "/nonexistent"})
    yield made
    made.stop()
