"""Ctrl-C waits for the end of a turn.

Signal handlers run in the main thread, between any two of its steps. A KeyboardInterrupt in the middle of a turn would
take with it what the turn had received, and acknowledged, or was about to send; and programs do go on after one (a
shell, a notebook). So while the main thread is in a turn, SIGINT is only noted, and at its end the program's handler is
called, whatever it is. Other signals are left alone: what their handlers raise mostly ends the process. Where it does
not, it may have come between the turn and its end, and left our handler behind; who then notes a SIGINT sees that.
And handlers may publish, whatever they have interrupted: `is_interruption` tells those who are about to wait.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it, and takes 5 µs to make enumerations of integers
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from signal import SIGINT
from types import CodeType, FrameType
from typing import Any

INTERRUPT = int(SIGINT)


PACKAGE = "glue."
PROGRAMS = ("glue.cmd.", "glue.aio.", "glue.simulation.")  # of it: these are to a blocking endpoint what programs are


def is_interruption() -> bool:
    """Whether whoever calls this package is the handler of a signal that has interrupted the package itself.

    Then it must not wait for long: what it interrupted may hold what those need who are waited for. (The same goes for
    a finalizer that was called there.)
    """
    if get_ident() != threading.main_thread().ident:  # only there handlers of signals run
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    while frame is not None and not _is_ours(frame):
        frame = frame.f_back
    return frame is not None


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is one of the package, but none that calls its user's code in the main thread."""
    name = frame.f_globals.get("__name__", "")
    return name.startswith(PACKAGE) and not name.startswith(PROGRAMS) and frame.f_code.co_name != "publish_many"


class Uninterrupted:
    """A context in which no KeyboardInterrupt is raised, for `within`, the code that enters it; for any thread.

    That is a turn, which is short, or a wait, which is then ended (`hurry`).
    """

    __slots__ = ("_handler", "_hurry", "_main", "_nested", "_note", "_noted", "_thread", "_within")

    def __init__(self, within: CodeType, hurry: Callable[[], None] | None = None) -> None:
        """`hurry` is called when SIGINT was noted, so that what is within ends soon."""
        self._within = within
        self._hurry = hurry
        self._note = self._take
        self._noted = False
        self._nested = 0  # how often it was entered within itself, by handlers of other signals
        self._main = threading.main_thread().ident  # who uses this is at its end in a forked child, where it may differ
        self._thread = 0  # that may enter
        self._handler: Any = None  # the program's, as long as ours is in its place

    @property
    def is_noted(self) -> bool:
        """Whether SIGINT came within, and what is within is to end soon."""
        return self._noted

    def __enter__(self) -> None:
        thread = get_ident()
        if thread != self._main:
            return
        handler = _signal.getsignal(INTERRUPT)
        if handler is self._note:
            self._nested += self._is_within(sys._getframe(2))
            return
        if not callable(handler):  # it is ignored, ends the process, or not Python's
            return
        try:
            self._handler, self._thread = handler, thread
            _signal.signal(INTERRUPT, self._note)
            self._handler = handler  # again: in between, the handler of another signal may have come and gone this way
        except ValueError:  # this thread was the first to ask for others, but is not the interpreter's first
            self._handler = None

    def __exit__(self, *_: object) -> None:
        if get_ident() != self._thread:
            return
        if self._nested:
            self._nested -= 1
        elif self._handler is not None:
            self._end(sys._getframe(2))  # of what called the code within

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._noted = True
        if self._hurry is not None:
            self._hurry()
        if not self._is_within(frame):
            self._end(frame)

    def _is_within(self, frame: FrameType | None) -> bool:
        """Whether a frame is, or was called by, the code within."""
        while frame is not None and frame.f_code is not self._within:
            frame = frame.f_back
        return frame is not None

    def _end(self, frame: FrameType | None) -> None:
        """Give the program its handler back, unless it has set another, and what it is to handle."""
        handler = self._handler
        if _signal.getsignal(INTERRUPT) is self._note:
            _signal.signal(INTERRUPT, handler)
        noted, self._noted, self._handler = self._noted, False, None
        if noted:
            handler(INTERRUPT, frame)
