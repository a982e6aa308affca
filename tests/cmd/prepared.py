"""Prepared values for commands that are called in this process: outputs that remember, messages, and endpoints."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from glue.cmd.output import CommandOutput


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def people(say: Callable[[CommandOutput], object], *, terminal: bool = False) -> str:
    """What people are told, as the whole text."""
    stream = Screen() if terminal else io.StringIO()
    say(CommandOutput(stream, json=False, unread=lambda: None))
    return stream.getvalue()


def programs(say: Callable[[CommandOutput], object]) -> list[dict[str, Any]]:
    """What programs are told: the events, without what every one has."""
    stream = io.StringIO()
    say(CommandOutput(stream, json=True, unread=lambda: None, command="x"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("glue", "format")} for line in lines]


def message(payload: Any, sequence: int = 1, **changed: Any) -> Any:
    """A received message."""
    fields = {
        "publisher": "hall", "publisher_id": "h1", "incarnation": 1, "topic": "home/lamp", "type": None,
        "published_at": 1.5, "retained": False,
    }  # fmt: skip
    return SimpleNamespace(payload=payload, sequence=sequence, **{**fields, **changed})


class Calls:
    """An object whose methods remember how they were called, and return what was prepared for them."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[Any] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, *arguments, options) if options else (name, *arguments))
            answer = self._answers.get(name)
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments, **options) if callable(answer) else answer

        return call


def noting(into: list[Any], answer: Any = None) -> Callable[..., Any]:
    """A function that notes what it is called with, and returns the answer."""

    def note(*arguments: Any, **options: Any) -> Any:
        into.append(arguments[0] if len(arguments) == 1 and not options else options or arguments)
        return answer

    return note


class Time:
    """A clock that goes on only while something waits."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.naps.append(round(seconds, 6))
        self.now += seconds


def lines_of(*lines: str) -> Callable[[], str]:
    """A reader of these lines, and of the end after them."""
    left: Iterator[str] = iter(lines)
    return lambda: next(left, "")
