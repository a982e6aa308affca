"""Benchmark of the trace pipeline with growing captures: `python -m benchmarks.spark_scale --copies 1,10,100`.

A synthetic capture is repeated with new hosts each time. So n copies have n times the streams, and no state can be
reused from one copy to the next. For each size the output has the seconds of the query of `spark_trace`, or of the
whole analysis, in one session. It also has the peak memory of Java and of the Python workers. `--memory` limits Java.

With `--executors` the job runs on a standalone cluster of executors on this machine. Each executor has this memory and
one core. The memory of the largest executor is printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import SparkSession

from benchmarks.spark_capture import make
from benchmarks.spark_trace import NAMES, query
from spark.analyze.job import analyze
from spark.analyze.result import collect
from spark.read.pcap import HEADER, RECORD, Pcap
from spark.read.records import PADDING
from spark.schema import ddl, frames_columns
from spark.session import session

SOURCE_AT, DESTINATION_AT, SENDER_AT = RECORD + 27, RECORD + 31, RECORD + 42 + 14
"""Offsets in a record of `spark_capture`: the second byte of each address, and the sender's id in `{"glue":[1,1,"…`."""
MOST_COPIES = 1 << 16  # limited by two bytes of an address and four digits of an id
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SAMPLE = 0.2  # seconds between two samples of memory


def repeat(path: Path, to: Path, copies: int) -> None:
    """Write a capture `copies` times into one file, with other hosts in each copy."""
    data = np.fromfile(path, np.uint8)
    size = len(data)
    padded = np.concatenate([data, np.zeros(PADDING, np.uint8)])
    starts = Pcap(data[:HEADER].tobytes()).scan(padded[HEADER:], size - HEADER, HEADER).records.offset
    with to.open("wb") as file:
        file.write(data[:HEADER].tobytes())
        for copy in range(copies):
            for place, byte in enumerate(copy.to_bytes(2, "big")):
                data[starts + SOURCE_AT + place] = data[starts + DESTINATION_AT + place] = byte
            for place, digit in enumerate(b"%04x" % copy):
                data[starts + SENDER_AT + place] = digit
            data[HEADER:].tofile(file)


def made_trace(directory: Path, frames: int, copies: int) -> Path:
    """Return the directory with the repeated capture. A missing capture is made."""
    trace = directory / f"{frames}x{copies}"
    if not trace.exists():
        with tempfile.TemporaryDirectory(dir=directory) as made:
            base, repeated = Path(made, "base"), Path(made, "repeated")
            base.mkdir()
            repeated.mkdir()
            make(base, frames)
            for path in base.glob("*.pcap"):
                repeat(path, repeated / path.name, copies)
            repeated.rename(trace)
    return trace


@contextmanager
def memory() -> Iterator[dict[str, int]]:
    """Measure peak memory within the `with` block, in bytes.

    "java" is the resident memory of the largest executor, or of the driver if there is none. "python" is the memory of
    all Python workers, where shared pages are divided among them (PSS).
    """
    most = {"java": 0, "python": 0}
    over = threading.Event()
    own = psutil.Process()

    def watch() -> None:
        while not over.wait(SAMPLE):
            driver, executors, python = 0, [0], 0
            for process in own.children(recursive=True):
                try:
                    if "java" not in process.name():
                        python += process.memory_full_info().pss
                    elif EXECUTOR in process.cmdline():
                        executors.append(process.memory_info().rss)
                    else:
                        driver = max(driver, process.memory_info().rss)
                except psutil.Error:
                    continue
            most["java"] = max(most["java"], max(executors) or driver)
            most["python"] = max(most["python"], python)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def made_session(memory_limit: str, cores: str, executors: int) -> SparkSession:
    """Return a session in one Java process, or with executors that import glue from the working directory."""
    if not executors:
        return session("scale", f"local[{cores}]", progress=False, settings={"spark.driver.memory": memory_limit})
    megabytes = round(float(memory_limit.removesuffix("g")) * 1024)
    settings = {"spark.executor.memory": memory_limit, "spark.executorEnv.PYTHONPATH": os.getcwd()}
    return session("scale", f"local-cluster[{executors},1,{megabytes}]", progress=False, settings=settings)


def job_of(name: str, spark: SparkSession) -> Callable[[Path], int]:
    """Return a function that processes a directory of captures and returns the number of streams."""
    columns = ddl(frames_columns(NAMES))

    def ask(directory: Path) -> int:
        spark.read.format("pcap").schema(columns).load(str(directory)).createOrReplaceTempView("frames")
        return len(spark.sql(query("percentile_approx")).collect())

    def whole(directory: Path) -> int:
        analysis = analyze(spark.read.format("pcap").load(str(directory)))
        try:
            return sum(row["kind"] == "data" for row in collect(analysis)["streams"])
        finally:
            analysis.close()

    return {"query": ask, "analyze": whole}[name]


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_scale")
    parser.add_argument("--frames", type=float, default=1e5, help="of the capture that is repeated")
    parser.add_argument("--copies", default="1,10,100", help="how often, one size after the other")
    parser.add_argument("--job", choices=("query", "analyze"), default="query")
    parser.add_argument("--memory", default="2g", help="of Java, which is driver and executor in one, or of executors")
    parser.add_argument("--cores", default="*", help="without --executors")
    parser.add_argument("--executors", type=int, default=0, help="processes of their own, with one core each")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where captures are, or are made, and stay (default: nowhere)")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.copies.split(",")]
    assert max(sizes) <= MOST_COPIES, f"at most {MOST_COPIES} copies"
    spark = made_session(arguments.memory, arguments.cores, arguments.executors)
    job = job_of(arguments.job, spark)
    with tempfile.TemporaryDirectory(prefix="glue-spark-scale-") as made:
        for number, copies in enumerate(sizes):
            trace = made_trace(arguments.directory or Path(made), int(arguments.frames), copies)
            size = sum(path.stat().st_size for path in trace.iterdir())
            if not number:
                job(trace)  # warm-up
            times = []
            with memory() as most:
                for _ in range(arguments.runs):
                    began = time.perf_counter()
                    streams = job(trace)
                    times.append(time.perf_counter() - began)
            if not arguments.directory:
                shutil.rmtree(trace)
            frames, seconds = int(arguments.frames) * copies, statistics.median(times)
            print(
                f"{frames:>12,} frames  {size / 1e9:6.2f} GB  {streams:>6,} streams  {seconds:7.2f} s  "
                f"{seconds / frames * 1e6:6.2f} µs a frame  "
                f"Java {most['java'] / 1e9:.2f} GB, Python {most['python'] / 1e9:.2f} GB",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
