"""What interests occupy is given back when they are withdrawn: no peer wears out its share or that of others."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from glue.contract import PeerInterest
from glue.discovery.follower import PATTERN_COST, Budget, InterestFollower
from glue.discovery.interests import InterestLog
from glue.discovery.wire import Announcement, Operations
from tests.discovery.announcing import announced, catch_up, many
from tests.topics.parties import added, endpoint_id, message, outbounds, removed, route, topics, wants, wants_no_more


@pytest.mark.parametrize("is_behind", [False, True])
def test_what_is_withdrawn_is_given_back(is_behind: bool) -> None:
    """Through several epochs, whether the follower has all of each or has to build some anew."""
    budget = Budget(Counter())
    log, follower, random = InterestLog(), InterestFollower(budget), Random(1)
    full = budget.left
    wanted = [f"topic/{number}" for number in range(50)]
    log.record(wanted, [])
    for step in range(1000):
        gone = wanted.pop(random.randrange(len(wanted)))
        wanted.append(f"topic/ü{step}")
        log.record(wanted[-1:], [gone])
        if not is_behind or step % 170 == 0:
            follower.announced(announced(log, 300))
            catch_up(log, follower)
    assert log.epoch > 3
    follower.announced(announced(log))
    catch_up(log, follower)
    taken = sum(PATTERN_COST + len(pattern) * (1 if pattern.isascii() else 4) for pattern in wanted)
    assert set(follower.patterns) == set(wanted)
    assert full - budget.left == taken
    log.record([], wanted)
    follower.announced(announced(log))
    catch_up(log, follower)
    assert budget.left == full


def test_a_peer_that_goes_while_an_epoch_is_built_leaves_nothing_behind() -> None:
    budget = Budget(Counter())
    full = budget.left
    log, follower = InterestLog(), InterestFollower(budget)
    log.record(many(300), [])
    for _ in range(3):
        follower.announced(announced(log, 300))
        catch_up(log, follower)
        for _ in range(2):  # two epochs pass unheard, and of the third only a part is
            log.record([], many(300))
            log.record(many(300), [])
        follower.announced(announced(log, 300))
        assert follower.is_behind
    follower.release()
    assert budget.left == full
    follower.release()
    assert budget.left == full


def test_an_epoch_that_is_broken_off_by_the_next_is_given_back() -> None:
    budget = Budget(Counter())
    full = budget.left
    log, follower = InterestLog(), InterestFollower(budget)
    wanted = many(200)
    log.record(wanted, [])
    for step in range(6):
        for turn in range(3):
            gone, wanted = wanted, [f"{step}/{turn}/{number}" for number in range(200)]
            log.record(wanted, gone)
        assert log.base == 200
        follower.announced(announced(log, 300))
        (body,) = Operations.encode(log, 0, 600, 1)
        part = Operations.parse(body)
        assert part is not None
        follower.received(part)  # some of its base, not all
        assert follower.is_behind
    log.record(["one"], wanted)
    follower.announced(announced(log))
    catch_up(log, follower)
    assert full - budget.left == PATTERN_COST + len("one")


def test_what_is_followed_anew_while_an_epoch_is_built_gives_that_back() -> None:
    budget = Budget(Counter())
    full = budget.left
    log, follower = InterestLog(), InterestFollower(budget)
    log.record(many(300), [])
    follower.announced(announced(log, 300))
    for body in Operations.encode(log, 0, 600, 2):
        part = Operations.parse(body)
        assert part is not None
        follower.received(part)
    for _ in range(2):
        follower.restart(announced(log, 300))
        for body in Operations.encode(log, 0, 600, 2):
            part = Operations.parse(body)
            assert part is not None
            follower.received(part)
        assert follower.is_behind
    catch_up(log, follower)
    assert set(follower.patterns) == set(many(300))
    assert full - budget.left == sum(PATTERN_COST + len(pattern) for pattern in many(300))


def stretch(epoch: int, version: int, *operations: str) -> Announcement:
    """An announcement of version `version` with the newest operations."""
    return Announcement("owner", 1.0, epoch, version, 0, 0, list(operations))


def test_of_announcements_of_one_epoch_the_older_one_that_comes_last_is_not_the_newest() -> None:
    follower = InterestFollower(Budget(Counter()))
    follower.announced(stretch(0, 1, "+a"))
    follower.announced(stretch(0, 9, "+i"))
    assert (follower.is_behind, follower.want) == (True, (0, 1))
    assert follower.announced(stretch(0, 2, "+b")) == (["b"], [])
    assert follower.announced(stretch(0, 1, "+a")) == ((), ())
    assert (follower.is_behind, follower.want) == (True, (0, 2))
    follower.announced(stretch(0, 9, *[f"+{letter}" for letter in "cdefghi"]))
    assert (follower.is_behind, follower.want) == (False, (0, 9))
    assert list(follower.patterns) == list("abcdefghi")
    assert follower.announced(stretch(0, 8, "-a", "-b")) == ((), ())
    assert list(follower.patterns) == list("abcdefghi")


def test_an_announcement_of_an_earlier_epoch_changes_nothing_however_new_its_version_is() -> None:
    follower = InterestFollower(Budget(Counter()))
    follower.announced(stretch(1, 2, "+a", "+b"))
    assert follower.announced(stretch(0, 3, "+c")) == ((), ())
    assert follower.announced(stretch(0, 9, "+d")) == ((), ())
    assert (list(follower.patterns), follower.is_behind, follower.want) == (["a", "b"], False, (1, 2))


# --------------------------------------------------------------------------------- the same in the topics layer


def test_a_peer_may_change_its_interests_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.peers.PEER_INTEREST_SIZE", 20_000)
    monkeypatch.setattr("glue.topics.peers.INTEREST_SIZE", 30_000)
    layer = topics()
    layer.receive(0.0, [added("ann"), added("bob")])
    for step in range(200):
        for name in ("ann", "bob"):
            layer.receive(0.0, [wants(name, f"a/{step}", f"b/+/{step}")])
            layer.receive(0.0, [wants_no_more(name, f"a/{step}", f"b/+/{step}")])
        layer.receive(0.0, [removed("bob"), added("bob")])
    assert layer.statistics["interest refused: too many"] == 0


def test_a_peer_that_went_leaves_its_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.peers.INTEREST_SIZE", 30_000)
    layer = topics()
    for life in range(1, 50):
        layer.receive(0.0, [added("ann", life), wants("ann", *map(str, range(20)))])
        (sent,) = outbounds(layer.send(0.0, [message("7", b"x")]))
        assert sent.peers == route("ann")
        if life % 2:
            layer.receive(0.0, [removed("ann", life)])
    assert layer.statistics["interest refused: too many"] == 0


def test_what_one_peer_takes_up_is_bounded_and_so_is_what_all_take_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glue.topics.peers.PEER_INTEREST_SIZE", 10 * 513)
    monkeypatch.setattr("glue.topics.peers.INTEREST_SIZE", 25 * 513)
    layer = topics()
    for name in ("ann", "bob", "cid"):
        layer.receive(0.0, [added(name)])
        layer.receive(0.0, [PeerInterest(endpoint_id(name), [chr(97 + number) for number in range(12)], [])])
    heard = [len(layer.subscribers(chr(97 + number))) for number in range(12)]
    assert heard == [3] * 5 + [2] * 5 + [0] * 2
    assert layer.statistics["interest refused: too many"] == 2 + 2 + 7


@pytest.mark.parametrize("seed", range(20))
def test_operations_in_any_order_come_to_a_plain_set_and_cost_what_it_holds(seed: int) -> None:
    random, budget, model = Random(seed), Budget(Counter()), set[str]()
    follower, full, version = InterestFollower(budget), budget.left, 0
    follower.restart(Announcement("owner", 1.0, 1, 0, 0, 0, []))
    for _ in range(60):
        operations = [random.choice("+-") + f"t/{random.randrange(5)}" for _ in range(random.randrange(1, 5))]
        before = set(model)
        for operation in operations:
            (model.add if operation[0] == "+" else model.discard)(operation[1:])
        first = max(0, version - random.randrange(3))  # some come again
        repeated = ["+t/0"] * (version - first)
        new, gone = follower.received(Operations(1, first, True, [*repeated, *operations]))
        version += len(operations)
        assert (set(new), set(gone)) == (model - before, before - model)
        assert set(follower.patterns) == model
        assert full - budget.left == sum(PATTERN_COST + len(pattern) for pattern in model)
    assert follower.received(Operations(1, version + 1, True, ["+gap"])) == ((), ())
    assert follower.received(Operations(2, version, True, ["+epoch"])) == ((), ())
    follower.release()
    assert budget.left == full
