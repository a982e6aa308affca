"""One ballot alone: what it answers word for word, when it stands and tells, and how much it copies at once."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers.voting import CANDIDATE, HOME, VOTER, Ballot, voters_of
from glue.contract.heads import MalformedError
from glue.contract.ranges import RangeSet
from glue.storage import Stream

ONE, TWO, THREE = "1" * 16, "2" * 16, "3" * 16
VOTERS = [ONE, TWO, THREE]
STREAM = Stream("a" * 16, 7, "t")

Sent = list[tuple[str, str, dict[str, Any]]]


def home(voters: int = 3) -> Ballot:
    """The home of the first epoch, elected at the time 0, with everything told to all."""
    ballot = Ballot(ONE, VOTERS if voters == 3 else [f"{number:016}" for number in range(voters - 1)] + [ONE], 0.0)
    ballot.stand(0.0)
    ballot.stored()
    for voter in ballot.others:
        ballot.take(0.0, voter, "vote", {"epoch": 1, "granted": 1})
    assert ballot.role == HOME
    ballot.stored()
    ballot.advance(0.0)
    for voter, _, head in ballot.stored():
        copied(ballot, 0.0, voter, head["to"], head["at"])
    return ballot


def copied(ballot: Ballot, now: float, voter: str, to: int, at: int = 0, **more: Any) -> Sent:
    """A voter has copied so much."""
    head = {"epoch": 1, "promise": 1, "copied": [1, to], "at": at, **more}
    ballot.take(now, voter, "copied", head)
    return ballot.stored()


def test_a_keeper_stands_in_its_turn_if_no_home_is_heard_of() -> None:
    ballots = [Ballot(voter, VOTERS, 10.0) for voter in VOTERS]
    assert sorted(ballot.deadline for ballot in ballots) == [13.0, 13.5, 14.0]
    first = min(ballots, key=lambda ballot: ballot.deadline)
    first.advance(12.99)
    assert first.stored() == []
    first.advance(13.5)
    assert (first.role, first.stored()) == (VOTER, []), "it was away itself"
    assert first.deadline == 16.5
    first.advance(16.9)
    assert (first.role, first.promise, first.home, first.is_changed) == (CANDIDATE, 1, first.me, True)
    assert first.stored() == [(other, "stand", {"epoch": 1, "copied": [0, 0]}) for other in first.others]
    assert not first.is_changed
    assert 16.9 + 3.0 <= first.deadline <= 16.9 + 4.0, "if it comes to nothing"


def test_a_majority_of_votes_makes_a_home_and_no_other_message_does() -> None:
    ballot = Ballot(ONE, [ONE, TWO, THREE, "4" * 16, "5" * 16], 0.0)
    ballot.stand(0.0)
    assert ballot.majority == 3
    ballot.stored()
    for peer, head in (
        (TWO, {"epoch": 1, "granted": 0}), (TWO, {"epoch": 0, "granted": 1}), (TWO, {"epoch": 2, "granted": 1}),
        ("9" * 16, {"epoch": 1, "granted": 1}), (ONE, {"epoch": 1, "granted": 1}), (TWO, {"epoch": 1, "granted": 1}),
        (TWO, {"epoch": 1, "granted": 1}), (THREE, {"epoch": 1, "granted": 2}),
    ):  # fmt: skip
        ballot.take(0.1, peer, "vote", head)
        assert ballot.role == CANDIDATE
    ballot.take(0.1, THREE, "vote", {"epoch": 1, "granted": 1})
    assert (ballot.role, ballot.copied, ballot.is_changed) == (HOME, (1, 0), True)
    assert not ballot.acts(0.1), "no majority has all of before"


def test_a_candidate_learns_of_a_later_epoch_and_goes_beyond_it() -> None:
    ballot = Ballot(ONE, VOTERS, 0.0)
    ballot.stand(0.0)
    ballot.stored()
    ballot.take(0.1, TWO, "vote", {"epoch": 1, "granted": 0, "promise": 1})
    assert (ballot.role, ballot.is_changed) == (CANDIDATE, False)
    ballot.take(0.1, TWO, "vote", {"epoch": 1, "granted": 0, "promise": 5})
    assert (ballot.role, ballot.promise, ballot.home, ballot.is_changed) == (VOTER, 5, "", True)
    ballot.stand(0.2)
    assert {head["epoch"] for _, _, head in ballot.stored()} == {6}


def test_a_vote_is_for_who_has_as_much_and_is_told_again() -> None:
    ballot = Ballot(ONE, VOTERS, 0.0)
    ballot.copied, ballot.promise = (2, 5), 2
    answers = []
    for now, peer, epoch, has in (
        (1.0, TWO, 2, [2, 9]), (1.0, TWO, 3, [2, 4]), (1.0, TWO, 3, [1, 9]), (1.0, TWO, 4, [2, 5]),
        (1.1, TWO, 4, [2, 5]),
        (1.2, THREE, 5, [9, 9]), (3.49, THREE, 5, [9, 9]), (3.5, THREE, 5, [9, 9]), (3.6, THREE, 7, [9, 9]),
    ):  # fmt: skip
        ballot.take(now, peer, "stand", {"epoch": epoch, "copied": has})
        ((to, ask, head),) = ballot.stored()
        assert (to, ask, head["epoch"]) == (peer, "vote", epoch)
        answers.append((head["granted"], head["promise"]))
    assert answers == [(0, 2), (0, 3), (0, 3), (1, 4), (1, 4), (0, 4), (0, 4), (1, 5), (1, 7)]


def test_who_has_more_than_a_candidate_stands_at_once() -> None:
    ballot = Ballot(ONE, VOTERS, 0.0)
    ballot.copied = (2, 5)
    ballot.take(1.0, TWO, "stand", {"epoch": 3, "copied": [2, 4]})
    assert (ballot.promise, ballot.home, ballot.is_changed) == (3, "", True)
    assert ballot.deadline == 1.01
    ballot.stored()
    ballot.advance(1.01)
    assert [(ask, head) for _, ask, head in ballot.stored()] == [("stand", {"epoch": 4, "copied": [2, 5]})] * 2


def test_a_home_tells_changes_after_a_hundredth_and_beats_twice_a_second() -> None:
    ballot = home()
    assert ballot.acts(0.0)
    assert ballot.deadline == 0.5
    ballot.advance(0.49)
    assert ballot.stored() == []
    ballot.advance(0.5)
    head = {"epoch": 1, "at": 500_000, "from": 0, "to": 0, "done": []}
    assert ballot.stored() == [(other, "copy", head) for other in (TWO, THREE)]
    for other in (TWO, THREE):
        copied(ballot, 0.5, other, 0, 500_000)
    ballot.add(STREAM, 1, 3)
    assert (ballot.deadline, ballot.copied, ballot.changed) == (0.51, (1, 1), [(STREAM, 1, 3)])
    ballot.advance(0.51)
    head = {"epoch": 1, "at": 510_000, "from": 0, "to": 1, "done": [[*STREAM, 1, 3]]}
    assert ballot.stored() == [(other, "copy", head) for other in (TWO, THREE)]
    assert ballot.committed == 0
    assert ballot.deadline == 1.01, "what is not acknowledged is sent again with the next beat"
    copied(ballot, 0.52, TWO, 1, 510_000)
    assert ballot.committed == 1
    ballot.add(STREAM, 3, 4)
    assert ballot.committed == 1, "it is not even on this disk"
    ballot.advance(0.6)
    assert [(to, head["from"], head["to"]) for to, _, head in ballot.stored()] == [(TWO, 1, 2)], "the other one first"
    assert ballot.committed == 1


def test_a_home_acts_two_seconds_after_what_a_majority_answered() -> None:
    ballot = home()
    assert [ballot.acts(now) for now in (1.99, 2.0)] == [True, False]
    copied(ballot, 1.0, TWO, 0, 1_000_000)
    copied(ballot, 1.0, TWO, 0, 500_000)
    assert [ballot.acts(now) for now in (2.99, 3.0)] == [True, False]
    copied(ballot, 1.0, THREE, 0, 1_500_000)
    assert [ballot.acts(now) for now in (3.49, 3.5)] == [True, False]


def test_a_voter_of_another_epoch_gets_everything() -> None:
    ballot = home()
    ballot.add(STREAM, 1, 3)
    ballot.stored()
    ballot.take(0.1, TWO, "copied", {"epoch": 1, "promise": 1, "copied": [0, 7], "at": 0})
    ballot.advance(0.5)
    (told,) = (head for to, _, head in ballot.stored() if to == TWO)
    assert told == {"epoch": 1, "at": 500_000, "part": [0, 1], "to": 1, "done": [[*STREAM, 1, 3]]}
    copied(ballot, 0.5, TWO, 2, 500_000)
    assert ballot.committed == 0, "there are no two changes"
    copied(ballot, 0.5, TWO, 1, 500_000)
    assert ballot.committed == 1


def test_a_home_that_learns_of_a_newer_one_is_a_voter_again() -> None:
    ballot = home()
    ballot.take(0.2, TWO, "copied", {"epoch": 1, "promise": 4, "copied": [0, 0], "at": 0})
    assert (ballot.role, ballot.promise, ballot.home, ballot.is_changed) == (VOTER, 4, "", True)
    assert 0.2 + 3.0 <= ballot.deadline <= 0.2 + 4.0
    assert not ballot.acts(0.2)


def test_a_home_that_is_elected_again_tells_everything_and_no_changes_of_its_former_epoch() -> None:
    ballot = home()
    ballot.add(STREAM, 1, 3)
    ballot.add(STREAM, 3, 4)
    ballot.take(0.2, TWO, "copied", {"epoch": 1, "promise": 4, "copied": [0, 0], "at": 0})
    ballot.stand(5.0)
    for voter in ballot.others:
        ballot.take(5.0, voter, "vote", {"epoch": 5, "granted": 1})
    ballot.stored()
    ballot.advance(5.0)
    head = {"epoch": 5, "at": 5_000_000, "part": [0, 1], "to": 0, "done": [[*STREAM, 1, 4]]}
    assert ballot.stored() == [(voter, "copy", head) for voter in ballot.others]


def test_another_position_goes_to_all_at_once_and_forgets_the_changes() -> None:
    ballot = home()
    ballot.add(STREAM, 1, 3)
    ranges = RangeSet()
    ranges.add(5, 9)
    ballot.stored()
    ballot.replace({STREAM: ranges})
    assert (ballot.copied, ballot.changed, ballot.is_changed, ballot.is_replaced) == ((1, 2), [], True, True)
    assert not ballot.acts(0.1), "nobody has it yet"
    assert ballot.committed == -1
    ballot.stored()
    ballot.advance(0.1)
    head = {"epoch": 1, "at": 100_000, "part": [0, 1], "to": 2, "done": [[*STREAM, 5, 9]]}
    assert ballot.stored() == [(other, "copy", head) for other in (TWO, THREE)]
    assert [*ballot.left(STREAM, 1, 12)] == [(1, 5), (9, 12)]
    assert [*ballot.left(Stream("b", 1, "t"), 1, 3)] == [(1, 3)]


@pytest.mark.parametrize(("changes", "is_all"), [(8192, False), (8193, True)])
def test_8192_changes_are_remembered_for_voters_that_are_behind(changes: int, is_all: bool) -> None:
    ballot = home()
    for number in range(1, changes + 1):
        ballot.add(STREAM, number, number + 1)
    ballot.stored()
    ballot.advance(0.01)
    for _, _, head in ballot.stored():
        assert ("part" in head) is is_all
        assert len(head["done"]) == (1 if is_all else 4096)
        assert head["to"] == (changes if is_all else 4096)
    if not is_all:
        for voter in (TWO, THREE):
            copied(ballot, 0.02, voter, 4096)
        ballot.advance(0.03)
        assert [(head["from"], head["to"]) for _, _, head in ballot.stored()] == [(4096, 8192)] * 2


def everything(topics: list[str]) -> list[tuple[list[int], int]]:
    """The parts, and the entries of each, in which a home tells what is done of some topics."""
    ballot = home()
    done = {Stream("a" * 16, 7, topic): RangeSet() for topic in topics}
    for ranges in done.values():
        ranges.add(1, 2)
    ballot.replace(done)
    ballot.advance(0.1)
    return [(head["part"], len(head["done"])) for to, _, head in ballot.stored() if to == TWO]


def test_a_part_of_everything_has_4096_entries_or_half_a_megabyte() -> None:
    assert everything([]) == [([0, 1], 0)]
    assert everything([str(number) for number in range(4097)]) == [([0, 2], 4096), ([1, 2], 1)]
    size = (512 << 10) // 128 - 80  # so that 128 of them fill a part exactly
    assert everything([f"{number:{size}}" for number in range(128)]) == [([0, 1], 128)]
    assert everything([f"{number:{size}}" for number in range(127)] + ["x" * (size + 1)]) == [
        ([0, 2], 127), ([1, 2], 1)
    ]  # fmt: skip
    assert everything([f"{number:{size}}" for number in range(256)]) == [([0, 2], 128), ([1, 2], 128)]


def follower() -> Ballot:
    """A voter that copies what `TWO` tells."""
    ballot = Ballot(ONE, VOTERS, 0.0)
    ballot.take(0.0, TWO, "stand", {"epoch": 1, "copied": [0, 0]})
    ballot.stored()
    return ballot


def copy(
    ballot: Ballot, now: float = 0.1, peer: str = TWO, epoch: int = 1, follows: int | None = None, **more: Any
) -> dict[str, Any]:
    """A home tells what is done, all of it or what follows; returns what it is told."""
    since = {} if follows is None else {"from": follows}
    ballot.take(now, peer, "copy", {"epoch": epoch, "at": 5, **since, **more})
    ((to, ask, head),) = ballot.stored()
    assert (to, ask, head["epoch"], head["at"]) == (peer, "copied", epoch, 5)
    return head


def entry(first: int, stop: int, topic: str = "t") -> list[Any]:
    return ["a" * 16, 7, topic, first, stop]


def test_a_voter_copies_parts_in_their_order_and_then_changes_that_follow() -> None:
    ballot = follower()
    assert copy(ballot, part=[0, 2], to=3, done=[entry(1, 3)])["copied"] == [0, 0]
    assert copy(ballot, part=[0, 2], to=3, done=[entry(1, 2)])["copied"] == [0, 0], "it begins again"
    assert ballot.done == {}
    assert copy(ballot, part=[1, 2], to=3, done=[entry(4, 6)])["copied"] == [1, 3]
    assert [*ballot.done[STREAM]] == [(1, 2), (4, 6)]
    assert copy(ballot, follows=2, to=4, done=[entry(2, 3)])["copied"] == [1, 3], "one is missing"
    assert copy(ballot, follows=3, to=5, done=[entry(2, 3), entry(1, 2, "u")]) == {
        "epoch": 1, "promise": 1, "copied": [1, 5], "at": 5,
    }  # fmt: skip
    assert [*ballot.done[STREAM]] == [(1, 3), (4, 6)]
    assert ballot.deadline >= 0.1 + 3.0
    assert copy(ballot, part=[0, 3], to=9, done=[])["copied"] == [1, 5]
    assert copy(ballot, part=[2, 3], to=9, done=[])["copied"] == [1, 5], "the second is missing"
    assert copy(ballot, part=[1, 3], to=9, done=[])["copied"] == [1, 5], "so they have to come again"
    assert copy(ballot, peer=THREE, epoch=0, part=[0, 1], to=9, done=[])["promise"] == 1
    assert [*ballot.done[STREAM]] == [(1, 3), (4, 6)]
    assert copy(ballot, peer=THREE, epoch=2, part=[0, 1], to=9, done=[])["copied"] == [2, 9]
    assert (ballot.done, ballot.home) == ({}, THREE)
    assert copy(ballot, peer=THREE, epoch=2, part=[0, 2], to=9, done=[entry(1, 2)])["copied"] == [2, 9]
    assert copy(ballot, epoch=3, part=[1, 2], to=9, done=[entry(2, 3)])["copied"] == [2, 9], "parts of two homes"
    assert ballot.done == {}


def test_what_a_voter_has_to_store_is_known_until_it_is_stored() -> None:
    ballot = follower()
    ballot.take(0.1, TWO, "copy", {"epoch": 1, "at": 0, "part": [0, 1], "to": 1, "done": [entry(1, 3)]})
    assert (ballot.changed, ballot.is_changed, ballot.is_replaced) == ([], True, True)
    ballot.stored()
    ballot.take(0.1, TWO, "copy", {"epoch": 1, "at": 0, "from": 1, "to": 2, "done": [entry(3, 4)]})
    assert (ballot.changed, ballot.is_changed, ballot.is_replaced) == ([(STREAM, 3, 4)], True, False)
    ballot.stored()
    ballot.take(0.1, TWO, "copy", {"epoch": 1, "at": 0, "from": 2, "to": 2, "done": []})
    assert ballot.changed == []


def test_200000_streams_are_copied_at_most() -> None:
    for limit_left in (0, 1):
        ballot = follower()
        others: Any = dict.fromkeys(range(200_000 - limit_left))
        ballot.done = others
        ballot.copied = (1, 0)
        copy(ballot, follows=0, to=2, done=[entry(1, 2, "x"), entry(1, 2, "y")])
        assert [Stream("a" * 16, 7, topic) in ballot.done for topic in "xy"] == [bool(limit_left), False]
        copy(ballot, part=[0, 2], to=3, done=[])
        ballot._arriving = ballot.done
        ballot.done = {}
        copy(ballot, part=[1, 2], to=3, done=[entry(1, 2, "z"), entry(5, 6, "x")])
        assert Stream("a" * 16, 7, "z") not in ballot.done
        if limit_left:
            assert [*ballot.done[Stream("a" * 16, 7, "x")]] == [(1, 2), (5, 6)]


@pytest.mark.parametrize(("count", "is_good"), [(2, False), (3, True), (64, True), (65, False)])
def test_a_consumer_has_three_to_64_voters(count: int, is_good: bool) -> None:
    voters = [f"{number:016}" for number in range(count)]
    if is_good:
        assert voters_of({"voters": voters}, voters[0]) == voters
    else:
        with pytest.raises(MalformedError):
            voters_of({"voters": voters}, voters[0])


@pytest.mark.parametrize(
    ("one", "is_good"),
    [(["o" * 16, 7, "t", 1, 2], True), (["o" * 17, 7, "t", 1, 2], False), (["o", 7, "t" * 65_535, 1, 2], True),
     (["o", 7, "t" * 65_536, 1, 2], False), (["o", 7, "t", 0, 2], False), (["o", 7, "t", 2, 2], False),
     (["", 7, "t", 1, 2], False), (["o", -1, "t", 1, 2], False), (["o", 7, "t", 1, 1 << 53], False)],
)  # fmt: skip
def test_what_is_done_is_read_within_its_limits(one: list[Any], is_good: bool) -> None:
    ballot = follower()
    if is_good:
        assert copy(ballot, part=[0, 1], to=1, done=[one])["copied"] == [1, 1]
    else:
        with pytest.raises(MalformedError):
            copy(ballot, part=[0, 1], to=1, done=[one])
        assert ballot.copied == (0, 0)


def test_a_restart_waits_before_it_grants_another_home() -> None:
    ballot = Ballot(ONE, VOTERS, 10.0)
    ballot.restore(10.0, {"promise": 3, "home": TWO, "copied": [3, 4]})
    for now, granted in ((12.49, 0), (12.5, 1)):
        ballot.take(now, THREE, "stand", {"epoch": 4, "copied": [3, 4]})
        assert ballot.stored()[0][2]["granted"] == granted
    assert ballot.about() == {"voters": VOTERS, "promise": 4, "home": THREE, "copied": [3, 4]}
