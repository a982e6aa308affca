"""Progress of a command that takes longer than a second: one line on stderr, and only where stderr is a terminal.

A thread draws the line, so that it moves also during a call that blocks, and `tell` costs a busy loop nothing. The line
is erased at the end, and before the command writes a line of its own (`CommandOutput.write`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

DELAY = 1.0
"""Seconds before the line appears: most work is done by then."""
INTERVAL = 0.2
BAR = 20  # characters


class Progress:
    """A context manager that shows the progress of its block."""

    def __init__(self, what: str, seconds: float = 0.0, stream: TextIO | None = None, is_quiet: bool = False) -> None:
        """`what` goes on; `seconds`: how long it takes, if that is known. With `is_quiet` nothing is shown."""
        self._what = what
        self._seconds = seconds
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = not is_quiet and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_coloured = not os.environ.get("NO_COLOR")
        self._share: float | None = None
        self._text = ""
        self._began = 0.0
        self._is_drawn = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    def tell(self, text: str, share: float | None = None) -> None:
        """Set what is done so far, as a text and as a share, 0 to 1, if it is known."""
        self._text, self._share = text, share

    def line(self, elapsed: float) -> str:
        """Return the line after so many seconds, without colours."""
        share = self._share
        if share is None and self._seconds:
            share = elapsed / self._seconds
        parts = [self._what]
        if share is not None:
            share = min(1.0, max(0.0, share))
            full = round(share * BAR)
            parts.append(f"[{'#' * full}{'-' * (BAR - full)}] {share:4.0%}")
        parts += [part for part in (self._text, f"{elapsed:.0f} s") if part]
        return "  ".join(parts)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._is_shown:
            threading.Thread(target=self._draw, name="glue progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self.clear()

    def clear(self) -> None:
        """Erase the line; it is drawn again while the block goes on."""
        if self._is_shown:
            with self._lock:
                if self._is_drawn:
                    self._write("\r\x1b[K")
                    self._is_drawn = False

    def _draw(self) -> None:
        pause = DELAY
        while not self._is_over.wait(pause):
            pause = INTERVAL
            with self._lock:
                if not self._is_over.is_set():
                    line = self.line(time.monotonic() - self._began)[: _columns(self._stream) - 1]
                    self._write(f"\r\x1b[2m{line}\x1b[0m\x1b[K" if self._is_coloured else f"\r{line}\x1b[K")
                    self._is_drawn = True

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._is_shown = False


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
