"""Lifetime: from start to end, in the process that started.

A forked child has the memory and the sockets of its parent, but none of its threads, and its locks in any state.
Its datagrams would be taken for its parent's, and none reach it. Therefore every endpoint and subscription is closed in
a forked child.
"""

from __future__ import annotations

from glue.endpoint.fork import heirs

FAREWELL = 0.2  # seconds to wait for a thread when closing; one in a long handler is left to end by itself


class Lifetime:
    """The base class of drivers and subscriptions, which set `_closed` at their start and at their end."""

    def __init__(self) -> None:
        self._closed = True
        self.renew_locks()
        heirs.add(self)

    @property
    def closed(self) -> bool:
        """Whether it has not started, or has ended."""
        return self._closed

    def renew_locks(self) -> None:
        """Make all locks, if there are any; again in a forked child, where no thread is left to release them."""

    def orphan(self) -> None:
        """This is a forked child."""
        self._closed = True
        self.renew_locks()
