"""glue: share data by topic between programs on one LAN. No broker, no addresses, no ports.

with glue.Endpoint("thermometer") as endpoint:
    endpoint.publish("room/temperature", {"celsius": 21.5}, retain=True)
"""

from glue.endpoint import Endpoint
from glue.errors import (
    ClosedError,
    ConfigurationError,
    CorruptStorageError,
    GlueError,
    InterfaceError,
    MessageTooLargeError,
    MinorityError,
    MissingExtraError,
    ModelError,
    PayloadError,
    PortInUseError,
    RefusedError,
    SlowReaderError,
    StorageError,
    TopicError,
    UnknownOutcomeError,
    WouldBlockError,
)
from glue.messages import Gap, Message, Peer
from glue.model import Change, Conflict, Delete, Expect, ExpectRevision, Set, Update
from glue.model.state import ABSENT
from glue.models import Entry, ModelStatus
from glue.shared import Lock, Model, Watch
from glue.subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "Change",
    "ClosedError",
    "ConfigurationError",
    "Conflict",
    "CorruptStorageError",
    "Delete",
    "Endpoint",
    "Entry",
    "Expect",
    "ExpectRevision",
    "Gap",
    "GlueError",
    "InterfaceError",
    "Lock",
    "Message",
    "MessageTooLargeError",
    "MinorityError",
    "MissingExtraError",
    "Model",
    "ModelError",
    "ModelStatus",
    "PayloadError",
    "Peer",
    "PortInUseError",
    "RefusedError",
    "Set",
    "SlowReaderError",
    "StorageError",
    "Subscription",
    "TopicError",
    "UnknownOutcomeError",
    "Update",
    "Watch",
    "WouldBlockError",
]
