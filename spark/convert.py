"""`python -m spark.convert trace.pcapng --output frames/`: convert captures to Parquet.

The command writes the table `frames`, partitioned by capture point and hour and sorted as the files are. The table
`files` beside it tells what was skipped and what could not be read.
"""

from __future__ import annotations

import spark.needed  # noqa: F401  (before all that may be missing)

# isort: split
import argparse
import sys
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from spark import command
from spark.read import check

HOUR_NS = 3600 * 10**9


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(prog="python -m spark.convert", description="Convert captures to Parquet.")
    made.add_argument("captures", nargs="+", help="pcap or pcapng files, directories or patterns; maybe .gz or .zst")
    made.add_argument("--output", required=True, metavar="DIRECTORY", help="gets frames/ and files/")
    made.add_argument("--capture-point", metavar="NAME", help="for files that name none (default: the file's name)")
    made.add_argument("--overwrite", action="store_true", help="replace what is there")
    made.add_argument("--master", metavar="URL", help="Spark's master (default: this machine, or that of spark-submit)")
    return made


def frames(spark: SparkSession, paths: Sequence[str], capture_point: str | None, table: str = "frames") -> DataFrame:
    """Return a table of the captures."""
    reader = spark.read.format("pcap").option("table", table)
    if capture_point is not None:
        reader = reader.option("capturePoint", capture_point)
    return reader.load(list(paths))


def convert(spark: SparkSession, paths: Sequence[str], output: str, capture_point: str | None, mode: str) -> DataFrame:
    """Write both tables, and return `files` as written."""
    rows = frames(spark, paths, capture_point)
    hour = (sql.col("time_ns") / HOUR_NS).cast("bigint") * 3600
    rows.withColumn("point", sql.col("capture_point")).withColumn(
        "hour", sql.date_format(sql.timestamp_seconds(hour), "yyyy-MM-dd-HH")
    ).write.mode(mode).partitionBy("point", "hour").parquet(f"{output}/frames")
    frames(spark, paths, capture_point, "files").write.mode(mode).parquet(f"{output}/files")
    return spark.read.parquet(f"{output}/files")


def summary(files: DataFrame) -> list[str]:
    """Return lines for a terminal that tell what was read."""
    total = files.agg(sql.sum("records"), sql.sum("datagrams")).first()
    assert total is not None
    lines = [f"{total[0] or 0:,} frames captured, {total[1] or 0:,} of them glue's datagrams"]
    skipped = files.select(sql.explode("skipped").alias("cause", "count")).groupBy("cause").agg(sql.sum("count"))
    lines += [f"skipped: {count:,} ({cause})" for cause, count in sorted(map(tuple, skipped.collect()))]
    for row in files.where("fault is not null").orderBy("file", "start").collect():
        rest = "" if row.unread is None else f", {row.unread:,} bytes unread"
        lines.append(f"{row.file}: {row.fault} at byte {row.fault_offset:,}{rest}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = parser().parse_args(argv)
    mode = "overwrite" if arguments.overwrite else "errorifexists"

    def work(connect: Callable[[], SparkSession]) -> list[str]:
        check(arguments.captures)
        return summary(convert(connect(), arguments.captures, arguments.output, arguments.capture_point, mode))

    spoiled = f"{arguments.output} may be half-written: --overwrite begins anew"
    return command.run("convert", arguments.master, work, spoiled)


if __name__ == "__main__":
    sys.exit(main())
