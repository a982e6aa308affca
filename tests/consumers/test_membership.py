"""A member of a consumer: when it begins one, what it tells of its shares, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from glue.consumers.membership import Membership
from glue.consumers.wire import ask_topic, encode, parse
from glue.contract.heads import MalformedError
from glue.history.kept import group_of
from glue.topics.bundle import MessageGroup
from tests.consumers.test_home import PEER, Trial


def member(**more: Any) -> Membership:
    return Membership("billing", "a/#", (PEER, 1), iter(range(1, 99)).__next__, ["earliest", 0], False, lambda: None)


def test_a_member_begins_a_consumer_only_once_all_keepers_deny_it() -> None:
    one = member()
    asked = one.advance(0.0, ["k1", "k2"])
    assert [topic for topic, _ in asked] == [ask_topic("k1"), ask_topic("k2")]
    one.told(0.0, "k1", {"tell": "where", "home": "", "epoch": 0, "covers": 1}, [])
    assert [topic for topic, _ in one.advance(0.0, ["k1", "k2"])] == [ask_topic("k2")]
    one.told(0.1, "k2", {"tell": "where", "home": "", "epoch": 0, "covers": 1}, [])
    ((_, joining),) = one.advance(0.1, ["k1", "k2"])
    assert parse(joining)[0]["begin"] == 1


def test_a_member_waits_for_a_home_that_is_away() -> None:
    one = member()
    for now in range(20):
        for _, payload in one.advance(float(now), ["k2"]):
            assert parse(payload)[0]["ask"] == "where"
        one.told(float(now), "k2", {"tell": "where", "home": "k1", "epoch": 1, "covers": 1}, [])
    assert not one.home


def test_a_member_tells_what_is_done_in_the_order_of_the_share() -> None:
    one, trial = member(), Trial()
    trial.append(b"1", b"2", b"3")
    one.advance(0.0, ["k"])
    one.told(0.0, "k", {"tell": "where", "home": "k", "epoch": 1, "covers": 1}, [])
    one.advance(0.0, ["k"])
    assert one.home == "k"
    joined = {"tell": "joined", "member": one.member, "epoch": 1}
    one.told(0.0, "k", joined, [])
    trial.home.take(0.0, 1e9, PEER, 1, encode({
        "ask": "join", "name": "billing", "pattern": "a/#", "member": one.member, "begin": 1,
    }))  # fmt: skip
    out = trial.home.advance(0.0)
    assert not out
    consumer = trial.home.consumers["billing/a/#"]
    (share,) = consumer.members[one.member].shares.values()
    head = {"tell": "shares", "member": one.member, "epoch": 1, "shares": [[1, 0, PEER, "p", 1]]}
    (taken,) = one.told(0.0, "k", head, [group_of(share.content.record)])
    one.finished(taken.member, 1, 2, True)
    assert one.flush() == []
    one.finished(taken.member, 1, 1, True)
    one.finished(taken.member, 1, 1, True)
    one.finished(taken.member, 1, 3, False)
    told = [parse(payload)[0] for _, payload in one.flush()]
    assert [(head["ask"], head["shares"]) for head in told] == [("done", [[1, 1, 2]]), ("failed", [[1, 3, 3]])]
    assert one.told(0.0, "k", head, [group_of(share.content.record)]) == []  # a number that does not follow
    assert not one.is_joined


@pytest.mark.parametrize("shares", [None, 7, [[1]], [[1, 0, 3, "p", 1]], [["1", 0, PEER, "p", 1]]])
def test_malformed_shares_are_refused(shares: object) -> None:
    one = member()
    one.told(0.0, "k", {"tell": "where", "home": "k", "epoch": 1, "covers": 1}, [])
    one.advance(0.0, ["k"])
    one.told(0.0, "k", {"tell": "joined", "member": one.member, "epoch": 1}, [])
    group = MessageGroup("a/b", 1, 0, [b"x"], 1)
    with pytest.raises(MalformedError):
        one.told(0.0, "k", {"tell": "shares", "member": one.member, "epoch": 1, "shares": shares}, [group])
