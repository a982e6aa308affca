"""The objects that a forked child releases.

A child has the memory and the file descriptors of its parent. What the parent closes later stays open as long as the
child has a copy: a port stays taken, a lock held, and datagrams to a group fill an unread buffer. Therefore each owner
of descriptors closes the child's copies, which changes nothing for the parent.
"""

from __future__ import annotations

import contextlib
import os
from typing import Protocol
from weakref import WeakSet


class Heir(Protocol):
    """Something that a forked child has inherited."""

    def _after_fork(self) -> None:
        """Release inherited state in a forked child: no thread releases the locks, and descriptors are copies."""


heirs: WeakSet[Heir] = WeakSet()
"""The objects whose `_after_fork` is called in a forked child."""


def _notify_heirs() -> None:
    for heir in list(heirs):
        with contextlib.suppress(OSError):  # a failure to close one descriptor must not stop the others
            heir._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notify_heirs)
