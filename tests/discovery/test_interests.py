"""What peers want to hear reaches everyone: at once, through losses, in any number, and after any change."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glue.discovery.follower import Budget, InterestFollower
from glue.discovery.interests import InterestLog, widened
from glue.discovery.wire import Operations
from tests.discovery.announcing import SIZE, announced, catch_up, many
from tests.discovery.lan import DELAY, Lan

# ------------------------------------------------------------------------------------------ on the network


@pytest.mark.parametrize("is_known", [True, False])
def test_an_interest_reaches_all_peers_with_the_announcement_that_brings_it(is_known: bool) -> None:
    lan = Lan()
    others = [lan.add(number) for number in range(5)]
    subscriber = lan.add(9)
    if is_known:
        lan.run(2)
    lan.want(subscriber, "a/b", "c/#")
    lan.run(DELAY if is_known else 3 * DELAY)  # who is new has to return the token of an answer
    assert all(other.interests(subscriber.id) == {"a/b", "c/#"} for other in others)
    lan.want(subscriber, "d", removed=["a/b"])
    lan.run(0.02)
    assert all(other.interests(subscriber.id) == {"c/#", "d"} for other in others)


def test_a_newcomer_learns_the_interests_of_all_within_one_round_trip() -> None:
    lan = Lan()
    subscriber = lan.add(1)
    lan.want(subscriber, "a")
    lan.run(10)
    newcomer = lan.add(2)
    lan.run(2 * DELAY + 1e-6)
    assert newcomer.interests(subscriber.id) == {"a"}


def test_a_lost_interest_is_repeated_before_it_is_missed() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.run(2.2)
    lan.is_dropped = lambda source, host, frame: True
    lan.want(subscriber, "a")
    lan.run(0.04)
    lan.is_dropped = None
    lan.run(0.02)
    assert publisher.interests(subscriber.id) == {"a"}


def test_ten_thousand_interests_reach_a_newcomer_and_old_peers_through_loss() -> None:
    lan = Lan(seed=5, loss=0.2)
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.run(2)
    lan.want(subscriber, *many(10_000))
    lan.run(8)
    newcomer = lan.add(3)
    lan.run(8)
    assert publisher.interests(subscriber.id) == newcomer.interests(subscriber.id) == set(many(10_000))


def test_ten_thousand_interests_take_few_round_trips_without_loss() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.want(subscriber, *many(10_000))
    lan.run(0.1)
    assert publisher.interests(subscriber.id) == set(many(10_000))
    assert sum(source is publisher for source, _ in lan.sent) < 40


def test_interests_that_change_one_by_one_stay_the_same_everywhere() -> None:
    lan = Lan(seed=1, loss=0.1)
    subscriber, *others = [lan.add(number) for number in range(4)]
    lan.want(subscriber, *many(300))
    wanted, random = set(many(300)), Random(2)
    for step in range(2000):
        lan.run(random.choice([0, 0.002, 0.05]))
        gone = random.choice(sorted(wanted))
        lan.want(subscriber, f"new/{step}", removed=[gone])
        wanted = (wanted | {f"new/{step}"}) - {gone}
    lan.run(5)
    assert all(other.interests(subscriber.id) == wanted for other in others)


def test_fast_changes_are_gathered_into_few_announcements() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.run(2)
    lan.sent.clear()
    for pattern in many(1000):
        lan.want(subscriber, pattern)
        lan.run(0.0001)
    lan.run(0.05)
    assert publisher.interests(subscriber.id) == set(many(1000))
    assert sum(frame.address is None for _, frame in lan.sent) < 20


def test_who_has_all_goes_on_with_a_new_epoch_without_asking() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.want(subscriber, *many(1000))
    lan.run(2)
    lan.sent.clear()
    for before, after in pairwise(f"x{number}" for number in range(1500)):
        lan.want(subscriber, after, removed=[before])
        lan.run(0.02)
    assert publisher.interests(subscriber.id) == {*many(1000), "x1499"}
    assert not [frame for source, frame in lan.sent if source is publisher and frame.address is not None]


def test_an_interest_that_was_not_announced_cannot_be_withdrawn() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    lan.want(subscriber, "a", removed=["b"])
    lan.run(1)
    assert publisher.interests(subscriber.id) == {"a"}
    assert subscriber.layer.statistics == {"unknown interest withdrawn": 1}


def test_long_patterns_that_are_widened_alike_hold_until_the_last_is_withdrawn() -> None:
    lan = Lan()
    subscriber, publisher = lan.add(1), lan.add(2)
    one, other = "a/" + 600 * "x", "a/" + 600 * "y"
    lan.want(subscriber, one, other)
    lan.run(1)
    lan.want(subscriber, removed=[one])
    lan.run(1)
    assert publisher.interests(subscriber.id) == {"a/#"}
    lan.want(subscriber, removed=[other])
    lan.run(1)
    assert publisher.interests(subscriber.id) == set()


# ------------------------------------------------------------------------------------- the log by itself


@pytest.mark.parametrize(
    ("pattern", "announced_as"),
    [
        ("a/b", "a/b"),
        ("a" * 510, "a" * 510),
        ("a" * 511, "#"),
        ("a/" + "b" * 600, "a/#"),
        ("a/+/" + "b" * 600 + "/c", "a/+/#"),
        ("a" * 508 + "/" + "b" * 10, "a" * 508 + "/#"),
        ("a" * 509 + "/" + "b" * 10, "#"),
        ("ü" * 254 + "/" + "b" * 10, "ü" * 254 + "/#"),
        ("ü" * 255 + "/" + "b" * 10, "#"),
        ("/" + "b" * 600, "/#"),
        ("a/" * 30_000, "a/" * 253 + "a/#"),
        ("\n" * 600, "#"),
    ],
)
def test_a_pattern_too_long_for_a_frame_is_cut_at_a_level(pattern: str, announced_as: str) -> None:
    assert widened(pattern) == announced_as


Steps = list[tuple[set[int], set[int], bool, bool]]


@given(st.lists(st.tuples(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.booleans(), st.booleans())))
def test_a_follower_that_misses_anything_ends_with_the_owners_set(steps: Steps) -> None:
    log, follower = InterestLog(), InterestFollower(Budget(Counter()))
    wanted: set[str] = set()
    told: set[str] = set()
    for added, removed, is_delivered_here, is_asked in steps:
        new = {f"topic/{number}" for number in added} - wanted
        gone = {f"topic/{number}" for number in removed} & wanted
        assert log.record(sorted(new), sorted(gone)) == 0
        wanted = (wanted | new) - gone
        if is_delivered_here:
            more, less = follower.announced(announced(log, 300))
            told = (told | set(more)) - set(less)
            assert told == set(follower.patterns)
        if is_delivered_here and is_asked:
            catch_up(log, follower)
            told = set(follower.patterns)
            assert told == wanted
    follower.announced(announced(log))
    catch_up(log, follower)
    assert set(follower.patterns) == wanted


def test_an_old_set_holds_until_the_new_epoch_is_complete() -> None:
    log, follower = InterestLog(), InterestFollower(Budget(Counter()))
    log.record(["kept", *many(500)], [])
    follower.announced(announced(log))
    catch_up(log, follower)
    for _ in range(2):
        log.record([], many(500))
        log.record(many(500), [])
    assert log.epoch > 0
    follower.announced(announced(log))
    assert follower.is_behind
    assert set(follower.patterns) == {"kept", *many(500)}
    catch_up(log, follower)
    assert set(follower.patterns) == {"kept", *many(500)}


def test_the_log_stays_in_proportion_to_the_set() -> None:
    log = InterestLog()
    log.record(many(100), [])
    for number in range(10_000):
        log.record([f"x{number}"], [f"x{number - 1}"] if number else [])
        assert log.version <= 2 * 101 + 64 + 2


def test_operations_received_twice_or_out_of_order_do_no_harm() -> None:
    log, follower = InterestLog(), InterestFollower(Budget(Counter()))
    log.record(many(200), [])
    log.record([], many(200)[::2])
    follower.announced(announced(log, 200))
    stretches = [Operations.parse(body) for body in Operations.encode(log, 0, SIZE, 100)]
    for stretch in [*stretches[::-1], *stretches, *stretches[::-1]]:
        assert stretch is not None
        follower.received(stretch)
    assert set(follower.patterns) == set(many(200)[1::2])


def test_an_announcement_that_was_overtaken_changes_nothing() -> None:
    log, follower = InterestLog(), InterestFollower(Budget(Counter()))
    log.record(["a"], [])
    old = announced(log)
    log.record([], ["a"])
    follower.announced(announced(log))
    assert follower.announced(old) == ((), ())
    assert not follower.is_behind


def test_a_peer_with_too_many_interests_is_taken_to_want_everything() -> None:
    statistics: Counter[str] = Counter()
    budget = Budget(statistics)
    total = budget.left
    log, follower = InterestLog(), InterestFollower(budget)
    log.record([f"{number:0500}" for number in range(20_000)], [])
    follower.announced(announced(log, 1400))
    while follower.is_behind:
        for body in Operations.encode(log, follower.want[1], 1400, 1000):
            operations = Operations.parse(body)
            assert operations is not None
            follower.received(operations)
    assert "#" in follower.patterns
    assert 10_000 < len(follower.patterns) < 15_000
    assert statistics == {"interests over the limit": 1}
    follower.release()
    assert budget.left == total


def test_once_its_interests_are_few_again_they_are_known_exactly() -> None:
    log, follower = InterestLog(), InterestFollower(Budget(Counter()))
    log.record([f"{number:0500}" for number in range(20_000)], [])
    follower.announced(announced(log))
    while follower.is_behind:
        catch_up(log, follower, 1000)
    log.record(["a"], [f"{number:0500}" for number in range(20_000)])
    log.record(["b"], [])
    follower.announced(announced(log))
    catch_up(log, follower)
    assert set(follower.patterns) == {"a", "b"}
