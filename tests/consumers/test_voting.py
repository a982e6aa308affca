"""The election of a consumer's home, and what its voters copy."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers import voting
from glue.consumers.voting import BEAT, CANDIDATE, HOME, LEASE, PATIENCE, VOTER, Ballot, voters_of
from glue.contract.heads import MalformedError
from glue.contract.ranges import RangeSet
from glue.storage import Stream

ONE, TWO, THREE = "1" * 16, "2" * 16, "3" * 16
VOTERS = [ONE, TWO, THREE]
STREAM = Stream("a" * 16, 7, "t")


class Trial:
    """Three keepers, and a network that loses what is for some of them."""

    def __init__(self) -> None:
        self.ballots = {voter: Ballot(voter, VOTERS, 0.0) for voter in VOTERS}
        self.away: set[str] = set()
        self.sent = 0

    def pass_on(self, now: float) -> None:
        """Store and deliver, until nothing is told any more."""
        while messages := [(voter, one) for voter, ballot in self.ballots.items() for one in ballot.stored()]:
            for sender, (keeper, ask, more) in messages:
                self.sent += 1
                if not {sender, keeper} & self.away:
                    self.ballots[keeper].take(now, sender, ask, more)

    def run(self, begin: float, end: float) -> None:
        """Let time pass."""
        now = begin
        while now < end:
            for voter, ballot in self.ballots.items():
                if ballot.deadline <= now and voter not in self.away:
                    ballot.advance(now)
            self.pass_on(now)
            now += 0.05

    def acting(self, now: float) -> list[str]:
        """The homes that act."""
        return [voter for voter, ballot in self.ballots.items() if ballot.acts(now)]

    def done(self, voter: str) -> list[tuple[int, int]]:
        """What a voter has copied."""
        ranges = self.ballots[voter].done.get(STREAM)
        return [] if ranges is None else [*ranges]


def elected() -> Trial:
    """A home, with two changes that all have."""
    trial = Trial()
    trial.ballots[ONE].stand(0.0)
    trial.run(0.0, 0.5)
    assert trial.acting(0.5) == [ONE]
    trial.ballots[ONE].add(STREAM, 1, 3)
    trial.run(0.5, 1.0)
    assert [trial.done(voter) for voter in VOTERS] == [[(1, 3)]] * 3
    assert trial.ballots[ONE].committed == 1
    return trial


def test_a_home_acts_until_its_lease_ends_and_no_other_is_granted_before() -> None:
    trial = elected()
    trial.away = {ONE}
    assert trial.acting(0.45 + LEASE) == [ONE]
    assert trial.acting(0.65 + LEASE) == []
    trial.ballots[TWO].stand(0.4 + PATIENCE)
    trial.pass_on(0.4 + PATIENCE)
    assert trial.ballots[TWO].role == CANDIDATE  # refused: the other one is patient
    trial.run(1.0 + PATIENCE, 8.0)
    assert len(trial.acting(8.0)) == 1
    assert ONE not in trial.acting(8.0)
    trial.away = set()
    trial.run(8.0, 9.0)
    assert trial.ballots[ONE].role == VOTER


def test_what_is_not_copied_by_a_majority_is_not_committed_and_a_voter_that_lacks_something_is_not_elected() -> None:
    trial = elected()
    trial.away = {THREE}
    trial.ballots[ONE].add(STREAM, 3, 5)
    trial.run(1.0, 1.2)
    assert trial.ballots[ONE].committed == 2
    trial.away = {ONE}
    trial.ballots[THREE].stand(10.0)
    trial.pass_on(10.0)
    assert trial.ballots[THREE].role != HOME
    trial.run(10.0, 11.0)
    assert trial.acting(11.0) == [TWO]
    assert trial.done(THREE) == [(1, 5)]
    trial.away = {TWO, THREE}
    before = trial.ballots[ONE].committed
    trial.ballots[ONE].add(STREAM, 5, 6)
    trial.run(11.0, 12.0)
    assert trial.ballots[ONE].committed == before


def test_a_home_at_rest_sends_each_voter_a_beat_and_no_more() -> None:
    trial = elected()
    before = trial.sent
    trial.run(1.0, 11.0)
    assert 2 * 2 * 10 / BEAT * 0.8 <= trial.sent - before <= 2 * 2 * 10 / BEAT  # and an answer to each
    assert [ballot.role for ballot in trial.ballots.values()] == [HOME, VOTER, VOTER]


def test_a_voter_that_is_far_behind_gets_everything_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting, "CHANGES", 4)
    monkeypatch.setattr(voting, "PART", 300)
    trial = elected()
    trial.away = {THREE}
    for number in range(10, 40, 2):
        trial.ballots[ONE].add(STREAM, number, number + 1)
    trial.run(1.0, 2.0)
    trial.away = set()
    trial.run(2.0, 4.0)
    assert trial.done(THREE) == trial.done(ONE) == trial.done(TWO)
    assert len(trial.done(THREE)) == 16


def test_a_restart_keeps_the_promise_and_waits() -> None:
    trial = elected()
    about = trial.ballots[TWO].about()
    again = Ballot(TWO, VOTERS, 5.0)
    again.restore(5.0, about)
    assert (again.promise, again.home, again.copied) == (1, ONE, (1, 1))
    again.take(5.1, THREE, "stand", {"epoch": 2, "copied": [9, 9]})
    ((_, _, vote),) = again.stored()
    assert vote["granted"] == 0
    again.take(5.0 + PATIENCE, THREE, "stand", {"epoch": 2, "copied": [9, 9]})
    ((_, _, vote),) = again.stored()
    assert vote["granted"] == 1
    again.take(9.0, ONE, "copy", {"epoch": 1, "at": 1, "from": 1, "to": 2, "done": [[*STREAM, 3, 9]]})
    ((_, ask, told),) = again.stored()
    assert (ask, told["promise"], again.copied) == ("copied", 2, (1, 1))  # the former home learns of the newer one


@pytest.mark.parametrize(
    ("ask", "head"),
    [
        ("stand", {"epoch": 2}), ("stand", {"epoch": -1, "copied": [0, 0]}), ("copied", {"epoch": 1, "copied": [1]}),
        ("copy", {"epoch": 1, "at": 1, "from": 0, "to": 1, "done": [[1, 2]]}),
        ("copy", {"epoch": 1, "at": 1, "from": 0, "to": 1, "done": [["a", 7, "t", 5, 5]]}),
        ("copy", {"epoch": 1, "at": 1, "part": [2, 2], "to": 1, "done": []}),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(ask: str, head: dict[str, Any]) -> None:
    ballot = elected().ballots[ONE if ask == "copied" else TWO]
    with pytest.raises(MalformedError):
        ballot.take(1.0, ONE if ballot.me == TWO else TWO, ask, head)


@pytest.mark.parametrize("voters", [None, [ONE, TWO], [ONE, TWO, TWO], [TWO, THREE, "4" * 16], [ONE, TWO, 3]])
def test_voters_are_checked(voters: Any) -> None:
    with pytest.raises(MalformedError):
        voters_of({"voters": voters}, ONE)


def test_another_position_is_told_to_all_voters_at_once() -> None:
    trial, now = elected(), 0.5
    home, ranges = trial.ballots[ONE], RangeSet()
    home.advance(now)
    trial.pass_on(now)
    assert home.deadline > now
    ranges.add(3, 9)
    home.replace({STREAM: ranges})
    assert home.deadline <= now
    home.advance(now)
    trial.pass_on(now)
    assert [trial.done(voter) for voter in VOTERS] == [[(3, 9)]] * 3
