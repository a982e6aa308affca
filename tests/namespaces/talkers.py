"""Processes that run `glue topics --json`, each on a host of its own, and what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.support.namespaces import Host

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds to wait for what must come before the test fails; it comes in a second or two."""

ANNOUNCE_INTERVAL = 0.2
"""Seconds: a peer that was killed is removed after five of them."""


class Talker:
    """One process, which ends with its host; `events` are what it said so far."""

    def __init__(self, host: Host, name: str, *arguments: str) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        interface = [] if "--interface" in arguments else ["--interface", "eth0"]
        command = [sys.executable, "-m", "glue.cmd.topics", "--json", *interface, "--endpoint-name", name]
        self.process = host.popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GLUE_ANNOUNCE_INTERVAL": str(ANNOUNCE_INTERVAL)},
        )
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)  # it ends with the process
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._said:
                self.events.append(json.loads(line))
                self._said.notify_all()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds, which is looked at whenever the process has said something."""
        with self._said:
            assert self._said.wait_for(condition, PATIENCE), f"{self.name}: {what}; last heard {self.events[-3:]}"

    def said(self, event: str) -> list[dict[str, Any]]:
        """All events of this kind."""
        return [said for said in self.events if said["event"] == event]

    def heard(self, publisher: str) -> list[int]:
        """The sequence numbers heard of a publisher, in the order they came."""
        return [said["sequence"] for said in self.said("message") if said["publisher"] == publisher]

    def wait_for_more(self, publishers: Iterable[Talker]) -> None:
        """Wait until it hears something new of each of them."""
        for publisher in publishers:
            before = len(self.heard(publisher.name))
            self.wait_until(lambda: len(self.heard(publisher.name)) > before, f"nothing new of {publisher.name}")  # noqa: B023

    def kill(self) -> None:
        """End it without a word (kill -9)."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def finish(self) -> int:
        """End it as Ctrl-C does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code
