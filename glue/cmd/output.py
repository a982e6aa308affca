"""What a command says: lines for people, or with `--json` one JSON object a line; each is flushed at once.

A command reports *events*; each has a name and fields, for programs, and a text, for people. What came from the
network is made printable before a terminal sees it. When whoever reads the output has seen enough (`| head`), the
command is ended as if by Ctrl-C.
"""

from __future__ import annotations

import base64
import codecs
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
SHOWN_LENGTH = 80
"""Characters of a name or a payload that people are shown."""


class Output:
    """Writes events to a stream, from any thread; calls `unread` when nobody reads them any more."""

    def __init__(self, stream: TextIO, json: bool, unread: Callable[[], None]) -> None:
        self.json = json
        self.context: dict[str, Any] = {}
        """Fields that every event has, such as the endpoint's name."""
        self.interactive = not json and stream.isatty()
        self._coloured = self.interactive and not os.environ.get("NO_COLOR")
        self._stream = stream
        self._unread = unread
        self._lock = threading.Lock()
        self._broken = False
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def event(self, event: str, text: str | None = None, /, **fields: Any) -> None:
        """Say that something happened; without a text only programs are told."""
        if self.json:
            self.write(json.dumps({"event": event, **self.context, **fields}, default=str) + "\n")
        elif text is not None:
            self.write(text + "\n")

    def complaint(self, event: str, text: str, /, **fields: Any) -> None:
        """Say that something is wrong: programs are told like of any event, people on the standard error output."""
        if self.json:
            self.event(event, **fields)
        else:
            print(text, file=sys.stderr, flush=True)

    def write(self, text: str) -> None:
        """Write as it is, and flush."""
        with self._lock:
            if self._broken:
                return
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError:
                self._give_up()

    def _give_up(self) -> None:
        self._broken = True
        # What is still buffered goes nowhere, or the interpreter would complain when it flushes at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        self._unread()

    def style(self, style: str, text: str) -> str:
        """The text in a colour or weight, where the reader is a terminal and NO_COLOR is unset."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self._coloured else text


def printable(text: str, length: int = SHOWN_LENGTH) -> str:
    """Text from the network for a terminal: one line, no control characters, shortened."""
    shortened = text if len(text) <= length else text[: length - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened)


def payload_text(payload: Any, length: int = SHOWN_LENGTH) -> str:
    """A payload for people: JSON as JSON, but a string as it is; bytes as text where they are text, else in hex."""
    if not isinstance(payload, bytes):
        return printable(payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False), length)
    start = payload[: 4 * length]  # enough for so many characters; the last of them may be cut, which is no error
    try:
        return printable(codecs.getincrementaldecoder("utf-8")().decode(start), length)
    except UnicodeDecodeError:
        return printable(start.hex(" "), length)


def payload_fields(payload: Any) -> dict[str, Any]:
    """A payload for programs: a JSON value as it is; bytes as text if they are UTF-8, else in base64, and so told."""
    if not isinstance(payload, bytes):
        return {"payload": payload}
    try:
        return {"payload": payload.decode(), "payload_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}


def table(rows: list[list[str]]) -> list[str]:
    """Lines with the columns aligned: the first one to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numeric = [all(cell.replace(",", "").isdigit() for cell in column[1:]) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{c:>{w}}" if n else f"{c:{w}}" for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
        for row in rows
    ]
