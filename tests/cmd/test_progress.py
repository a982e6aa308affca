"""The progress of long work: what the line says, that it is drawn and erased on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

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


class Rounds:
    """The end of a block, which comes after so many looks; notes how long each look waits."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.waited, self.is_late = rounds, list[float](), False

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) > self.rounds

    def is_set(self) -> bool:
        return self.is_late


def drawn(terminal: io.StringIO, rounds: Rounds) -> Progress:
    made: Any = Progress("copying", stream=terminal)
    made._is_over = rounds
    made._draw()
    return made  # type: ignore[no-any-return]


def test_the_line_is_drawn_again_five_times_a_second_and_erased_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 7.0)
    terminal, rounds = Terminal(), Rounds(2)
    made = drawn(terminal, rounds)
    assert (rounds.waited, terminal.getvalue().count("copying")) == ([7.0, 0.2, 0.2], 2)
    before = len(terminal.getvalue())
    made.clear()
    made.clear()
    assert terminal.getvalue()[before:] == "\r\x1b[K"


def test_nothing_is_drawn_behind_the_end_nor_erased_that_was_not_drawn() -> None:
    terminal, rounds = Terminal(), Rounds(2)
    rounds.is_late = True
    drawn(terminal, rounds).clear()
    assert terminal.getvalue() == ""


def test_the_line_is_shorter_than_the_terminal_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {5: os.terminal_size((6, 1)), 6: os.terminal_size((0, 0))}
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    terminal: Any = Terminal()
    assert progress._columns(terminal) == 80, "it has no number"
    for number, columns in ((5, 6), (6, 80)):
        terminal.fileno = lambda number=number: number
        assert progress._columns(terminal) == columns
    terminal.fileno = lambda: 5
    drawn(terminal, Rounds(1))
    assert terminal.getvalue() == "\r\x1b[2mcopyi\x1b[0m\x1b[K"


def test_a_terminal_that_is_gone_is_left_alone() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            super().write(text)
            raise OSError("the terminal is gone")

    terminal = Gone()
    drawn(terminal, Rounds(1)).clear()
    assert terminal.getvalue().count("\r") == 1
