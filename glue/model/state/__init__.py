"""The replicated state machine: committed commands in, results and changes out, the same on every replica."""

from glue.model.state.commands import (
    ABSENT,
    AcquireLock,
    Command,
    Delete,
    Expect,
    ExpectRevision,
    MalformedEntryError,
    OpenSession,
    Operation,
    ReleaseLock,
    Set,
    Update,
    decode_command,
    decode_entry,
    encode_command,
    encode_entry,
)
from glue.model.state.machine import Applied, Change, Conflict, State
from glue.model.state.patch import merge
from glue.model.state.patterns import Pattern, check_key, check_name
from glue.model.state.results import EXPIRED, OK, REFUSED, Result

__all__ = [
    "ABSENT",
    "EXPIRED",
    "OK",
    "REFUSED",
    "AcquireLock",
    "Applied",
    "Change",
    "Command",
    "Conflict",
    "Delete",
    "Expect",
    "ExpectRevision",
    "MalformedEntryError",
    "OpenSession",
    "Operation",
    "Pattern",
    "ReleaseLock",
    "Result",
    "Set",
    "State",
    "Update",
    "check_key",
    "check_name",
    "decode_command",
    "decode_entry",
    "encode_command",
    "encode_entry",
    "merge",
]
