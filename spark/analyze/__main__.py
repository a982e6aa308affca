"""`python -m spark.analyze trace.pcapng --output report/`: report losses, delays and their causes.

The command writes the self-contained page `report.html`, `analysis.json` and a Parquet file for each table. It prints
the verdict.
"""

from __future__ import annotations

import spark.needed  # noqa: F401  (before all that may be missing)

# isort: split
import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from glue.errors import GlueError
from spark import command
from spark.analyze.ahead import Ahead, is_worth_it
from spark.analyze.job import NothingFoundError, analyze
from spark.analyze.result import Result, collect, replaced, write_tables
from spark.analyze.sealed import add_sealed, only_sealed, sealed_lines
from spark.analyze.verdict import pair_totals, percent, percentile, verdict
from spark.convert import frames
from spark.convert import summary as what_was_read
from spark.read import CaptureError, check
from spark.read.templates import SEALED
from spark.report import page
from spark.session import warm
from spark.source import total_size

MOST_PAIRS = 12  # on the terminal


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    made = argparse.ArgumentParser(prog="python -m spark.analyze", description="Analyse captures of glue's traffic.")
    made.add_argument(
        "captures", nargs="+", help="pcap or pcapng files, directories or patterns, or frames/ of convert"
    )
    made.add_argument(
        "--output", required=True, metavar="DIRECTORY", help="gets report.html, analysis.json and tables/"
    )
    made.add_argument(
        "--interval", type=command.period, metavar="SECONDS", help="length of intervals (default: by the trace)"
    )
    made.add_argument("--deliveries", action="store_true", help="write deliveries too: a row for each datagram")
    made.add_argument("--key", metavar="FILE", help="key file of the group, to open sealed captures")
    made.add_argument("--capture-point", metavar="NAME", help="for files that name none (default: the file's name)")
    made.add_argument("--master", metavar="URL", help="Spark's master (default: this machine, or that of spark-submit)")
    return made


def converted(paths: Sequence[str]) -> bool:
    """Return whether the paths are frames that `spark.convert` wrote, not captures. Raises CaptureError for other
    paths.
    """
    if all((Path(path) / "_SUCCESS").exists() for path in paths):
        return True
    check(paths)
    return False


def read(spark: SparkSession, paths: Sequence[str], capture_point: str | None) -> DataFrame:
    """Return the frames of captures, or frames that `spark.convert` wrote. Raises CaptureError."""
    return spark.read.parquet(*paths) if converted(paths) else frames(spark, paths, capture_point)


def read_files(spark: SparkSession, paths: Sequence[str], capture_point: str | None) -> DataFrame | None:
    """Return the table `files` beside the frames, None if `spark.convert`'s frames were copied without it."""
    if not converted(paths):
        return frames(spark, paths, capture_point, "files")
    told = [str(Path(path).parent / "files") for path in paths if (Path(path).parent / "files").exists()]
    return spark.read.parquet(*told) if told else None


def summary(result: Result) -> list[str]:
    """Return the verdict, the pairs and the sealed datagrams, as lines for a terminal."""
    told = [f"{finding.level:>4}  {finding.text}" for finding in verdict(result)]
    sealed = sealed_lines(result.get("sealed", []))
    if result["endpoints"] or not sealed:
        told += ["", *_pairs(result)]
    return [*told, "", *sealed] if sealed else told


def _pairs(result: Result) -> list[str]:
    totals = {pair: counter for pair, counter in pair_totals(result).items() if counter["sent"]}
    if not totals:
        return ["Give captures of several hosts, and losses and delays between them are told as well."]
    times = {(row["sender"], row["receiver"]): row for row in result["latencies"] if row["measure"] == "one way"}
    lines = [f"{'sender':>16} {'receiver':>16} {'sent':>10} {'lost':>8} {'':>7} {'doubled':>8} {'one way, p50':>13}"]
    for (sender, receiver), counter in sorted(totals.items(), key=lambda item: -item[1]["sent"])[:MOST_PAIRS]:
        share = percent(counter["lost"] / counter["sent"])
        way = (percentile(times[sender, receiver], "p50") if (sender, receiver) in times else None) or ""
        row = f"{sender:>16} {receiver:>16} {counter['sent']:>10,} {counter['lost']:>8,} {share:>7}"
        lines.append(f"{row} {counter['duplicates']:>8,} {way:>13}")
    return lines


def run(
    spark: SparkSession,
    arguments: argparse.Namespace,
    said: Callable[[str], object] = lambda _: None,
    stored: bool = False,
    captures: Sequence[str] = (),
) -> Result:
    """Analyse, write all files, and return the analysis. `said` and `stored` are those of `job.analyze`.

    `captures` are those behind the frames that `arguments` names instead of captures, if they are known. Sealed
    datagrams are analysed by their open part. Raises NothingFoundError with a summary of what was read.
    """
    output = Path(arguments.output)
    files = read_files(spark, arguments.captures, arguments.capture_point)
    if not captures and not converted(arguments.captures):
        captures = arguments.captures
    sealed = frames(spark, captures, arguments.capture_point, "sealed") if captures else None
    cure = "name their key with --key" if arguments.key is None else f"{arguments.key} does not open them"
    try:
        trace = read(spark, arguments.captures, arguments.capture_point)
        analysis = analyze(trace, arguments.interval, said=said, stored=stored)
    except NothingFoundError:
        told = [] if files is None else what_was_read(files)
        is_sealed = any(line.endswith(f"({SEALED})") for line in told)
        if not is_sealed or files is None or sealed is None:
            told += ["what is sealed is not in these frames: name the captures instead"] if is_sealed else []
            raise NothingFoundError(told) from None
        result = only_sealed(sealed, files.toArrow(), cure)
        write_tables(result, output)
    else:
        try:
            result = collect(analysis, files)
            if sealed is not None and any(f" {SEALED}" in row["skipped"] for row in result["files"]):
                add_sealed(result, sealed, cure)
            write_tables(result, output)
            if arguments.deliveries:
                deliveries = analysis.tables["deliveries"].write.mode("overwrite")
                deliveries.parquet(str(output / "tables" / "deliveries.parquet"))
        finally:
            analysis.close()
    said("writing the report")
    with replaced(output / "report.html") as fresh:
        fresh.write_text(page(result), "utf-8")
    return result


def opened(resources: ExitStack, captures: Sequence[str], key: str) -> list[str]:
    """Return copies of captures in which what the key opens is not sealed; `resources` removes them."""
    from glue.capture.opened import opened_copies  # imported here: most captures are not sealed
    from glue.endpoint.secrets import read_key

    folder = resources.enter_context(TemporaryDirectory(prefix="glue-"))
    try:
        return opened_copies(captures, folder, read_key(key))
    except (GlueError, OSError) as error:
        raise CaptureError(str(error)) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = parser().parse_args(argv)

    def work(connect: command.Connect) -> list[str]:
        with ExitStack() as resources:
            if arguments.key is not None:
                arguments.captures = opened(resources, arguments.captures, arguments.key)
            size = None if converted(arguments.captures) else total_size(arguments.captures)  # reports mistakes early
            said = command.progress("analyze")
            captures = () if size is None else arguments.captures
            is_ahead = size is not None and is_worth_it(size, arguments.master)
            if is_ahead:
                ahead = resources.enter_context(closing(Ahead(arguments.captures, arguments.capture_point)))
                spark = connect(size)
                warm(spark)
                arguments.captures = [ahead.frames()]
            else:
                spark = connect(size)
            told = summary(run(spark, arguments, said, is_ahead, captures))
        return [*told, "", f"the report: {Path(arguments.output) / 'report.html'}"]

    return command.run("analyze", arguments.master, work, f"no report was written to {arguments.output}")


if __name__ == "__main__":
    sys.exit(main())
