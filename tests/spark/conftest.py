"""One Spark session for all tests that need a JVM: starting one takes seconds."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.session import session

BRIEF = "-XX:TieredStopAtLevel=1"
"""For a Java that lives for some seconds: code compiled quickly rather than well."""

SETTINGS = {
    "spark.sql.warehouse.dir": "/nonexistent",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Dozens of queries, each over little data: to interpret them takes less than to compile them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


LONGEST = 900.0
"""Seconds for a test with a session: the first one waits for a Java to start, on a machine that may be busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine, made for work that is soon over.

    Spark takes SIGINT for itself; other tests of this process need it as it was.
    """
    before = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", BRIEF)
        made = session("glue tests", progress=False, settings=SETTINGS)
    signal.signal(signal.SIGINT, before)
    yield made
    made.stop()
