"""Requests and replies as state machines: no clock, no socket, no thread.

They travel as messages on topics of their own. An endpoint that answers a pattern announces an interest in
`$glue/responder/<pattern>`, on which nothing is published, so that discovery tells every caller who answers. It
receives requests on `$glue/request/<its id>/<topic>`, a caller receives replies on
`$glue/reply/<its id>/<its incarnation>`: each of these has one receiver, so it travels by unicast.
"""

from glue.requests.directory import Directory
from glue.requests.memory import Memory
from glue.requests.reply import Reply
from glue.requests.requester import Call, Requester
from glue.requests.wire import Hop, RequestHead

__all__ = ["Call", "Directory", "Hop", "Memory", "Reply", "RequestHead", "Requester"]
