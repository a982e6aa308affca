"""Lifetime: from start to end, in the process that started.

A forked child has its parent's memory and sockets, but no threads, and locks in any state. The child's datagrams would
count as the parent's, and no datagram reaches the child. Therefore every endpoint and subscription is closed in a
forked child.
"""

from __future__ import annotations

from glue.endpoint.fork import heirs

FAREWELL = 0.2  # seconds to wait for a thread when closing; one in a long handler is left to end by itself


class Lifetime:
    """The base class of drivers and subscriptions; subclasses set `_closed` at the start and at the end."""

    def __init__(self) -> None:
        self._closed = True
        self._renew_locks()
        heirs.add(self)

    @property
    def closed(self) -> bool:
        """Whether the object has not started yet, or has ended."""
        return self._closed

    def _renew_locks(self) -> None:
        """Make all locks, if there are any; again in a forked child, where no thread is left to release them."""

    def _after_fork(self) -> None:
        """Close in a forked child, with new locks."""
        self._closed = True
        self._renew_locks()
