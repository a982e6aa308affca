"""The model layer: state that programs share, built from deltas, agreed on by a quorum of them.

`Replicated` is the layer; `state` is what is agreed on, `consensus` how, `storage` where it is kept. `Direct` is the
layer for programs that want none of it.
"""

from glue.model.consensus import ConsensusSettings, Role, Status, Stored
from glue.model.direct import Direct
from glue.model.group import PREFIX
from glue.model.mergeable import KINDS, Prefixes
from glue.model.questions import (
    Committed,
    Ending,
    Found,
    Question,
    Read,
    Refused,
    Remove,
    Synchronize,
    Transfer,
    Unknown,
    Unwatch,
    Watch,
    Write,
)
from glue.model.replicated import Replicated, check_name
from glue.model.requests import Answer, Ask, CloseModel, Happening, ModelOptions, OpenModel, Pending, Wish
from glue.model.state import (
    Change,
    Conflict,
    Delete,
    Expect,
    ExpectRevision,
    Lock,
    Operation,
    Pattern,
    Set,
    Unlock,
    Update,
    check_key,
    encode_command,
)
from glue.model.storage import DeltaFile, Directory, FileStorage, MemoryStorage, Storage

__all__ = [
    "KINDS",
    "PREFIX",
    "Answer",
    "Ask",
    "Change",
    "CloseModel",
    "Committed",
    "Conflict",
    "ConsensusSettings",
    "Delete",
    "DeltaFile",
    "Direct",
    "Directory",
    "Ending",
    "Expect",
    "ExpectRevision",
    "FileStorage",
    "Found",
    "Happening",
    "Lock",
    "MemoryStorage",
    "ModelOptions",
    "OpenModel",
    "Operation",
    "Pattern",
    "Pending",
    "Prefixes",
    "Question",
    "Read",
    "Refused",
    "Remove",
    "Replicated",
    "Role",
    "Set",
    "Status",
    "Storage",
    "Stored",
    "Synchronize",
    "Transfer",
    "Unknown",
    "Unlock",
    "Unwatch",
    "Update",
    "Watch",
    "Wish",
    "Write",
    "check_key",
    "check_name",
    "encode_command",
]  # fmt: skip
