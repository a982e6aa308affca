"""Homes that move: each answer of a keeper that only votes, and of one that is the home but may not act."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from glue.consumers import moving
from glue.consumers.home import ConsumerAlert
from glue.consumers.moving import NAME
from glue.consumers.voting import HOME
from glue.consumers.wire import ask_topic, encode, parse
from glue.storage import Record, Stream
from glue.storage.journal import Journal
from tests.consumers.test_moving import ID, ME, OTHERS, PEER, STREAM, Keeper, keeper

NAMES = {"name": "billing", "pattern": "a/#"}
JOIN: dict[str, Any] = {"ask": "join", "member": f"{PEER}-1-1", "begin": 1, "start": ["earliest", 0], "ordered": 0}
STAND: dict[str, Any] = {"ask": "stand", "epoch": 1, "voters": [ME, *OTHERS], "copied": [0, 0], "ordered": 1}


def asked(made: Keeper, peer: str = PEER, **head: Any) -> list[tuple[str, dict[str, Any]]]:
    """What a keeper tells at once, and whom."""
    told = made.home.take(made.now, 1e9, peer, 1, encode({**NAMES, **head}))
    return [(topic, parse(payload)[0]) for topic, payload in told]


def test_who_joins_a_new_consumer_is_told_to_wait_while_the_keepers_elect_its_home() -> None:
    made = Keeper()
    told = asked(made, **JOIN)
    votes = [(topic, head) for topic, head in told if "ask" in head]
    assert [(topic, head["ask"], head["voters"], head["ordered"]) for topic, head in votes] == [
        (ask_topic(other), "stand", [ME, *OTHERS], 0) for other in OTHERS
    ]
    assert [head for _, head in told if "tell" in head] == [
        {"tell": "where", **NAMES, "home": "", "epoch": 1, "covers": 1}
    ]
    assert asked(made, ask="where")[0][1] == {"tell": "where", **NAMES, "home": "", "epoch": 1, "covers": 1}
    assert made.home.consumers == {}


@pytest.mark.parametrize(("others", "is_elected"), [(2, True), (1, False), (0, False)])
def test_three_keepers_elect_a_home_and_with_fewer_the_first_one_is_it(others: int, is_elected: bool) -> None:
    made = Keeper()
    made.home._others = lambda pattern: OTHERS[:others]
    asked(made, **JOIN)
    assert (ID in made.home.ballots, ID in made.home.consumers) == (is_elected, not is_elected)


def test_who_may_not_read_begins_no_election() -> None:
    made = Keeper()
    made.home.may_read = lambda peer, pattern: False
    asked(made, **JOIN)
    assert made.home.ballots == {}
    made.home.may_read = lambda peer, pattern: True
    asked(made, **JOIN)
    assert [*made.home.ballots] == [ID]


def test_a_keeper_votes_only_with_keepers_of_the_topics_and_counts_others() -> None:
    made = Keeper()
    assert asked(made, "9" * 16, **STAND) == []
    assert made.statistics == {"votes for homes of consumers that are no keeper's": 1}
    for ask in ("vote", "copied"):
        asked(made, OTHERS[0], **{**STAND, "ask": ask})
        assert made.home.ballots == {}, "it does not know what this is about"
    asked(made, OTHERS[0], **STAND)
    assert made.home._facts[ID] == ("billing", "a/#", 1)
    assert made.home.ballots[ID].voters == [ME, *OTHERS]
    assert made.statistics == {"votes for homes of consumers that are no keeper's": 1}


def test_a_keeper_votes_for_256_consumers() -> None:
    assert moving.SHARED == 256
    made = Keeper()
    for number in range(257):
        asked(made, OTHERS[0], **{**STAND, "name": f"n{number}"})
        assert len(made.home.ballots) == len(made.home._facts) == min(number + 1, 256)
    assert made.statistics == {"consumers with votes refused: too many": 1}


def test_a_home_that_may_not_act_fences_its_members_and_takes_only_farewells() -> None:
    made = keeper()
    told: Any = {"member": JOIN["member"], "epoch": made.home.consumers[ID].epoch}
    asked(made, **JOIN)
    where = {"tell": "where", **NAMES, "home": ME, "epoch": made.home.ballots[ID].promise, "covers": 1}
    assert asked(made, ask="where")[0][1] == where
    assert [head["tell"] for _, head in asked(made, ask="here", **told, got=0)] == ["here"]
    made.now += 60.0  # nobody answered for so long
    fenced = {"tell": "fenced", **NAMES, "member": JOIN["member"]}
    for ask, answers in (("here", []), ("failed", [fenced]), ("done", [fenced])):
        found = asked(made, ask=ask, **told, got=0, shares=[[1, 1, 1]])
        assert [head for _, head in found if head.get("tell") in ("fenced", "here")] == answers
    assert made.statistics["acknowledgements of members that are fenced"] == 1


def test_a_home_that_learns_of_a_newer_one_takes_nobody_in_and_its_members_go() -> None:
    made = keeper()
    asked(made, **JOIN)
    found = asked(made, OTHERS[0], ask="copied", epoch=1, promise=9, copied=[0, 0], at=0)
    assert [head for _, head in found] == [{"tell": "fenced", **NAMES, "member": JOIN["member"]}]
    where = {"tell": "where", **NAMES, "home": "", "epoch": 9, "covers": 1}
    assert [head for _, head in asked(made, **JOIN)] == [where]


def test_a_later_home_marks_what_a_former_one_may_have_given_away() -> None:
    made = keeper()
    made.log.append([Record("p" * 16, "publisher", 1, "a/c", 1, [b"x"])])
    made.disk.crash()
    made.open()
    made.run(10.0)
    epoch = made.home.consumers[ID].epoch
    assert epoch > 1
    made.log.append([Record("p" * 16, "publisher", 1, "a/c", 2, [b"y"])])
    made.run(0.1)
    told = [head for _, head in asked(made, **JOIN) if head["tell"] == "shares"]
    assert [share[:2] for head in told for share in head["shares"]] == [[1, 1], [2, 0]]


def test_a_home_that_lost_the_majority_waits_quietly_with_what_is_to_come_again() -> None:
    made = keeper()
    made.log.append([Record("p" * 16, "publisher", 1, "a/c", 1, [b"x"])])
    asked(made, **JOIN)
    made.now += 1.4  # its lease goes on for a moment
    asked(made, ask="failed", member=JOIN["member"], epoch=1, shares=[[1, 1, 1]])
    turns, end = 0, made.now + 10.0
    while made.now < end and turns < 100:
        made.now = max(made.now, made.home.deadline)
        made.home.advance(made.now)
        turns += 1
    assert turns < 100, "four ticks and some beats a second"


def test_a_seek_is_answered_by_the_home_alone_and_begins_a_new_epoch() -> None:
    voter = Keeper()
    asked(voter, OTHERS[0], **STAND)
    found = [head for _, head in asked(voter, ask="seek", id=7, start=["earliest", 0]) if "tell" in head]
    assert found == [{"tell": "sought", **NAMES, "id": 7, "done": False}]
    made = keeper()
    found = [head for _, head in asked(made, ask="seek", id=8, start=["earliest", 0]) if "tell" in head]
    assert {"tell": "sought", **NAMES, "id": 8, "done": True} in found
    assert made.home.ballots[ID].done == {}
    assert ID in made.home.consumers
    assert asked(made, ask="forget", id=9)[-1][1] == {"tell": "sought", **NAMES, "id": 9, "done": True}
    assert (made.home.ballots, made.home._facts, made.home.consumers) == ({}, {}, {})


@pytest.mark.parametrize(
    ("start", "done"),
    [(["earliest", 0], {}), (None, {}), (["latest", 0], {"a/b": [(1, 5)], "a/c": [(1, 3)]}),
     (["since", 20_000_000], {"a/b": [(1, 3)], "a/c": [(1, 3)]}), (["since", 20_000_001], {"a/b": [(1, 4)],
      "a/c": [(1, 3)]})],
)  # fmt: skip
def test_what_was_before_the_beginning_of_a_consumer_counts_as_done(start: Any, done: dict[str, Any]) -> None:
    made = Keeper()
    made.log.append([Record("p" * 16, "p", 1, "a/c", 1, [b"x", b"x"], 5.0)])
    for number in range(4):
        made.log.append([Record("p" * 16, "p", 1, "a/b", number + 1, [b"x"], 10.0 * number)])
    made.log.append([Record("p" * 16, "p", 1, "b", 1, [b"x"], 50.0)])
    found = made.home._done_before(start, 1e9, "a/#")
    assert {stream.topic: [*ranges] for stream, ranges in found.items()} == done
    assert all(stream == Stream("p" * 16, 1, stream.topic) for stream in found)


def test_of_a_damaged_file_what_is_before_the_damage_is_known_and_counted() -> None:
    made = keeper()
    state = made.state()
    entries = [*made.home._snapshot()]
    for bad in (b"x", b"[]", orjson.dumps({"id": ID, "about": {}}), orjson.dumps({"about": 1})):
        one = Journal(made.disk, NAME, lambda bad=bad: iter([*entries, bad, orjson.dumps({"id": ID})]))  # type: ignore[misc]
        one.load()
        one.replace()
        made.statistics.clear()
        made.open()
        assert made.state() == state
        assert made.statistics == {"damaged votes for homes of consumers": 1}


def test_votes_that_a_disk_does_not_store_are_not_told_and_raise_an_alert() -> None:
    made = Keeper()
    alerts: list[ConsumerAlert] = []
    made.home._alert = alerts.append
    made.disk.is_full = True
    assert [head for _, head in asked(made, **JOIN) if "ask" in head] == []
    (alert,) = alerts
    assert (alert.kind, alert.name, alert.pattern) == ("storage", "billing", "a/#")
    assert made.home._vote_at == made.now + 1.0
    made.disk.is_full = False
    made.run(20.0)
    assert made.home.ballots[ID].role == HOME, "it stands again"


def test_a_full_disk_is_told_once_and_tried_again_after_a_second() -> None:
    made = Keeper()
    alerts: list[ConsumerAlert] = []
    made.home._alert = alerts.append
    made.disk.is_full = True
    asked(made, **JOIN)
    for tenths in range(10):
        made.home.advance(made.now + tenths / 10)
    assert len(alerts) == 1
    assert made.home.advance(made.now + 1.0) == []
    assert len(alerts) == 2


def test_a_change_is_stored_a_hundredth_of_a_second_later_and_a_farewell_stores_all() -> None:
    made = keeper()
    made.run(1.0)
    made.home.ballots[ID].add(STREAM, 7, 8)
    made.home._settle(made.now)
    assert made.home._vote_at == made.now + 0.01
    made.home.close(made.now)
    made.disk.crash()
    made.open()
    assert (7, 8) in made.state()[ID][1][STREAM]
