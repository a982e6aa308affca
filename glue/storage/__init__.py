"""Storage that survives a restart: records in files, and the log of topics. Used by model and history alike.

Nothing here starts a thread or reads a clock. Files sit behind `Directory`, which the drivers and the simulator
implement.
"""

from glue.storage.directory import SEALED, Directory
from glue.storage.file_log import FileLog
from glue.storage.framing import record, scan
from glue.storage.log import Log, Reading, StreamState
from glue.storage.memory import MemoryLog
from glue.storage.records import BEST_EFFORT, JSON, RETAINED, Record, Stream
from glue.storage.replacing import DAMAGED, NEW, NO_ROOM, full, replace_file
from glue.storage.retention import Retention

__all__ = [
    "BEST_EFFORT", "DAMAGED", "JSON", "NEW", "NO_ROOM", "RETAINED", "SEALED", "Directory", "FileLog", "Log",
    "MemoryLog", "Reading", "Record", "Retention", "Stream", "StreamState", "full", "record", "replace_file", "scan",
]  # fmt: skip
