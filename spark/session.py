"""Spark sessions as glue's programs want them: quiet, in UTC, with the data source `pcap`, on one machine or many.

Alone, a program gets all cores of its machine (`local[*]`), bound to loopback, with a Java from wherever there is one.
Under `spark-submit`, or with a master given, where and how much is the cluster's affair and only the rest is set.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark.java import ensure_java
from spark.source import PcapSource

LOCAL = "local[*]"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
}
"""Wherever it runs. Spark remembers the last 100 pieces of code it made, and an analysis needs more: so each was
compiled again, and made fast by Java again, in the next one."""

LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(
        2 * (os.cpu_count() or 1)
    ),  # some hundred streams, not Spark's 200 for a cluster
    "spark.sql.catalogImplementation": "in-memory",
}
"""On one machine, in addition."""

JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Of the driver's Java. An analysis is dozens of short stages, each with code of its own: half of the CPU went into
compiling that to the utmost, beside which a collector for short pauses took its share. With ten times HotSpot's usual
thresholds only what runs for long is compiled so (an analysis of 400,000 frames: 22 s of CPU instead of 30)."""


def session(
    name: str = "glue",
    master: str | None = None,
    progress: bool | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, made if there is none.

    `master` None: that of `spark-submit`, else this machine. `progress` shows a bar for long work on stderr (None: if
    that is a terminal). `settings` are further ones of Spark's, and win. Ctrl-C meanwhile raises KeyboardInterrupt once
    the session is there. Raises spark.java.NoJavaError.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        ensure_java()
    everything: dict[str, bool | float | int | str | None] = {**SETTINGS}
    everything["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty() if progress is None else progress).lower()
    if submitted:
        everything |= _submitted()
    else:
        everything |= {"spark.master": master or LOCAL, **_alone(master or LOCAL)}
    with _interrupts_wait():
        made = SparkSession.builder.appName(name).config(map={**everything, **(settings or {})}).getOrCreate()
    made.dataSource.register(PcapSource)
    return made


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Keep Ctrl-C until the end: a Java that Python leaves before it was reached never ends."""
    if threading.current_thread() is not threading.main_thread():  # only that one is interrupted
        yield
        return
    kept: list[int] = []

    def keep(number: int, _: object) -> None:
        kept.append(number)

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is keep:  # else Spark has installed its own, which ends its jobs first
            signal.signal(signal.SIGINT, before)
    if kept:
        raise KeyboardInterrupt


def _alone(master: str) -> dict[str, str]:
    """What a driver needs that this process starts itself."""
    log = _resources.enter_context(as_file(files("spark") / "log4j2.properties"))
    made = {"spark.driver.extraJavaOptions": " ".join([f"-Dlog4j2.configurationFile={log.as_uri()}", *JAVA_OPTIONS])}
    if not master.startswith("local"):
        return made
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return made | LOCAL_SETTINGS


def _submitted() -> dict[str, str]:
    """What `spark-submit` forgets: `--py-files` reach the executors, but not the path of Python data sources there."""
    SparkContext._ensure_initialized()  # connects to the JVM that spark-submit has started, and makes nothing else
    files = SparkConf().get("spark.submit.pyFiles", "") or ""
    names = [os.path.basename(path) for path in files.split(",") if path]
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(names)} if names else {}


_resources = ExitStack()
atexit.register(_resources.close)
