"""Ctrl-C waits for the end of a turn.

Signal handlers run in the main thread, between any two of its steps. A KeyboardInterrupt in the middle of a turn would
take with it what the turn had received, and acknowledged, or was about to send; and programs do go on after one (a
shell, a notebook). So while the main thread is in a turn, SIGINT is only noted, and at its end the program's handler is
called, whatever it is. Other signals are left alone: what their handlers raise mostly ends the process. Where it does
not, it may have come between the turn and its end, and left our handler behind; who then notes a SIGINT sees that.
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


class Uninterrupted:
    """A context in which no KeyboardInterrupt is raised, for `within`, the code that enters it; for any thread.

    That is a turn, which is short, or a wait, which is then ended (`hurry`).
    """

    __slots__ = ("_handler", "_hurry", "_note", "_noted", "_thread", "_within")

    def __init__(self, within: CodeType, hurry: Callable[[], None] | None = None) -> None:
        """`hurry` is called when SIGINT was noted, so that what is within ends soon."""
        self._within = within
        self._hurry = hurry
        self._note = self._take
        self._noted = False
        self._thread = 0  # that may enter
        self._handler: Any = None  # the program's, as long as ours is in its place

    def __enter__(self) -> None:
        thread = get_ident()
        if thread != threading.main_thread().ident:
            return
        handler = _signal.getsignal(INTERRUPT)
        if handler is self._note or not callable(handler):  # if not, it is ignored, ends the process, or not Python's
            return
        try:
            self._handler, self._thread, self._noted = handler, thread, False
            _signal.signal(INTERRUPT, self._note)
        except ValueError:  # this thread was the first to ask for others, but is not the interpreter's first
            self._handler = None

    def __exit__(self, *_: object) -> None:
        if self._handler is not None and get_ident() == self._thread:
            self._end(sys._getframe(2))  # of what called the code within

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._noted = True
        if self._hurry is not None:
            self._hurry()
        outer = frame
        while outer is not None and outer.f_code is not self._within:
            outer = outer.f_back
        if outer is None:
            self._end(frame)

    def _end(self, frame: FrameType | None) -> None:
        """Give the program its handler back, unless it has set another, and what it is to handle."""
        handler = self._handler
        if _signal.getsignal(INTERRUPT) is self._note:
            _signal.signal(INTERRUPT, handler)
        noted, self._noted, self._handler = self._noted, False, None
        if noted:
            handler(INTERRUPT, frame)
