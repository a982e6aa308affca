"""A member of a consumer: when it asks whom and for what, word for word, and when it gives its home up."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from glue.consumers.membership import Membership
from glue.consumers.wire import ask_topic, parse
from glue.contract.heads import MalformedError
from glue.topics.bundle import MessageGroup
from tests.consumers.test_home import PEER

NAMES = {"name": "billing", "pattern": "a/#"}
FIRST, SECOND = f"{PEER}-1-1", f"{PEER}-1-2"


class Trial:
    """A member, and what it says."""

    def __init__(self, ordered: bool = False) -> None:
        self.fenced = 0
        numbers = iter(range(1, 99))
        self.member = Membership(
            "billing", "a/#", (PEER, 1), numbers.__next__, ["since", 5], ordered, lambda: setattr(self, "fenced", 1)
        )

    def says(self, now: float, *keepers: str) -> list[tuple[str, dict[str, Any]]]:
        """What it says now: to whom, and what beyond the names."""
        return self.read(self.member.advance(now, keepers))

    def read(self, messages: list[tuple[str, bytes]]) -> list[tuple[str, dict[str, Any]]]:
        """Messages: to whom, and what beyond the names."""
        found = []
        for topic, payload in messages:
            head = parse(payload)[0]
            assert topic.startswith(ask_topic(""))
            assert {key: head.pop(key) for key in NAMES} == NAMES
            found.append((topic.removeprefix(ask_topic("")), head))
        return found

    def told(self, now: float, keeper: str, tell: str, *groups: MessageGroup, **more: Any) -> list[Any]:
        """What it takes of what a keeper tells."""
        return self.member.told(now, keeper, {"tell": tell, **more}, groups)

    def where(self, now: float, keeper: str, home: str, epoch: int = 0, covers: int = 1) -> None:
        """A keeper says where the home is."""
        self.told(now, keeper, "where", home=home, epoch=epoch, covers=covers)

    def joined(self, epoch: int = 4) -> Trial:
        """Be a member at a home `k`, taken in at the time 0."""
        self.where(0.0, "k", "k", 1)
        assert self.says(0.0, "k") == [("k", {"ask": "join", "member": FIRST})]
        assert self.told(0.0, "k", "joined", member=FIRST, epoch=epoch) == []
        return self

    def share(self, number: int, count: int = 1, now: float = 0.0, again: int = 0) -> list[Any]:
        """The home gives a share."""
        group = MessageGroup("a/b", 1, 0, [b"x"] * count, 1)
        shares = [[number, again, "p" * 16, "name", 7]]
        return self.told(now, "k", "shares", group, member=FIRST, epoch=4, shares=shares)


def test_keepers_are_asked_again_after_times_that_double_up_to_half_a_second() -> None:
    trial = Trial()
    assert trial.member.deadline == -inf
    now, pauses = 0.0, []
    for _ in range(7):
        assert trial.says(now, "k", "l") == [("k", {"ask": "where"}), ("l", {"ask": "where"})]
        assert trial.says(now, "k", "l") == []
        pauses.append(round(trial.member.deadline - now, 6))
        now = trial.member.deadline
    assert pauses == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert trial.says(now, *[]) == [], "there is no keeper"
    assert trial.member.deadline == now + 0.5


@pytest.mark.parametrize("ordered", [False, True])
def test_the_keeper_of_all_topics_with_the_highest_hash_begins_the_consumer(ordered: bool) -> None:
    begun = {}
    for covering in ("k", "l", "m", "kl", "lm", "km", "klm"):
        trial = Trial(ordered)
        trial.says(0.0, "k", "l", "m")
        for keeper in "klm":
            trial.where(0.01, keeper, "", covers=int(keeper in covering))
        assert trial.member.deadline == 0.01
        ((home, head),) = trial.says(0.01, "k", "l", "m")
        assert head == {"ask": "join", "member": FIRST, "begin": 1, "start": ["since", 5], "ordered": int(ordered)}
        assert trial.member.deadline == 1.01
        begun[covering] = home
    assert begun == {"k": "k", "l": "l", "m": "m", "kl": "k", "lm": "l", "km": "k", "klm": "k"}
    trial = Trial()
    for keeper in "klm":
        trial.where(0.0, keeper, "", covers=0)
    assert trial.says(0.0, "k", "l", "m") == []
    assert len(trial.says(1.0, "k", "l", "m")) == 3, "they are asked again"


def test_the_home_of_the_latest_epoch_counts_if_it_is_there() -> None:
    trial = Trial()
    for keeper, home, epoch in (("k", "k", 2), ("l", "l", 3), ("m", "n", 9)):
        trial.where(0.0, keeper, home, epoch)
    assert trial.says(0.0, "k", "l", "m") == [("l", {"ask": "join", "member": FIRST})]
    trial = Trial()
    trial.where(0.0, "k", "l", 3)
    assert trial.says(0.0, "k") == [], "its home is away"
    assert trial.says(0.02, "k", "l") == [("k", {"ask": "where"}), ("l", {"ask": "where"})]
    trial.where(0.03, "l", "m", 3)
    assert trial.says(0.03, "k") == [("k", {"ask": "where"})], "what a lost keeper said is forgotten"


def test_a_member_tells_four_times_in_ten_that_it_is_there_and_how_much_it_got() -> None:
    trial = Trial().joined()
    assert trial.says(0.0, "k") == [("k", {"ask": "here", "member": FIRST, "epoch": 4, "got": 0})]
    assert trial.member.deadline == 0.4
    trial.share(1)
    trial.share(2)
    assert trial.says(0.39, "k") == []
    assert trial.says(0.4, "k") == [("k", {"ask": "here", "member": FIRST, "epoch": 4, "got": 2})]
    assert trial.read(trial.member.leave()) == [("k", {"ask": "leave", "member": FIRST, "epoch": 4})]
    assert (trial.member.deadline, trial.member.home, trial.member.is_joined) == (inf, "", False)
    assert trial.member.leave() == []
    assert not trial.fenced


def test_a_home_without_an_answer_is_given_up_after_a_second_and_one_that_took_it_in_after_three() -> None:
    trial = Trial()
    trial.where(0.0, "k", "k", 1)
    trial.says(0.0, "k")
    assert trial.says(0.99, "k") == []
    assert trial.says(1.0, "k") == [("k", {"ask": "where"})]
    assert trial.member.deadline == 1.02
    assert not trial.fenced, "it was none yet"
    trial = Trial().joined()
    trial.says(2.99, "k")
    assert trial.member.home == "k"
    trial.told(2.99, "k", "here", member=FIRST)
    assert len(trial.says(5.9, "k")) == 1
    assert trial.member.home == "k"
    assert trial.says(6.31, "k") == [("k", {"ask": "where"})]
    assert trial.fenced
    trial.where(6.32, "k", "k", 2)
    assert trial.says(6.32, "k") == [("k", {"ask": "join", "member": SECOND})]


def test_a_keeper_that_does_not_take_a_member_in_is_asked_again_a_little_later() -> None:
    trial = Trial()
    trial.where(0.0, "k", "k", 1)
    trial.says(0.0, "k")
    trial.where(0.5, "k", "", 0)
    assert (trial.member.home, trial.member.deadline) == ("", 0.6)
    assert trial.says(0.6, "k") == [
        ("k", {"ask": "join", "member": SECOND, "begin": 1, "start": ["since", 5], "ordered": 0})
    ]
    joined = Trial().joined()
    joined.where(0.1, "k", "l", 5)
    assert (joined.member.home, joined.member.is_joined) == ("k", True), "only fencing ends a membership"


def test_fenced_it_forgets_all_and_joins_anew() -> None:
    trial = Trial().joined()
    (taken,) = trial.share(1, 2, again=1)
    assert taken[:3] == (FIRST, 1, True)
    assert taken[4:] == ("p" * 16, "name", 7)
    trial.member.finished(FIRST, 1, 1, True)
    assert not trial.member.is_over(1)
    for keeper, member in (("l", FIRST), ("k", SECOND)):
        trial.told(0.1, keeper, "fenced", member=member)
    assert not trial.fenced
    trial.told(0.1, "k", "fenced", member=FIRST)
    assert (trial.fenced, trial.member.deadline, trial.member.is_over(1)) == (1, 0.1, True)
    assert trial.member.flush() == []
    trial.member.finished(FIRST, 1, 2, True)
    assert trial.says(0.1, "k") == [("k", {"ask": "where"})]


def test_handled_messages_are_told_in_the_order_of_handling_and_in_ranges() -> None:
    trial = Trial().joined()
    trial.share(1, 3)
    trial.share(2, 1)
    trial.share(3, 2)
    for share, place, is_done in (
        (1, 1, True), (2, 1, True), (1, 2, True), (1, 2, False), (3, 2, True), (1, 3, True), (3, 1, False),
        (2, 1, True), (9, 1, True),
    ):  # fmt: skip
        trial.member.finished(FIRST, share, place, is_done)
    trial.member.finished("another", 1, 1, True)
    more = {"member": FIRST, "epoch": 4}
    assert trial.read(trial.member.flush()) == [
        ("k", {"ask": "done", **more, "shares": [[1, 1, 1], [2, 1, 1], [1, 2, 3]]}),
        ("k", {"ask": "failed", **more, "shares": [[3, 1, 1]]}),
        ("k", {"ask": "done", **more, "shares": [[3, 2, 2]]}),
    ]
    assert trial.member.flush() == []
    assert [trial.member.is_over(share) for share in (1, 2, 3, 4)] == [True] * 4


def test_a_report_has_4096_entries_and_a_member_16384_shares_at_most() -> None:
    trial = Trial().joined()
    group = MessageGroup("a/b", 1, 0, [b"x"], 1)
    for begin in range(0, 16_384, 4096):
        shares = [[begin + number, 0, "p" * 16, "n", 1] for number in range(1, 4097)]
        found = trial.told(0.0, "k", "shares", *[group] * 4096, member=FIRST, epoch=4, shares=shares)
        assert len(found) == 4096
    for number in range(1, 4098):
        trial.member.finished(FIRST, number, 1, True)
    assert [len(head["shares"]) for _, head in trial.read(trial.member.flush())] == [4096, 1]
    for number in range(4097):
        assert len(trial.share(16_385 + number)) == 1
    assert not trial.fenced
    assert trial.share(16_385 + 4097) == []
    assert trial.fenced, "a home that gives more is left"


@pytest.mark.parametrize(
    ("keeper", "more"),
    [("l", {}), ("k", {"member": SECOND}), ("k", {"epoch": 3}), ("k", {"epoch": 5}), ("k", {"tell": "share"})],
)
def test_shares_of_another_home_member_or_epoch_do_not_count(keeper: str, more: dict[str, Any]) -> None:
    trial = Trial().joined()
    head = {"tell": "shares", "member": FIRST, "epoch": 4, "shares": [[1, 0, "p" * 16, "n", 1]], **more}
    group = MessageGroup("a/b", 1, 0, [b"x"], 1)
    assert trial.member.told(0.0, keeper, head, [group]) == []
    assert trial.member.is_joined
    assert len(trial.share(1)) == 1


@pytest.mark.parametrize(
    ("tell", "more"),
    [("where", {"home": 5}), ("where", {"home": "k" * 17}), ("where", {"home": "k", "epoch": -1}), ("where", {}),
     ("joined", {"member": FIRST}), ("joined", {}), ("shares", {"member": FIRST, "epoch": 4, "shares": [[1, 0]]}),
     ("shares", {"member": FIRST, "epoch": 4, "shares": []}),
     ("shares", {"member": FIRST, "epoch": 4, "shares": [[1, 0, 5, "n", 1]]}),
     ("shares", {"member": FIRST, "epoch": 4, "shares": [[1, 0, "o", 5, 1]]}),
     ("shares", {"member": FIRST, "epoch": 4, "shares": [[1, 0, "o", "n", -1]]})],
)  # fmt: skip
def test_what_is_malformed_raises(tell: str, more: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        Trial().joined().told(0.0, "k", tell, MessageGroup("a/b", 1, 0, [b"x"], 1), **more)


def test_a_share_that_is_missing_means_that_all_begins_anew() -> None:
    for numbers in ([2], [1, 3], [1, 1]):
        trial = Trial().joined()
        found = [trial.share(number, now=0.5) for number in numbers]
        assert found[-1] == []
        assert (trial.fenced, trial.member.home, trial.member.deadline) == (1, "", 0.5)
