"""Followers that are behind: how a leader finds where they are, and does not bury them under repeats."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from glue.model.consensus.messages import (
    Append,
    Appended,
)
from tests.model.member import SETTINGS, Member, appends


def test_a_follower_that_lags_is_found_in_as_many_questions_as_there_are_terms() -> None:
    leader, follower = Member("a", [1, 1, 3, 3, 3, 3, 5]), Member("c", [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    said = leader.lead()
    addressed = [("a", message) for message in said if isinstance(message, Append)]
    questions = 0
    while follower.log != leader.log:
        questions += 1
        answers = [("c", answer) for answer in follower.get(*addressed)]
        addressed = [("a", append) for to, append in appends(leader.addressed(*answers)) if to in (None, "c")]
        assert questions < 5


def test_a_follower_whose_repairs_overtake_one_another_does_not_wait_for_heartbeats() -> None:
    settings = dataclasses.replace(SETTINGS, append_limit=1, in_flight_limit=8)
    leader, follower = Member("a", [1] * 50, settings=settings), Member("c", [1])
    leader.lead_and_commit()
    addressed = leader.addressed(*[("c", answer) for answer in follower.get(("a", leader.wait(0.2)[0]))])
    round_trips = 0
    while follower.log != leader.log:
        round_trips += 1
        answers = [("c", answer) for answer in follower.get(*[("a", append) for to, append in reversed(addressed)])]
        addressed = leader.addressed(*answers)
        assert round_trips <= 2 * len(leader.log)  # an entry that is asked about, and one of those that follow


def test_repairs_that_overtake_one_another_are_not_sent_again_for_each_refusal() -> None:
    settings = dataclasses.replace(SETTINGS, append_limit=1, in_flight_limit=16)
    leader, follower, random = Member("a", [1] * 100, settings=settings), Member("c", [1]), Random(1)
    leader.lead_and_commit()
    under_way: list[tuple[str, Any]] = []
    appended = 0
    while follower.log != leader.log:
        if not under_way:
            under_way.append(("a", leader.wait(0.2)[0]))
        sender, message = under_way.pop(random.randrange(len(under_way)))  # the network reorders at will
        if sender == "a":
            under_way += [("c", answer) for answer in follower.get(("a", message))]
            continue
        sent = [("a", append) for to, append in appends(leader.addressed(("c", message))) if to in (None, "c")]
        under_way += sent
        appended += len(sent)
        assert appended < 16 * len(leader.log)  # all that may be in flight, for an entry that is taken


def leader_of_megabytes() -> Member:
    """A leader with 30 entries of 100 kB that one follower lacks."""
    leader = Member("a", settings=dataclasses.replace(SETTINGS, append_limit=1 << 20, uncommitted_limit=8 << 20))
    leader.lead_and_commit()
    for _ in range(30):
        leader.propose(bytes(100_000))
        leader.get()
    return leader


def test_a_follower_too_busy_to_answer_is_not_buried_under_repeats() -> None:
    leader = leader_of_megabytes()
    sent = repeats = 0
    for number in range(100):  # ten seconds, in which the follower answers only the multicasts that it cannot use
        leader.now += 0.1
        previous = leader.last[0]
        leader.propose()
        leader.get(leader.acknowledge("b", previous))
        for _, append in appends(leader.addressed(leader.refuse("c", previous, 1, 1))):
            repeats += bool(append.entries) and append.previous_index < previous
            sent += sum(len(entry.data) for entry in append.entries)
        assert number > 5 or repeats > 0, "it is asked where its log agrees"
    assert 3 <= repeats <= 8
    assert sent < 2_000_000


def test_a_follower_too_slow_for_long_appends_is_sent_shorter_ones() -> None:
    leader = leader_of_megabytes()
    reached, answers = 1, list[tuple[str, Appended]]()
    for _ in range(600):  # a minute, in which appends of more than 300 kB never arrive
        leader.now += 0.1
        previous = leader.last[0]
        leader.propose()
        answers.append(leader.refuse("c", previous, reached, 1 if reached < 2 else 2))
        said = leader.addressed(leader.acknowledge("b", previous), *answers)
        answers = []
        for to, append in appends(said):
            size = sum(len(entry.data) for entry in append.entries)
            if to == "c" and append.previous_index <= reached and size < 300_000:
                reached = max(reached, append.previous_index + len(append.entries))
                answers.append(leader.acknowledge("c", reached))
        if reached >= previous:
            return
    raise AssertionError(f"the follower came to {reached} of {previous} entries")
