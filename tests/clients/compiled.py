"""The small client of extras/c, compiled for tests: as a program for real networks, and without a network."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "extras" / "c"
HARNESS = Path(__file__).with_name("harness.c")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
SANITIZED = [*STRICT, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
PATIENCE = 30.0
"""Seconds to wait for an expected event before the test fails; it comes in milliseconds."""

_directories: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


@functools.cache
def compiled(program: str, is_sanitized: bool = True) -> str:
    """Return the path of `example` or `harness`, compiled. Raises AssertionError if the compiler complains."""
    compiler = shutil.which("cc")
    assert compiler is not None, "there is no C compiler (on Debian: apt-get install gcc libc6-dev)"
    directory = tempfile.TemporaryDirectory(prefix="glue-c-")
    _directories.append(directory)
    path = str(Path(directory.name) / program)
    sources = [FOLDER / "example.c", FOLDER / "glue.c"] if program == "example" else [HARNESS]
    options = SANITIZED if is_sanitized else [*STRICT, "-O2"]
    done = subprocess.run([compiler, *options, f"-I{FOLDER}", "-o", path, *sources], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return path


def command(language: str) -> list[str]:
    """Return how to run the example of the client in "c" or "node"."""
    if language == "c":
        return [compiled("example")]
    return [node(), str(FOLDER.parent / "node" / "example.mjs")]


def node() -> str:
    """Return the path of Node; skips the test where it is missing, but not in CI."""
    found = shutil.which("node")
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("node is missing (on Debian: apt-get install nodejs)")
    assert found is not None, "node is missing: CI has to run the client in another language"
    return found


class Program:
    """A running example; `lines` has what it printed so far."""

    def __init__(self, language: str, popen: Callable[..., subprocess.Popen[Any]], *arguments: str) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._process = popen(
            [*command(language), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def do(self, *commands: str) -> None:
        """Give it commands."""
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{command}\n" for command in commands).encode())
        self._process.stdin.flush()

    def wait(self, start: str, count: int = 1) -> list[str]:
        """Wait until it has printed so many lines that begin with `start`; returns what follows there."""

        def found() -> list[str]:
            return [line.removeprefix(start) for line in self.lines if line.startswith(start)]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, PATIENCE), f"printed {self.lines!r:.2000}"
            return found()

    def end(self) -> None:
        """Let it acknowledge, say goodbye and end. Raises AssertionError if a sanitizer found something."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        assert (self._process.wait(PATIENCE), self._process.stderr.read()) == (0, b"")
        self._reader.join(PATIENCE)
        self._process.stderr.close()

    def kill(self) -> None:
        """End it at once, if it runs."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        self._process.stdout.close()


class Harness:
    """A client without a network: datagrams in, datagrams and messages out, in virtual time.

    `window` is how many frames of a channel it takes ahead.
    """

    def __init__(self, command: Sequence[str] = (), window: int = 16) -> None:
        self.window = window
        self._process = subprocess.Popen(
            command or [compiled("harness")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def do(self, command: str) -> list[list[str]]:
        """Return the words of each line that a command printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._process.stdout.readline()) != "synced\n":
            assert line, self._process.communicate()[1]
            lines.append(line.split())
        return lines

    def receive(self, datagram: bytes, *, way: str = "unicast", port: int = 37319) -> list[list[str]]:
        """Let it receive a datagram."""
        return self.do(f"receive {way} {port} {datagram.hex()}")

    def advance(self, milliseconds: int = 0) -> list[tuple[dict[str, Any], bytes]]:
        """Let time pass; returns header and body of each datagram that it sent."""
        return sent(self.do(f"advance {milliseconds}"))

    def counters(self) -> dict[str, int]:
        """Return its counters that are not 0."""
        return {words[2]: int(words[1]) for words in self.do("counters") if int(words[1])}

    def end(self) -> None:
        """End it. Raises AssertionError if a sanitizer found something."""
        assert self._process.communicate(timeout=PATIENCE) == ("", "")
        assert self._process.returncode == 0


def node_harness() -> Harness:
    """The client in JavaScript; `reset` begins anew. Skips the test where Node is missing, but not in CI."""
    return Harness([node(), str(HARNESS.with_suffix(".mjs"))], 1024)


def sent(lines: Sequence[list[str]]) -> list[tuple[dict[str, Any], bytes]]:
    """Return header and body of the datagrams among printed lines."""
    found = []
    for words in lines:
        if words[0] == "sent":
            header, _, body = bytes.fromhex(words[2]).partition(b"\n")
            found.append((json.loads(header), body))
    return found
