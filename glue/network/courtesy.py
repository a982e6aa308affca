"""Letting others go on first where a stream goes to several, who may share one machine and be more than its cores.

Whoever wakes takes the core of whoever runs there, and finds caches that are not its own: with five programs on two
cores each would be woken for every train, one after the other. As SCHED_BATCH (sched(7), Linux) a thread that wakes
waits until a core is free, and by then more has come for it. What runs, runs on as ever.

Only while it waits, because threads and processes that handlers start have the policy of the thread that starts them.
(If the handler of a signal raises just as the policy changes, the thread that it interrupts may keep it.)
"""

from __future__ import annotations

import contextlib
import os
import sys


def show() -> bool:
    """Let others go on first when the calling thread is woken; returns whether that is to be taken back.

    It is not where the thread's policy is not the usual one, or cannot be changed.
    """
    return _change(is_due=True)


def take_back() -> None:
    """Give the calling thread the usual policy again, unless somebody else has set another one meanwhile."""
    _change(is_due=False)


def _change(is_due: bool) -> bool:
    if sys.platform == "linux":
        before, after = (os.SCHED_OTHER, os.SCHED_BATCH) if is_due else (os.SCHED_BATCH, os.SCHED_OTHER)
        with contextlib.suppress(OSError):  # musl has no such calls, and a sandbox may forbid them
            if os.sched_getscheduler(0) == before:
                os.sched_setscheduler(0, after, os.sched_param(0))
                return True
    return False
