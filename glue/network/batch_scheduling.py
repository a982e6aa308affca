"""SCHED_BATCH for a thread that waits for a multicast stream, for many receivers on few cores.

A thread that wakes takes the core of the thread that runs there, and finds a cold cache. With five programs on two
cores each program would be woken for every train, one after the other. As SCHED_BATCH (sched(7), Linux) a thread that
wakes waits until a core is free, and by then more datagrams have come for it. Threads that run already run on as ever.

The policy is set only during the wait, because threads and processes that handlers start inherit it.
(If the handler of a signal raises just as the policy changes, the thread that it interrupts may keep it.)
"""

from __future__ import annotations

import contextlib
import os
import sys


def enter() -> bool:
    """Give the calling thread SCHED_BATCH; returns whether `leave` has to be called.

    It returns False where the thread's policy is not the usual one, or cannot be changed.
    """
    return _change(is_due=True)


def leave() -> None:
    """Give the calling thread the usual policy again, unless another one was set meanwhile."""
    _change(is_due=False)


def _change(is_due: bool) -> bool:
    if sys.platform == "linux":
        before, after = (os.SCHED_OTHER, os.SCHED_BATCH) if is_due else (os.SCHED_BATCH, os.SCHED_OTHER)
        with contextlib.suppress(OSError):  # musl has no such calls, and a sandbox may forbid them
            if os.sched_getscheduler(0) == before:
                os.sched_setscheduler(0, after, os.sched_param(0))
                return True
    return False
