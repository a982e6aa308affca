"""What is kept of a peer: its lease and patience, its credit, when it needs attention, and the lives it has had."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from glue.contract import GroupOn, LinkChanged
from glue.discovery import peers
from glue.discovery.peers import CREDIT_LIMIT, LONGEST_REST, MOVING, PAST_LIVES, KnownPeer, PastLives
from tests.discovery.lan import data
from tests.discovery.test_links import BODY, linked

HERE, THERE = ("10.0.0.1", 7), ("10.0.0.2", 7)


def peer(**state: Any) -> KnownPeer:
    follower: Any = SimpleNamespace(patterns=["a", "b"], is_behind=False)
    made = KnownPeer("p", 5, "peer", HERE, 77, follower, 100.0)
    for name, value in state.items():
        setattr(made, name, value)
    return made


def test_a_peer_that_is_new_has_no_credit_no_lease_and_nothing_due_but_what_it_has_to_tell() -> None:
    one = peer()
    assert (one.received_at, one.met_at, one.want_at, one.host) == (100.0, 100.0, 100.0, "10.0.0.1")
    assert not any((one.is_verified, one.is_proven, one.is_told, one.is_doubted, one.is_leaving, one.is_starting))
    assert (one.credit, one.echo, one.returned, one.rest, one.asleep, one.is_asleep) == (0, 0, 0, 0, 0, False)
    assert (one.told, one.awake_at, one.known, one.paths, one.aliases) == ((0, 0), (0, 0), None, None, ())
    assert (one.ends_at, one.wake_at, one.overheard) == (math.inf, math.inf, -math.inf)
    assert one.info(2.0) == peers.PeerInfo("peer", 5, HERE, 102.0, 2)


@pytest.mark.parametrize(
    ("interval", "lease_intervals", "longest", "is_proven", "lease", "patience"),
    [
        (1.0, 5.0, 60.0, True, 5.0, 3.5),
        (1.0, 5.0, 60.0, False, 5.0, 3.5),
        (4.0, 5.0, 60.0, False, 10.0, 7.0),  # unproven; five seconds are not overdue before that
        (4.0, 5.0, 60.0, True, 20.0, 14.0),
        (30.0, 5.0, 60.0, True, 60.0, 42.0),
        (30.0, 1.5, 60.0, True, 45.0, 37.5),  # overdue after one and a quarter
        (30.0, 1.3, 60.0, True, 39.0, 0.7 * 39.0),  # too near to the end of the lease
        (0.001, 5.0, 60.0, True, 0.05, 0.035),
        (1e9, 5.0, 1e9, True, 18_000.0, 12_600.0),
    ],
)
def test_the_lease_follows_the_announced_interval_within_bounds(
    interval: float, lease_intervals: float, longest: float, is_proven: bool, lease: float, patience: float
) -> None:
    one = peer(is_proven=is_proven)
    one.follow_interval(interval, lease_intervals, longest)
    assert [one.lease, one.patience] == pytest.approx([lease, patience])
    assert one.interval == interval
    assert [one.ends_at, one.wake_at] == pytest.approx([100.0 + lease, 100.0 + patience])


@pytest.mark.parametrize(
    ("rest", "is_proven", "lease", "is_probed"),
    [(60, True, 125.0, False), (60, False, 5.0, True), (10**9, True, 5.0 + 2 * LONGEST_REST, False)],
)
def test_a_peer_that_rests_has_its_rest_twice_and_is_not_probed(
    rest: int, is_proven: bool, lease: float, is_probed: bool
) -> None:
    one = peer(is_proven=is_proven, rest=rest)
    one.follow_interval(1.0, 5.0, 60.0)
    assert one.lease == lease
    assert one.patience == (3.5 if is_probed else lease)


def test_an_address_gets_as_many_datagrams_as_came_from_it_until_it_is_proven() -> None:
    one = peer(credit=2)
    assert [one.affordable, one.pay(), one.affordable, one.pay(), one.pay(), one.credit] == [2, True, 1, True, False, 0]
    one.is_verified = True
    assert [one.pay() for _ in range(3)] == [True] * 3
    assert (one.credit, one.affordable) == (0, 1 << 32)
    assert CREDIT_LIMIT == 32


def test_what_is_asked_in_vain_is_asked_less_and_less_often() -> None:
    one = peer()
    waits = []
    for _ in range(6):
        one.put_off_want(200.0)
        waits.append(round(one.want_at - 200.0, 6))
    assert waits == [0.03, 0.06, 0.12, 0.24, 0.25, 0.25]


def test_a_peer_that_moves_begins_anew_with_its_address_and_its_credit() -> None:
    one = peer(credit=9, is_verified=True, aliases=(THERE,), claimed=THERE, move_at=101.0)
    assert one.speaks_from(HERE)
    assert one.speaks_from(THERE)
    assert not one.speaks_from(None)
    one.move(THERE, 78)
    assert (one.address, one.aliases, one.claimed, one.move_at) == (THERE, (), None, math.inf)
    assert (one.token, one.credit, one.is_verified) == (78, 0, False)
    assert not one.speaks_from(HERE)


def test_a_peer_of_two_addresses_that_moved_to_a_third_one_is_never_taken_for_being_at_the_former_ones() -> None:
    endpoint = linked().with_both()

    def go_on(seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            endpoint.advance(0.01)

    go_on(0.1)
    moved = ("10.1.0.9%wlan0", 37319)
    endpoint.hear("announce", moved, body=BODY)
    (token,) = endpoint.asked(moved)
    endpoint.hear("path", moved, echo=token)
    go_on(MOVING + 0.05)
    assert endpoint.addresses == {moved}
    endpoint.order(LinkChanged("eth0", False))
    go_on(0.05)
    assert (endpoint.address, endpoint.changes) == (moved, [])
    assert endpoint.layer.links.describe()["other"]["paths"] == []


def test_multicast_data_goes_to_all_links_once_the_one_of_the_only_peer_is_down() -> None:
    endpoint = linked()
    endpoint.order(data())
    assert isinstance(endpoint.sent[-1].address, GroupOn)
    endpoint.order(LinkChanged("eth0", False), data())
    assert endpoint.sent[-1].address.__class__ is tuple


@pytest.mark.parametrize(
    ("state", "wakes", "ends"),
    [
        ({}, 103.0, 105.0), ({"answer_at": 101.0}, 101.0, 105.0), ({"want_at": 101.0}, 103.0, 105.0),
        ({"want_at": 101.0, "is_behind": True}, 101.0, 105.0), ({"probe_at": 104.0}, 104.0, 105.0),
        ({"probe_at": 106.0}, 105.0, 105.0), ({"move_at": 102.0}, 102.0, 105.0), ({"move_at": 107.0}, 103.0, 107.0),
        ({"asleep": 1}, 105.0, 105.0), ({"asleep": 2}, 103.0, 105.0), ({"asleep": 3, "answer_at": 101.0}, 101.0, 105.0),
        ({"asleep": 1, "move_at": 102.0}, 102.0, 105.0),
        ({"asleep": 1, "want_at": 1.0, "is_behind": True}, 105.0, 105.0),
    ],
)  # fmt: skip
def test_a_peer_needs_attention_at_the_first_of_its_times(state: dict[str, Any], wakes: float, ends: float) -> None:
    one = peer(lease=5.0, patience=3.0)
    follower: Any = one.follower
    follower.is_behind = state.pop("is_behind", False)
    for name, value in state.items():
        setattr(one, name, value)
    assert (one.wake_at, one.ends_at) == (wakes, ends)
    assert one.is_asleep == (state.get("asleep", 0) in (1, 3))


def test_of_the_lives_of_so_many_peers_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PAST_PEERS", 3)
    past = PastLives()
    for number in range(PAST_LIVES + 2):
        past.bury("a", number, number + 0.5)
    assert [past.returns_at("a", number) for number in (0, 1, 2, 9)] == [None, None, 2.5, 9.5]
    past.bury("a", 2, math.inf)  # the latest now
    past.bury("a", 10, 0.0)
    assert [past.returns_at("a", number) for number in (2, 3, 4)] == [math.inf, None, 4.5]
    for name in "bc":
        past.bury(name, 1, 1.0)
    past.bury("a", 11, 1.0)
    past.bury("d", 1, 1.0)
    assert [past.returns_at(name, 1) for name in "bcd"] == [None, 1.0, 1.0]
    assert past.returns_at("a", 11) == 1.0
    past.forget("c", 2)
    assert past.returns_at("c", 1) == 1.0
    past.forget("c", 1)
    past.forget("c", 1)
    past.forget("nobody", 1)
    assert past.returns_at("c", 1) is None
    past.bury("e", 1, 1.0)
    assert [past.returns_at(name, number) for name, number in (("a", 11), ("d", 1), ("e", 1))] == [1.0] * 3
