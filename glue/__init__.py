"""glue: share data by topic between programs on one LAN. No broker, no addresses, no ports.

with glue.Endpoint("thermometer") as endpoint:
    endpoint.publish("room/temperature", {"celsius": 21.5}, retain=True)
"""

from glue.endpoint import Endpoint
from glue.errors import (
    ClosedError,
    ConfigurationError,
    GlueError,
    InterfaceError,
    MessageTooLargeError,
    MissingExtraError,
    PayloadError,
    PortInUseError,
    SlowReaderError,
    TopicError,
    WouldBlockError,
)
from glue.messages import Gap, Message, Peer
from glue.subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "ClosedError",
    "ConfigurationError",
    "Endpoint",
    "Gap",
    "GlueError",
    "InterfaceError",
    "Message",
    "MessageTooLargeError",
    "MissingExtraError",
    "PayloadError",
    "Peer",
    "PortInUseError",
    "SlowReaderError",
    "Subscription",
    "TopicError",
    "WouldBlockError",
]
