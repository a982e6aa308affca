"""The storage of a replica, behind one narrow interface: in memory or in files.

First call `load`, once; then `write` in order. A write is durable once `sync` has returned. An error of `sync` or
`write` is final (StorageError), except for a full disk (StorageFullError): the content of the disk is unknown after it,
so the replica must stop (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
"""

from glue.model.storage.deltas import DELTAS, DeltaFile
from glue.model.storage.files import FileStorage
from glue.model.storage.interface import Storage
from glue.model.storage.memory import MemoryStorage

__all__ = ["DELTAS", "DeltaFile", "FileStorage", "MemoryStorage", "Storage"]
