"""Where a replica keeps what it must not forget, behind one narrow interface; in memory, or in files.

`load` first, once; then writes in order. What was written is durable when `sync` has returned, and not before. An
error of `sync` or `write` is final (StorageError): what the disk then holds is not known, so the replica must stop
(Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
"""

from glue.model.storage.deltas import DELTAS, DeltaFile
from glue.model.storage.files import FileStorage
from glue.model.storage.interface import Directory, Storage
from glue.model.storage.memory import MemoryStorage

__all__ = ["DELTAS", "DeltaFile", "Directory", "FileStorage", "MemoryStorage", "Storage"]
