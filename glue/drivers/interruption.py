"""Ctrl-C waits for the end of a turn.

Signal handlers run in the main thread, between any two of its steps. A KeyboardInterrupt in the middle of a turn would
lose received and acknowledged messages, or messages to send, and a shell or a notebook continues after it. Therefore
SIGINT is only noted while the main thread is in a turn, and the program's handler is called at the end of the turn.
Other signals are left alone, because an exception of their handlers mostly ends the process. Otherwise such an
exception may leave our SIGINT handler installed after the turn; the handler detects this at the next SIGINT.
Handlers may publish, whatever they have interrupted (`glue.drivers.backpressure`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it: 1 ms at import, 5 µs a call for enumerations
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

INTERRUPT: int = _signal.SIGINT


class Uninterrupted:
    """A context in which no KeyboardInterrupt is raised; usable in any thread, and entered by the code `within`.

    The context is a short turn, or a wait, which `hurry` ends.
    """

    __slots__ = ("_handler", "_hurry", "_main", "_nested", "_note", "_noted", "_thread", "_within")

    def __init__(self, within: CodeType, hurry: Callable[[], None] | None = None) -> None:
        """`hurry` is called when SIGINT was noted, to end a wait in the context soon."""
        self._within = within
        self._hurry = hurry
        self._note = self._take
        self._noted = False
        self._nested = 0  # the depth of nested entries, by handlers of other signals
        self._main = threading.main_thread().ident  # may differ in a forked child, where all users are closed
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
        """Restore the program's handler, unless the program has set another, and call it for a noted SIGINT."""
        handler = self._handler
        if _signal.getsignal(INTERRUPT) is self._note:
            _signal.signal(INTERRUPT, handler)
        noted, self._noted, self._handler = self._noted, False, None
        if noted:
            handler(INTERRUPT, frame)
