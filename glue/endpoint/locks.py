"""Locks that a thread may acquire again, and the question whether the calling thread has acquired one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def asked_whether_held(lock: Any) -> Callable[[], bool]:
    """Return a function that tells whether the calling thread holds an RLock.

    A handler of a signal may hold it already: then it has interrupted what the lock protects. Only a condition tells
    this in public: `notify` raises RuntimeError in a thread that does not hold the condition's lock.
    """
    notify = threading.Condition(lock).notify

    def is_held() -> bool:
        try:
            notify(0)
        except RuntimeError:
            return False
        return True

    return is_held
