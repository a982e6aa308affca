"""Spark sessions for glue's programs: quiet, in UTC, with the data source `pcap`, on one machine or a cluster.

A program without a cluster gets all cores of its machine, a session bound to loopback, and a Java from `spark.java`. A
caller should pass the size of the input if known (`session`, `suit`), because settings for gigabytes are slow for
megabytes. With `spark-submit` or a given master, the cluster determines place and resources, and this module sets only
the rest.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import as_file, files

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from spark.java import ensure_java
from spark.mcap import McapSource
from spark.source import PcapSource

LOCAL = "local[*,4]"
"""All cores. A failed task is tried three more times, as on a cluster, because a worker may fail on a busy machine."""

PATIENCE = "600s"
"""Timeout for machines that are busy or were asleep. Spark's own timeouts are 15 to 120 s."""

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.python.authenticate.socketTimeout": PATIENCE,
}
"""Settings for every session.

Spark caches only the last 100 pieces of generated code by default. An analysis needs more, so every later analysis
would compile all of them again.
"""

LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.network.timeout": PATIENCE,
    "spark.executor.heartbeatInterval": "60s",
}
"""Additional settings for one machine."""

JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options of the driver's Java.

An analysis consists of dozens of short stages, each with its own code. By default half of the CPU time went into
optimizing compilation and into a collector for short pauses. With ten times HotSpot's usual thresholds, only
long-running code is optimized. An analysis of 400,000 frames takes 22 s of CPU instead of 30.
"""

BRIEF_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MetaspaceSize=256m")
"""Options of a short-lived driver's Java: quick compilation without profiling, no collection as classes are loaded."""

SMALL_BYTES = 256 << 20
"""Largest size of small captures in bytes. A core's share of them fits into its memory."""

SHUFFLE_BYTES = 64 << 20
"""Bytes of captures for each partition of a shuffle. Rows without payloads are a fraction of this."""

PARTITIONS, ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"


def session(
    name: str = "glue",
    master: str | None = None,
    progress: bool | None = None,
    settings: Mapping[str, str] | None = None,
    size: int | None = None,
) -> SparkSession:
    """Return the session of this process, and make it if there is none.

    `master=None` means the master of `spark-submit`, else this machine. `progress` shows a bar on stderr; None shows it
    on a terminal only. `settings` are further Spark settings and override the others. `size` is the size of the
    captures in bytes, None if unknown. Ctrl-C raises KeyboardInterrupt when the session is complete. Raises
    spark.java.NoJavaError.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        ensure_java()
    everything: dict[str, bool | float | int | str | None] = {**SETTINGS}
    everything["spark.ui.showConsoleProgress"] = str(sys.stderr.isatty() if progress is None else progress).lower()
    if submitted:
        everything |= _submitted()
    else:
        brief = size is not None and size <= SMALL_BYTES
        everything |= {"spark.master": master or LOCAL, **_alone(master or LOCAL, brief)}
    with _interrupts_wait():
        made = SparkSession.builder.appName(name).config(map={**everything, **(settings or {})}).getOrCreate()
    for source in (PcapSource, McapSource):
        made.dataSource.register(source)
    if _is_free(made, PARTITIONS):
        made.conf.set(PARTITIONS, str(_usual_partitions(made)))
    if size is not None:
        suit(made, size)
    return made


def suit(spark: SparkSession, size: int) -> None:
    """Plan later queries for captures of `size` bytes. Settings made by the user stay.

    Spark's adaptive execution runs each stage as a separate job and then plans the rest again. Large data needs this,
    because Spark learns sizes from it. Small captures need neither adaptive execution nor more partitions than cores.
    """
    small = size <= SMALL_BYTES
    if _is_free(spark, ADAPTIVE):
        spark.conf.set(ADAPTIVE, str(not small).lower())
    if _is_free(spark, PARTITIONS):
        usual = _usual_partitions(spark)
        cores = min(usual, spark.sparkContext.defaultParallelism)
        spark.conf.set(PARTITIONS, str(cores if small else max(usual, -(-size // SHUFFLE_BYTES))))


def remember(table: DataFrame) -> DataFrame:
    """Return a table with rows that are kept in memory or on disk once computed.

    For small captures on this machine the table is a checkpoint: later plans refer to the rows, not to the plan of the
    table, and take less time to plan. Other tables also keep the sizes that adaptive execution learns.
    """
    spark = table.sparkSession
    is_local = (spark.sparkContext.master or "").startswith("local")
    if is_local and spark.conf.get(ADAPTIVE, "true") == "false":
        return table.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)
    return table.persist(StorageLevel.MEMORY_AND_DISK)


def forget(table: DataFrame) -> None:
    """Release the rows of a table that `remember` returned. PySpark has no call for this for a checkpoint."""
    plan = table._jdf.queryExecution().logical()
    if plan.nodeName() == "LogicalRDD":
        plan.rdd().unpersist(False)
    else:
        table.unpersist()


def warm(spark: SparkSession) -> None:
    """Start Python workers in the background, with NumPy and pyarrow, while the caller plans its first queries."""

    def start() -> None:
        cores = spark.sparkContext.defaultParallelism
        with suppress(Exception):  # the session may end first; whatever fails here fails in the queries, too
            spark.range(cores, numPartitions=cores).mapInArrow(_unchanged, "id bigint").toArrow()

    threading.Thread(target=start, name="spark.warm", daemon=True).start()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _usual_partitions(spark: SparkSession) -> int:
    """Return the partitions of a shuffle for unknown sizes. Spark's default of 200 suits a cluster."""
    context = spark.sparkContext
    return 2 * context.defaultParallelism if (context.master or "").startswith("local") else 200


def _is_free(spark: SparkSession, name: str) -> bool:
    """Return whether the session's configuration leaves this setting open."""
    return not spark.sparkContext.getConf().contains(name)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the block ends. A Java process that Python abandons during its start never ends."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    kept: list[int] = []

    def keep(number: int, _: object) -> None:
        kept.append(number)

    before = signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        # Spark's own handler ends its jobs first, so it stays.
        if signal.getsignal(signal.SIGINT) is keep:
            signal.signal(signal.SIGINT, before)
    if kept:
        raise KeyboardInterrupt


def _alone(master: str, brief: bool) -> dict[str, str]:
    """Return settings for a driver that this process starts."""
    log = _resources.enter_context(as_file(files("spark") / "log4j2.properties"))
    options = [f"-Dlog4j2.configurationFile={log.as_uri()}", *(BRIEF_JAVA_OPTIONS if brief else JAVA_OPTIONS)]
    made = {"spark.driver.extraJavaOptions": " ".join(options)}
    if not master.startswith("local"):
        return made
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return made | LOCAL_SETTINGS


def _submitted() -> dict[str, str]:
    """Return a setting that `spark-submit` omits: Python data sources on executors do not see `--py-files`."""
    SparkContext._ensure_initialized()  # only connects to the JVM that spark-submit has started
    files = SparkConf().get("spark.submit.pyFiles", "") or ""
    names = [os.path.basename(path) for path in files.split(",") if path]
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(names)} if names else {}


_resources = ExitStack()
atexit.register(_resources.close)
