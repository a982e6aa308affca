"""Requests and replies as state machines: no clock, no socket, no thread.

Requests and replies travel as messages on topics of their own. An endpoint that answers a pattern announces an interest
in `$glue/responder/<pattern>`, so that discovery tells every caller about the responder; nothing is published there. A
responder receives requests on `$glue/request/<its id>/<topic>`. A caller receives replies on
`$glue/reply/<its id>/<its incarnation>`. Both kinds of topics have one receiver and travel by unicast.
"""

from glue.requests.directory import Directory
from glue.requests.memory import Memory
from glue.requests.reply import Reply
from glue.requests.requester import Call, Requester
from glue.requests.wire import Hop, RequestHead

__all__ = ["Call", "Directory", "Hop", "Memory", "Reply", "RequestHead", "Requester"]
