"""The protocol's moves as scripts with their expected output, in `scenarios/`.

A script has steps, `----`, and what happened: messages that arrived, roles that changed, tickets that were settled. A
change that is meant is taken over by `pytest tests/model/test_scenarios.py --rewrite`, and read in the diff.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from glue.model.consensus.items import LogEntry
from glue.simulation.consensus import Cluster, Node
from tests.model.member import SETTINGS

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
HIDDEN = {"group", "life", "scope"}
"""Fields of messages that say nothing about a move."""


class Stage:
    """A cluster that obeys steps and writes down what happens."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_silent = False
        self.cluster = Cluster(1, trace=self._note)
        self.cluster.net.slowest = self.cluster.net.delay
        self.cluster.told = self._arrived  # type: ignore[method-assign]
        self._roles: dict[str, str] = {}

    def _note(self, line: str) -> None:
        if ">" not in line and not self.is_silent:
            self._write(re.sub(r"^ *\d+\.\d+ ", "", line))

    def _write(self, line: str) -> None:
        self.lines.append(f"{self.cluster.time:8.3f} {line}")

    def _arrived(self, source: str, destination: str, message: Any) -> None:
        if self.is_silent:
            return
        fields = {f.name: getattr(message, f.name) for f in dataclasses.fields(message) if f.name not in HIDDEN}
        told = " ".join(f"{name}={brief(value)}" for name, value in fields.items())
        self._write(f"{source} > {destination} {type(message).__name__} {told}")

    def step(self, line: str) -> None:
        """Obey one line of a script."""
        verb, *words = line.split()
        getattr(self, "do_" + verb)(*words)

    def do_voters(self, *peers: str) -> None:
        settings = dataclasses.replace(SETTINGS, voters=len(peers), heartbeat=0.4, compact_after=1 << 20)
        for peer in peers:
            self.cluster.add(peer, settings)

    def do_quietly(self, *words: str) -> None:
        """Another step, of which only the changes of roles are told."""
        self.is_silent = True
        self.step(" ".join(words))
        self.is_silent = False

    def do_run(self, seconds: str) -> None:
        end = self.cluster.time + float(seconds)
        while self.cluster.time < end:
            self.cluster.run_until(self._roles_changed, end - self.cluster.time)

    def _roles_changed(self) -> bool:
        changed = False
        for peer, node in self.cluster.nodes.items():
            role = "down" if node.replica is None else f"{node.replica.status.role.value} {node.replica.status.term}"
            if role != self._roles.get(peer):
                self._roles[peer], changed = role, True
                self._write(f"{peer}: {role}")
        return changed

    def do_propose(self, peer: str, command: str) -> None:
        self.cluster.propose(self.cluster.nodes[peer], command.encode())

    def do_read(self, peer: str) -> None:
        self.cluster.read(self.cluster.nodes[peer])

    def do_cut(self, *peers: str) -> None:
        self.cluster.partition(list(peers), [peer for peer in self.cluster.nodes if peer not in peers])

    def do_heal(self) -> None:
        self.cluster.heal()

    def do_crash(self, peer: str) -> None:
        self.cluster.nodes[peer].crash()

    def do_restart(self, peer: str) -> None:
        self.cluster.nodes[peer].restart()

    def do_wipe(self, peer: str) -> None:
        disk = self.cluster.nodes[peer].disk
        assert disk is not None
        disk.wipe()

    def do_remove(self, leader: str, peer: str) -> None:
        node = self.cluster.nodes[leader]
        assert node.replica is not None
        node.replica.remove(node.now, peer)
        node.arm()

    def do_transfer(self, leader: str, peer: str) -> None:
        node = self.cluster.nodes[leader]
        assert node.replica is not None
        node.replica.transfer(node.now, peer)
        node.arm()

    def do_state(self) -> None:
        for peer, node in self.cluster.nodes.items():
            self._write(f"{peer}: {state(node)}")


def state(node: Node) -> str:
    if node.replica is None:
        return "down"
    status, members = node.replica.status, node.replica.configuration
    learners = f" learners {' '.join(sorted(members.learners))}" if members.learners else ""
    return (
        f"{status.role.value} {status.term} leader {status.leader or '-'} committed {status.commit_index} "
        f"last {node.last()[1]} voters {' '.join(sorted(members.voters))}{learners}"
    )


def brief(value: Any) -> str:
    if isinstance(value, LogEntry):
        return f"{value.index}.{value.term}:{('', 'nothing', 'members')[value.kind] or value.data.decode()}"
    if isinstance(value, tuple):
        return "(" + " ".join(map(brief, value)) + ")"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>" if len(value) > 20 else value.decode()
    return "…" if isinstance(value, int) and value > 1 << 40 else str(value)


def played(text: str) -> str:
    """A scenario with what happens when it is played."""
    stage, out = Stage(), []
    for block in text.strip().split("\n\n"):
        steps = block.split("\n----")[0].splitlines()
        for line in steps:
            if not line.startswith("#"):
                stage.step(line)
        out.append("\n".join([*steps, "----", *stage.lines] if stage.lines else steps))
        stage.lines.clear()
    return "\n\n".join(out) + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_goes_as_it_is_written_down(path: Path, pytestconfig: pytest.Config) -> None:
    text = path.read_text()
    now = played(text)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(now)
    else:
        assert now == text
