"""Reading of small captures in this process while Java starts.

Spark itself would start a Python worker for each core after Java's start, and transfer every row. For some hundred
megabytes this costs several times the reading. A thread therefore writes the needed part of `spark.convert`'s output to
a temporary directory, and Java reads it from there.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark.analyze.job import USED
from spark.read import Tally, partitions
from spark.schema import FILES, arrow_schema, frames_columns
from spark.session import SMALL_BYTES


def is_worth_it(size: int, master: str | None) -> bool:
    """Return whether captures of `size` bytes are small, and Spark runs on this machine."""
    is_here = "PYSPARK_GATEWAY_PORT" not in os.environ and (master is None or master.startswith("local"))
    return is_here and size <= SMALL_BYTES


class Ahead:
    """Tables `frames` and `files` of captures, written by a thread that starts at once."""

    def __init__(self, paths: Iterable[str], point: str | None = None) -> None:
        """Start. `point` is the capture point of files that name none."""
        self._directory = tempfile.TemporaryDirectory(prefix="glue-analyze-", ignore_cleanup_errors=True)
        self._paths, self._point = tuple(paths), point
        self._is_closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="spark.ahead", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def frames(self) -> str:
        """Wait for both tables, and return the directory of `frames`. The directory `files` is beside it.

        Raises the error of reading, if any.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return str(Path(self._directory.name, "frames"))

    def close(self) -> None:
        """Stop, and remove the directory."""
        self._is_closed = True
        self._thread.join()
        self._directory.cleanup()
        atexit.unregister(self.close)

    def _work(self) -> None:
        try:
            self._write(Path(self._directory.name))
        except BaseException as error:
            self._error = error

    def _write(self, directory: Path) -> None:
        """Write both tables. `frames` has a file for each core, to be read by one task each."""
        columns = frames_columns(USED)
        read: list[pa.RecordBatch] = []
        with ExitStack() as open_files:
            (directory / "frames").mkdir()
            (directory / "files").mkdir()
            parts = [directory / "frames" / f"part-{number}.parquet" for number in range(os.cpu_count() or 1)]
            schema = arrow_schema(columns)
            writers = [open_files.enter_context(pq.ParquetWriter(part, schema, compression="none")) for part in parts]
            rows = [0] * len(writers)
            for partition in partitions(self._paths, 0, self._point):
                tally = Tally()
                for batch in partition.batches(columns, tally):
                    if self._is_closed:
                        return
                    least = rows.index(min(rows))
                    writers[least].write_batch(batch)
                    rows[least] += len(batch)
                read.append(partition.files_row(tally))
        _write_all(read, directory / "files" / "part-0.parquet")
        (directory / "frames" / "_SUCCESS").touch()


def _write_all(rows: Sequence[pa.RecordBatch], path: Path) -> None:
    pq.write_table(pa.Table.from_batches(rows, arrow_schema(FILES)), path, compression="none")
