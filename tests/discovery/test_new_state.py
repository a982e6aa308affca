"""What was once true of a peer or of a path counts no more after it has changed."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from glue.discovery.follower import PATTERN_COST, Budget, InterestFollower
from glue.discovery.interests import EVERYTHING
from glue.discovery.paths import Paths
from glue.discovery.wire import Announcement, Operations
from tests.discovery.lan import Lan, pair
from tests.discovery.stranger import forged, strike
from tests.discovery.test_path_choice import ETH, WLAN


def test_a_peer_that_answered_after_a_doubtful_goodbye_and_crashes_later_did_not_leave() -> None:
    lan, one, other = pair()
    lan.run(3.0)
    strike(lan, one, forged(other, "goodbye", other.address))
    lan.run(3.0)
    assert one.layer.statistics["doubtful goodbye"] == 1
    lan.crash(other)
    lan.run(10.0)
    assert one.events == [("added", other.id), ("removed", other.id, "expired")]


def test_a_peer_with_long_intervals_is_kept_from_its_proof_on_without_another_announcement() -> None:
    lan = Lan()
    one, other = lan.add(1), lan.add(2, announce_interval=10.0)
    lan.run(2.0)
    lan.crash(other)
    lan.run(40.0)
    assert one.known == {other.id}
    lan.run(20.0)
    assert one.known == set()


def test_the_room_of_the_interests_of_a_peer_that_goes_is_there_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.discovery.follower.ALL_LIMIT", 3 * (PATTERN_COST + 3))
    lan = Lan()
    one = lan.add(1)
    for number in range(2, 6):
        other = lan.add(number)
        lan.want(other, *[f"{number}/{pattern}" for pattern in "abc"])
        lan.run(2.0)
        assert one.interests(other.id) == {f"{number}/a", f"{number}/b", f"{number}/c"}
        lan.leave(other)
        lan.run(1.0)


def test_a_peer_that_once_wanted_too_much_is_followed_again_from_a_new_start() -> None:
    budget = Budget(Counter())
    budget.left = 3 * (PATTERN_COST + 1)
    follower = InterestFollower(budget)
    follower.restart(Announcement("owner", 1.0, 1, 0, 0, 0, []))
    follower.received(Operations(1, 0, True, ["+a", "+b", "+c", "+d"]))
    assert follower.is_overflowed
    assert EVERYTHING in follower.patterns
    budget.left += 9 * PATTERN_COST
    follower.restart(Announcement("owner", 1.0, 7, 1, 0, 0, []))
    assert follower.is_behind
    follower.received(Operations(7, 0, True, ["+e"]))
    assert list(follower.patterns) == ["e"]


def test_a_peer_that_wanted_everything_before_it_wanted_too_much_wants_nothing_new() -> None:
    budget = Budget(Counter())
    budget.left = 3 * (PATTERN_COST + 1)
    follower = InterestFollower(budget)
    follower.restart(Announcement("owner", 1.0, 1, 0, 0, 0, []))
    assert follower.received(Operations(1, 0, True, [f"+{EVERYTHING}", "+b"])) == ([EVERYTHING, "b"], [])
    assert follower.announced(Announcement("owner", 1.0, 1, 4, 0, 0, ["+c", "+d"])) == (["c"], [])
    assert follower.is_overflowed
    assert follower.announced(Announcement("owner", 1.0, 1, 5, 0, 0, ["+e"])) == ((), ())
    assert list(follower.patterns) == [EVERYTHING, "b", "c"]


def test_a_path_is_not_suspected_because_the_one_before_was() -> None:
    paths = Paths(100.0, ETH, True, math.inf)
    paths.add(100.0, WLAN, False)
    paths.table[ETH].ask(101.0, 1)
    paths.plan(102.0)
    assert paths.heard(102.0, WLAN) is paths.table[WLAN]
    paths.change(102.0, paths.table[WLAN])
    paths.table[ETH].misses = 0
    assert paths.heard(102.1, ETH) is None
