"""The output of a command: lines for people, or with `--json` one JSON object a line, each flushed at once.

A command reports *events*. An event has a name and fields for programs, and a text for people. Text from the network is
made printable before it is written to a terminal. If the reader of the output closes it (`| head`), the command ends as
after Ctrl-C.

Each JSON object says which command wrote it, and in which version of that command's form, so that a line can be read
without the others. `docs/json.md` describes the forms.
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

from glue.cmd.progress import Progress
from glue.spying.fields import brief

RESERVED = ("glue", "format", "event", "endpoint")
"""Members of every JSON object, which no event may have as a field."""
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
DEPTH = 64
"""Levels of a payload that programs are told, where JSON cannot carry all of it."""
SHOWN_LENGTH = 80
"""Characters of a name or a payload that people are shown."""


class CommandOutput:
    """Writes events to a stream, from any thread. Calls `unread` once the reader has closed the stream."""

    def __init__(
        self, stream: TextIO, json: bool, unread: Callable[[], None], command: str = "", version: int = 1
    ) -> None:
        """`command`: its name without `glue`. `version`: that of the form of its events, which `docs/json.md` tells."""
        self.json = json
        self.endpoint: str | None = None
        """The name of the command's endpoint, once there is one."""
        self._form = {"glue": command, "format": version}
        self.interactive = not json and stream.isatty()
        self._coloured = self.interactive and not os.environ.get("NO_COLOR")
        self._stream = stream
        self._unread = unread
        self._lock = threading.Lock()
        self._broken = False
        self._progress: Progress | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def event(self, event: str, text: str | None = None, /, **fields: Any) -> None:
        """Write an event: its text, or with `--json` a line for programs. Without a text it is for programs alone.

        No field may have a name in `RESERVED`.
        """
        if self.json:
            whose = {} if self.endpoint is None else {"endpoint": self.endpoint}
            self.write(_encoded({**self._form, "event": event, **whose, **fields}) + "\n")
        elif text is not None:
            self.write(text + "\n")

    def complaint(self, event: str, text: str, /, **fields: Any) -> None:
        """Report a problem: as an event for programs, on the standard error output for people."""
        if self.json:
            self.event(event, **fields)
        else:
            print(text, file=sys.stderr, flush=True)

    def progress(self, what: str, seconds: float = 0.0, *, beside_lines: bool = False) -> Progress:
        """Return a context manager that shows progress on stderr, if that is a terminal.

        `seconds`: how long the block takes, if that is known. With `beside_lines`, lines that this output writes to a
        terminal are progress enough.
        """
        self._progress = Progress(what, seconds, is_quiet=beside_lines and self._stream.isatty())
        return self._progress

    def write(self, text: str) -> None:
        """Write a text unchanged, and flush."""
        with self._lock:
            if self._broken:
                return
            if self._progress is not None:
                self._progress.clear()
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError:
                self._give_up()

    def _give_up(self) -> None:
        self._broken = True
        # Send buffered output to the null device: else the interpreter's last flush would fail and print an error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        self._unread()

    def style(self, style: str, text: str) -> str:
        """Return the text in a colour or weight, if the output is a terminal and NO_COLOR is unset."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self._coloured else text


def _encoded(event: dict[str, Any]) -> str:
    """Encode an event as JSON; of a payload that JSON cannot carry, what a codec decoded, it has the texts."""
    try:
        return json.dumps(event, default=_text, allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # such as a key that is no text, a NaN, or lists without end
        return json.dumps(_plain(event, ()))


def _plain(value: Any, around: tuple[int, ...]) -> Any:
    """Return a value that JSON can carry. `around` has the ids of what it is in; a list may be in itself."""
    if isinstance(value, (dict, list, tuple)):
        if len(around) > DEPTH or id(value) in around:
            return brief(value)
        around = (*around, id(value))
        if isinstance(value, dict):
            return {_text(key): _plain(inner, around) for key, inner in value.items()}
        return [_plain(inner, around) for inner in value]
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return _text(value)
    return value


def _text(value: Any) -> str:
    """Return the text of any value. Not all have one: `str` refuses integers of more than 4,300 digits."""
    try:
        return str(value)
    except Exception:
        return brief(value)


def printable(text: str, length: int = SHOWN_LENGTH) -> str:
    """Make text from the network safe for a terminal: one line, no control characters, shortened."""
    shortened = text if len(text) <= length else text[: length - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened)


def payload_text(payload: Any, length: int = SHOWN_LENGTH) -> str:
    """Format a payload for people: JSON values as JSON (strings without quotes), bytes as UTF-8 text or else in hex.

    What is no JSON value, such as an array of a codec, is shown as Python writes it.
    """
    if isinstance(payload, str):
        return printable(payload, length)
    if not isinstance(payload, bytes):
        try:
            return printable(json.dumps(payload, ensure_ascii=False), length)
        except (TypeError, ValueError, RecursionError):
            return printable(brief(payload), length)
    start = payload[: 4 * length]  # enough for the length; a character cut at the end is no error
    try:
        return printable(codecs.getincrementaldecoder("utf-8")().decode(start), length)
    except UnicodeDecodeError:
        return printable(start.hex(" "), length)


def payload_fields(payload: Any) -> dict[str, Any]:
    """Return a payload for programs: a JSON value as it is, bytes as UTF-8 text or else in base64.

    For bytes, `payload_encoding` tells which.
    """
    if not isinstance(payload, bytes):
        return {"payload": payload}
    try:
        return {"payload": payload.decode(), "payload_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}


def table(rows: list[list[str]]) -> list[str]:
    """Return lines with aligned columns: numbers to the right, text to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numeric = [all(cell.replace(",", "").isdigit() for cell in column[1:]) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{c:>{w}}" if n else f"{c:{w}}" for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
        for row in rows
    ]
