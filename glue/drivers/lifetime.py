"""Whether something is alive: from its start to its end, in the process that started it.

A forked child has the memory and the sockets of its parent, but none of its threads, and its locks as they happened to
be. Whatever it sent would be taken for its parent's, and nothing comes to it. So there all is at its end from the
beginning: endpoints, by their drivers, and subscriptions.
"""

from __future__ import annotations

from glue.endpoint.fork import heirs

FAREWELL = 0.2  # seconds to wait for a thread when closing; one in a long handler is left to end by itself


class Life:
    """What a driver or a subscription is derived from. It sets `_closed` at its start and at its end."""

    def __init__(self) -> None:
        self._closed = True
        self.renew_locks()
        heirs.add(self)

    @property
    def closed(self) -> bool:
        """Whether it has not started, or has ended."""
        return self._closed

    def renew_locks(self) -> None:
        """Make all locks, if there are any; again in a forked child, where nobody is left to release them."""

    def orphan(self) -> None:
        """This is a forked child."""
        self._closed = True
        self.renew_locks()
