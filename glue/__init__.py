"""glue: share data by topic between programs on one LAN. No broker, no addresses, no ports.

with glue.Endpoint("thermometer") as endpoint:
    endpoint.publish("room/temperature", {"celsius": 21.5}, retain=True)
"""

from typing import TYPE_CHECKING

from glue._lazy import lazy_imports
from glue.endpoint.message import Gap, Message, Peer
from glue.errors import (
    ClosedError,
    ConfigurationError,
    CorruptStorageError,
    ForbiddenError,
    GlueError,
    InterfaceError,
    MessageTooLargeError,
    MinorityError,
    MissingExtraError,
    ModelError,
    NoConsumerError,
    NoResponderError,
    NotDurableError,
    PayloadError,
    PortInUseError,
    RefusedError,
    RemoteError,
    RequestCycleError,
    RequestError,
    RequestRefusedError,
    RequestTimeoutError,
    ResponderLostError,
    SlowReaderError,
    StorageError,
    TopicError,
    UnknownOutcomeError,
    WouldBlockError,
)
from glue.sync.endpoint import Endpoint
from glue.sync.subscription import Subscription

if TYPE_CHECKING:
    from glue.consumers.home import ConsumerAlert
    from glue.endpoint.consumer_state import ConsumerState
    from glue.endpoint.deadlines import Silence
    from glue.endpoint.delays import Delayed
    from glue.endpoint.healed import Healed, RetainedConflict, RetainedVersion
    from glue.endpoint.keeper import Keeper
    from glue.endpoint.model import ModelStatus
    from glue.endpoint.model_calls import Entry
    from glue.endpoint.plain_topic import PlainTopic
    from glue.endpoint.presence import Presence
    from glue.endpoint.presence_methods import PublisherAnnouncement
    from glue.endpoint.qos import EVENT, LOG, SENSOR, STATE, QoS, keep_all, keep_last
    from glue.endpoint.qos_matching import QoSMismatch
    from glue.endpoint.request import Request
    from glue.endpoint.sleep_methods import Woke
    from glue.endpoint.type_news import Mismatch
    from glue.endpoint.typed import TypedMessage
    from glue.endpoint.will_methods import LastWill
    from glue.model.state import ABSENT, Change, Conflict, Delete, Expect, ExpectRevision, Set, Update
    from glue.receivers.context import Context, Receiver
    from glue.receivers.store import FencedError
    from glue.requests import Reply
    from glue.sync.model import Lock, Model, Watch
    from glue.sync.receivers import Receivers
    from glue.sync.responder import Responder
    from glue.sync.typed import Topic, TypedSubscription

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "EVENT",
    "LOG",
    "SENSOR",
    "STATE",
    "Change",
    "ClosedError",
    "ConfigurationError",
    "Conflict",
    "ConsumerAlert",
    "ConsumerState",
    "Context",
    "CorruptStorageError",
    "Delayed",
    "Delete",
    "Endpoint",
    "Entry",
    "Expect",
    "ExpectRevision",
    "FencedError",
    "ForbiddenError",
    "Gap",
    "GlueError",
    "Healed",
    "InterfaceError",
    "Keeper",
    "LastWill",
    "Lock",
    "Message",
    "MessageTooLargeError",
    "MinorityError",
    "Mismatch",
    "MissingExtraError",
    "Model",
    "ModelError",
    "ModelStatus",
    "NoConsumerError",
    "NoResponderError",
    "NotDurableError",
    "PayloadError",
    "Peer",
    "PlainTopic",
    "PortInUseError",
    "Presence",
    "PublisherAnnouncement",
    "QoS",
    "QoSMismatch",
    "Receiver",
    "Receivers",
    "RefusedError",
    "RemoteError",
    "Reply",
    "Request",
    "RequestCycleError",
    "RequestError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "Responder",
    "ResponderLostError",
    "RetainedConflict",
    "RetainedVersion",
    "Set",
    "Silence",
    "SlowReaderError",
    "StorageError",
    "Subscription",
    "Topic",
    "TopicError",
    "TypedMessage",
    "TypedSubscription",
    "UnknownOutcomeError",
    "Update",
    "Watch",
    "Woke",
    "WouldBlockError",
    "keep_all",
    "keep_last",
]

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __getattr__, __dir__ = lazy_imports(
        __name__,
        {
            "glue.sync.model": ("Lock", "Model", "Watch"),
            "glue.endpoint.deadlines": ("Silence",),
            "glue.endpoint.delays": ("Delayed",),
            "glue.endpoint.plain_topic": ("PlainTopic",),
            "glue.endpoint.presence": ("Presence",),
            "glue.endpoint.presence_methods": ("PublisherAnnouncement",),
            "glue.endpoint.request": ("Request",),
            "glue.endpoint.type_news": ("Mismatch",),
            "glue.endpoint.typed": ("TypedMessage",),
            "glue.endpoint.will_methods": ("LastWill",),
            "glue.requests": ("Reply",),
            "glue.sync.responder": ("Responder",),
            "glue.sync.typed": ("Topic", "TypedSubscription"),
            "glue.receivers.context": ("Context", "Receiver"),
            "glue.receivers.store": ("FencedError",),
            "glue.sync.receivers": ("Receivers",),
            "glue.endpoint.healed": ("Healed", "RetainedConflict", "RetainedVersion"),
            "glue.consumers.home": ("ConsumerAlert",),
            "glue.endpoint.consumer_state": ("ConsumerState",),
            "glue.endpoint.keeper": ("Keeper",),
            "glue.endpoint.qos": ("EVENT", "LOG", "SENSOR", "STATE", "QoS", "keep_all", "keep_last"),
            "glue.endpoint.qos_matching": ("QoSMismatch",),
            "glue.endpoint.sleep_methods": ("Woke",),
            "glue.endpoint.model": ("ModelStatus",),
            "glue.endpoint.model_calls": ("Entry",),
            "glue.model.state": (
                "ABSENT", "Change", "Conflict", "Delete", "Expect", "ExpectRevision", "Set", "Update",
            ),
        },
    )  # fmt: skip
