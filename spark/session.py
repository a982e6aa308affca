"""Spark sessions as glue's programs want them: quiet, in UTC, with the data source `pcap`, on one machine or many.

Alone, a program gets all cores of its machine, bound to loopback, with a Java from wherever there is one. Who knows how
much is to be read says so (`session`, `suit`): what pays for gigabytes costs more than the work for some megabytes.
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

LOCAL = "local[*,4]"
"""All cores; a task that fails is tried three times more, as a cluster would. On a busy machine a worker may fail."""

PATIENCE = "600s"
"""For what is only slow on a machine that others keep busy, or that was asleep: Spark's own patience is 15 to 120 s."""

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.python.authenticate.socketTimeout": PATIENCE,
}
"""Wherever it runs. Spark remembers the last 100 pieces of code it made, and an analysis needs more: so each was
compiled again, and made fast by Java again, in the next one."""

LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.network.timeout": PATIENCE,
    "spark.executor.heartbeatInterval": "60s",
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

BRIEF_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Of a driver that is known to end soon: code is compiled quickly and never better, which needs no profile of it."""

SMALL_BYTES = 256 << 20
"""Captures of up to so much are small: what a core gets of them fits into its memory."""

SHUFFLE_BYTES = 64 << 20
"""Of the captures, for each partition of a shuffle. Rows without payloads are a fraction of this."""

PARTITIONS, ADAPTIVE = "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"


def session(
    name: str = "glue",
    master: str | None = None,
    progress: bool | None = None,
    settings: Mapping[str, str] | None = None,
    size: int | None = None,
) -> SparkSession:
    """The session of this process, made if there is none.

    `master` None: that of `spark-submit`, else this machine. `progress` shows a bar for long work on stderr (None: if
    that is a terminal). `settings` are further ones of Spark's, and win. `size` is the bytes of the captures that the
    session is for, None if it is for any. Ctrl-C meanwhile raises KeyboardInterrupt once the session is there. Raises
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
    made.dataSource.register(PcapSource)
    if _is_free(made, PARTITIONS):
        made.conf.set(PARTITIONS, str(_usual_partitions(made)))
    if size is not None:
        suit(made, size)
    return made


def suit(spark: SparkSession, size: int) -> None:
    """Have what follows planned for captures of `size` bytes; what the user set is left as it is.

    Spark's adaptive execution runs each stage as a job of its own, and plans the rest anew after it: that is for large
    data, of which it learns how much there is. Small captures need neither, nor more partitions than there are cores.
    """
    small = size <= SMALL_BYTES
    if _is_free(spark, ADAPTIVE):
        spark.conf.set(ADAPTIVE, str(not small).lower())
    if _is_free(spark, PARTITIONS):
        usual = _usual_partitions(spark)
        cores = min(usual, spark.sparkContext.defaultParallelism)
        spark.conf.set(PARTITIONS, str(cores if small else max(usual, -(-size // SHUFFLE_BYTES))))


def _usual_partitions(spark: SparkSession) -> int:
    """Of a shuffle, where nothing is known of the size: Spark's 200 are for a cluster."""
    context = spark.sparkContext
    return 2 * context.defaultParallelism if (context.master or "").startswith("local") else 200


def _is_free(spark: SparkSession, name: str) -> bool:
    """Whether nobody has set this for the whole session."""
    return not spark.sparkContext.getConf().contains(name)


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


def _alone(master: str, brief: bool) -> dict[str, str]:
    """What a driver needs that this process starts itself."""
    log = _resources.enter_context(as_file(files("spark") / "log4j2.properties"))
    options = [f"-Dlog4j2.configurationFile={log.as_uri()}", *(BRIEF_JAVA_OPTIONS if brief else JAVA_OPTIONS)]
    made = {"spark.driver.extraJavaOptions": " ".join(options)}
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
