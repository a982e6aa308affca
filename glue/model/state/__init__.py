"""The replicated state machine: committed commands in, results and changes out, the same on every replica."""

from glue.model.state.commands import (
    ABSENT,
    Command,
    Delete,
    Expect,
    ExpectRevision,
    Lock,
    MalformedEntryError,
    OpenSession,
    Operation,
    Set,
    Unlock,
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
    "Applied",
    "Change",
    "Command",
    "Conflict",
    "Delete",
    "Expect",
    "ExpectRevision",
    "Lock",
    "MalformedEntryError",
    "OpenSession",
    "Operation",
    "Pattern",
    "Result",
    "Set",
    "State",
    "Unlock",
    "Update",
    "check_key",
    "check_name",
    "decode_command",
    "decode_entry",
    "encode_command",
    "encode_entry",
    "merge",
]
