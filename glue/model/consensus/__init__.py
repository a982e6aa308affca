"""Consensus on a log of commands: Raft with multicast appends. Pure: no clock, socket, thread or file."""

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.items import (
    DurableWrite,
    Kind,
    LogEntry,
    Outcome,
    Resolution,
    Role,
    Snapshot,
    Status,
    Stored,
    Vital,
)
from glue.model.consensus.output import Output
from glue.model.consensus.replica import Replica
from glue.model.consensus.settings import ConsensusSettings

__all__ = [
    "Configuration",
    "ConsensusSettings",
    "DurableWrite",
    "Kind",
    "LogEntry",
    "Outcome",
    "Output",
    "Replica",
    "Resolution",
    "Role",
    "Snapshot",
    "Status",
    "Stored",
    "Vital",
]  # fmt: skip
