"""Receivers as state machines: objects with an address that handle one message at a time.

A kind of receivers has partitions, and each partition has one owner among the endpoints that host the kind. The owner
is a record in a model, with an epoch. Each write of state names the record that its writer believes in, so a former
owner cannot write. Everything here takes the time as an argument and knows no clock, socket or thread.
"""

from glue.receivers.activation import Activation
from glue.receivers.address import Address, choose, parse, partition_of
from glue.receivers.context import Context, Receiver, Timer
from glue.receivers.inbox import Inbox
from glue.receivers.outbox import Entry, Outbox
from glue.receivers.ownership import Owner, Ownership
from glue.receivers.state import State
from glue.receivers.store import FencedError, Store

__all__ = [
    "Activation",
    "Address",
    "Context",
    "Entry",
    "FencedError",
    "Inbox",
    "Outbox",
    "Owner",
    "Ownership",
    "Receiver",
    "State",
    "Store",
    "Timer",
    "choose",
    "parse",
    "partition_of",
]
