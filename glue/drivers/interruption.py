"""Ctrl-C waits for the end of a turn.

Signal handlers run in the main thread, between any two of its steps. A KeyboardInterrupt in the middle of a turn would
take with it what the turn had received, and acknowledged, or was about to send; and programs do go on after one (a
shell, a notebook). So while the main thread is in a turn, SIGINT is only noted, and raised again at its end, for
whatever handler the program has. Other signals are left alone: what their handlers raise mostly ends the process.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it, and takes 5 µs to make enumerations of integers
import signal
import threading
from _thread import get_ident
from typing import Any


class Uninterrupted:
    """A context in which no KeyboardInterrupt is raised; to be entered by one thread at a time."""

    __slots__ = ("_handler", "_noted")

    def __init__(self) -> None:
        self._handler: Any = None  # the program's, meanwhile
        self._noted = False

    def __enter__(self) -> None:
        self._handler, self._noted = None, False  # an interruption on the way out may have left something
        if get_ident() == threading.main_thread().ident:
            handler = _signal.getsignal(signal.SIGINT)
            if callable(handler):  # else it raises nothing: it is ignored, ends the process, or is not Python's
                self._handler = handler
                _signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            _signal.signal(signal.SIGINT, self._handler)
            if self._noted:
                signal.raise_signal(signal.SIGINT)

    def _note(self, number: int, frame: object) -> None:
        self._noted = True
