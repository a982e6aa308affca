"""Running commands as processes on loopback, on a network of their own, and hearing what they say."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import json_forms
from tests.support.loopback import loopback_environment

TIMEOUT = 30.0
"""Seconds after which a command is taken to hang; far above what any of them needs."""

Start = Callable[..., "Command"]


class Command:
    """A command that runs with `--json`, and what it has said."""

    def __init__(self, name: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"glue.cmd.{name}", "--json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.events: list[dict[str, Any]] = []
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(line)
        self._said.put("")

    def expect(self, event: str) -> dict[str, Any]:
        """Wait until the command says this."""
        while line := self._said.get(timeout=TIMEOUT):
            self._take(line)
            if self.events[-1]["event"] == event:
                return self.events[-1]
        raise AssertionError(f"ended without {event!r}: {self.errors()}")

    def finish(self) -> int:
        """Wait for the command to end; returns its exit code, and collects all it said."""
        code = self.process.wait(TIMEOUT)
        while line := self._said.get(timeout=TIMEOUT):
            self._take(line)
        return code

    def _take(self, line: str) -> None:
        """Add a line to the events; each has the form that is documented."""
        self.events.append(json.loads(line))
        json_forms.check(self.events[-1])

    def heard(self, publisher: str) -> list[int]:
        """The sequence numbers heard of a publisher, in the order they came."""
        return [e["sequence"] for e in self.events if e["event"] == "message" and e["publisher"] == publisher]

    def errors(self) -> str:
        """What the command wrote to stderr; only once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        """End the process if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of commands that only hear each other, over loopback."""
    return loopback_environment()


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start a command by its name and arguments; all are ended after the test."""
    running: list[Command] = []

    def start_command(name: str, *arguments: str) -> Command:
        running.append(Command(name, arguments, environment))
        return running[-1]

    yield start_command
    for command in running:
        command.close()
