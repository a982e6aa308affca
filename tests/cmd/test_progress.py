"""The progress of long work: what the line says, that it is drawn and erased on a terminal, and nowhere else."""

from __future__ import annotations

import io
import threading

import pytest

from glue.cmd import progress
from glue.cmd.output import CommandOutput
from glue.cmd.progress import Progress


class Terminal(io.StringIO):
    """A stream that is a terminal, and tells when it was drawn on."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        self.drawn.set()
        return written


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw at once, on a terminal that is known to have colours."""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_the_line_tells_what_goes_on_how_far_it_is_and_how_long() -> None:
    line = Progress("copying")
    assert line.line(3.4) == "copying  3 s"
    line.tell("7 files")
    assert line.line(3.6) == "copying  7 files  4 s"
    line.tell("8 files", 0.5)
    assert line.line(5) == "copying  [##########----------]  50%  8 files  5 s"
    line.tell("", 1.7)
    assert line.line(5) == "copying  [####################] 100%  5 s"


def test_work_of_a_known_time_has_a_bar_of_its_own() -> None:
    assert Progress("listening", 4.0).line(1.0) == "listening  [#####---------------]  25%  1 s"


@pytest.mark.parametrize(
    ("no_color", "expected"), [("", "\r\x1b[2mcopying  0 s\x1b[0m\x1b[K"), ("1", "\rcopying  0 s\x1b[K")]
)
def test_a_terminal_shows_the_line_and_loses_it_at_the_end(
    monkeypatch: pytest.MonkeyPatch, no_color: str, expected: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    with Progress("copying", stream=terminal):
        assert terminal.drawn.wait(10)
    assert terminal.getvalue().startswith(expected)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_where_there_is_no_terminal_or_lines_are_shown_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    output = CommandOutput(Terminal(), json=False, unread=lambda: None)
    with output.progress("reading", beside_lines=True), Progress("copying", stream=io.StringIO()):
        pass
    monkeypatch.setenv("TERM", "dumb")
    with output.progress("reading"):
        pass
    assert not terminal.getvalue()


def test_a_line_of_the_command_erases_the_progress_first(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "INTERVAL", 60.0)
    output = CommandOutput(terminal, json=False, unread=lambda: None)
    with output.progress("running"):
        assert terminal.drawn.wait(10)
        output.event("failed", "seed 7 failed")
    assert terminal.getvalue().endswith("\x1b[K\r\x1b[Kseed 7 failed\n")
