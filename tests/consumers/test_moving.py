"""Homes that move: what a keeper promised and copied is there after a restart, whichever way its file was written."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from glue.consumers.moving import MovingHome
from glue.consumers.positions import Positions
from glue.consumers.voting import HOME
from glue.consumers.wire import encode, key_of, parse
from glue.simulation.disk import SimulatedDisk
from glue.storage import MemoryLog, Stream, journal

ME, OTHERS = "1" * 16, ["2" * 16, "3" * 16]
PEER = "a" * 16
ID = key_of("billing", "a/#")
STREAM = Stream("p" * 16, 1, "a/b")


class Keeper:
    """A keeper with two others, which grant and copy everything at once."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.log = MemoryLog("log")
        self.statistics: Counter[str] = Counter()
        self.now = 0.0
        self.open()

    def open(self) -> None:
        """Begin a life."""
        self.home = MovingHome(
            ME, self.log, Positions(self.disk, "log"), self.statistics, lambda pattern: True, lambda pattern: OTHERS,
            lambda alert: None, directory=self.disk, now=self.now,
        )  # fmt: skip

    def pass_on(self, messages: list[tuple[str, bytes]]) -> None:
        """Let the others answer, until nothing is told any more."""
        for topic, payload in messages:
            head = parse(payload)[0]
            peer = next((one for one in OTHERS if one in topic), "")
            if peer and head.get("ask") == "stand":
                self.ask(peer, ask="vote", epoch=head["epoch"], granted=1)
            elif peer and head.get("ask") == "copy":
                told = {"epoch": head["epoch"], "promise": head["epoch"], "copied": [head["epoch"], head["to"]]}
                self.ask(peer, ask="copied", at=head["at"], **told)

    def ask(self, peer: str, **head: Any) -> None:
        """Take a message."""
        self.pass_on(
            self.home.take(self.now, 1e9, peer, 1, encode({"name": "billing", "pattern": "a/#", **head}))
        )  # fmt: skip

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds * 20)):
            self.now += 0.05
            self.pass_on(self.home.advance(self.now))

    def state(self) -> dict[str, Any]:
        """All that a restart must keep."""
        return {
            id: (ballot.about(), {stream: [*ranges] for stream, ranges in ballot.done.items()})
            for id, ballot in self.home.ballots.items()
        }


def keeper() -> Keeper:
    """A keeper that is the home of a consumer, which is done with some messages."""
    made = Keeper()
    join: dict[str, Any] = {"ask": "join", "member": f"{PEER}-1-1", "begin": 1, "start": ["earliest", 0], "ordered": 0}
    made.ask(PEER, **join)
    made.run(0.5)
    assert made.home.ballots[ID].role == HOME
    for first, stop in ((1, 3), (4, 5)):
        made.home.ballots[ID].add(STREAM, first, stop)
        made.run(0.5)
    return made


@pytest.mark.parametrize("slack", [1 << 20, 0], ids=["changes", "snapshots"])
def test_a_restart_finds_the_promises_and_what_is_done(slack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SLACK", slack)
    made = keeper()
    before = made.state()
    made.disk.crash()
    made.open()
    assert made.state() == before
    assert made.home.ballots[ID].role != HOME  # it asks the others first
    assert before[ID][1] == {STREAM: [(1, 3), (4, 5)]}
    made.run(10.0)
    assert made.home.ballots[ID].role == HOME
    made.home.ballots[ID].add(STREAM, 3, 4)
    made.run(0.5)
    assert made.state()[ID][1] == {STREAM: [(1, 5)]}
    before = made.state()
    made.disk.crash()
    made.open()
    assert made.state() == before


def test_a_forgotten_consumer_stays_forgotten() -> None:
    made = keeper()
    made.ask(PEER, ask="forget", id=1)
    made.disk.crash()
    made.open()
    assert made.state() == {}
    assert made.statistics["damaged votes for homes of consumers"] == 0


def test_a_home_whose_disk_fails_acts_no_more_and_one_whose_disk_is_full_goes_on_later() -> None:
    made = keeper()
    ballot = made.home.ballots[ID]
    made.disk.is_full = True
    ballot.add(STREAM, 5, 6)
    made.run(1.0)
    assert ballot.committed == 2
    made.disk.is_full = False
    made.run(2.0)
    assert ballot.committed == 3
    made.disk.fails_to_sync = True
    ballot.add(STREAM, 6, 7)
    made.run(1.0)
    made.disk.fails_to_sync = False
    made.run(5.0)
    assert ballot.committed == 3
    made.ask(PEER, ask="join", member=f"{PEER}-1-1", begin=1, start=["earliest", 0], ordered=0)
    assert not made.home._acts(made.now, ID)
    assert made.home.deadline > made.now
