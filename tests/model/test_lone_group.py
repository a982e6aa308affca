"""The group of one endpoint, driven by hand: each question and its answer, limits, what is told, and its messages."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from glue.contract import Delivery, Publication, Subscribe, Unsubscribe
from glue.errors import StorageError, StorageFullError
from glue.model import group as module
from glue.model.consensus import ConsensusSettings, Role
from glue.model.group import ModelGroup
from glue.model.mergeable import Prefixes
from glue.model.names import Names, id_of
from glue.model.questions import (
    Committed,
    Found,
    Read,
    Refused,
    Remove,
    Synchronize,
    Transfer,
    Unknown,
    Unwatch,
    WatchPattern,
    Write,
)
from glue.model.requests import Answer, Ask, ModelOptions, OpenModel
from glue.model.state import AcquireLock, Change, Delete, Expect, ExpectRevision, ReleaseLock, Set
from glue.model.storage import MemoryStorage

NAMES = ("attic", "cellar", "kitchen")
TIMEOUT = 10.0
ELECTION = 1.0


class Bench:
    """Groups of one model, whose messages are carried at once, and the time, which passes from deadline to deadline."""

    def __init__(self, *names: str, voters: int = 1, mergeable: dict[str, str] | None = None, **more: Any) -> None:
        self.now = 100.0
        self.up: dict[str, list[Any]] = {}
        self.down: dict[str, list[Any]] = {}
        self.groups: dict[str, ModelGroup] = {}
        self.storages: dict[str, Any] = {}
        self.away: set[str] = set()
        known = Names()
        known.learn_all({id_of(name): name for name in NAMES})
        for number, name in enumerate(names or NAMES[:1]):
            self.storages[name] = storage = MemoryStorage(Random(number))
            times = {"election_timeout": ELECTION, "heartbeat": ELECTION / 3, "ticket_timeout": 2 * ELECTION}
            consensus = ConsensusSettings(voters=voters, **{**times, **more})
            options = ModelOptions(
                consensus=consensus, storage=storage, stored=storage.load(), mergeable=Prefixes(mergeable or {}),
                delta_file=None, deltas=[], names={},
            )  # fmt: skip
            opened = OpenModel("plant", options, 1e9)
            self.groups[name] = ModelGroup(opened, "1/plant", id_of(name), 5, Random(number), self.now, known)
            self.up[name], self.down[name] = [], []

    def lone(self) -> ModelGroup:
        """The first group, once it leads."""
        (group, *_) = self.groups.values()
        self.run(4.0)
        return group

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while (at := min(group.deadline for group in self.groups.values())) <= end:
            self.now = max(self.now, at)
            for name, group in self.groups.items():
                if group.deadline <= self.now:
                    self.turn(name)
        self.now = end

    def turn(self, name: str, *deliveries: Delivery) -> None:
        up, down = self.groups[name].receive(self.now, deliveries)
        self.up[name] += up
        self.down[name] += down
        for publication in down:
            self.carry(name, publication)

    def carry(self, sender: str, publication: Any) -> None:
        """Bring a message to those that have its topic, unless sender or receiver is away."""
        for name, group in self.groups.items():
            topics = [group.to_all, group.to_one(id_of(name))]
            if name == sender or {name, sender} & self.away or publication.topic not in topics:
                continue
            origin = (sender, id_of(sender), 5, 1, 0.0, False, ())
            self.turn(name, Delivery(publication.topic, publication.payloads, None, *origin))

    def ask(self, question: Any, timeout: float = TIMEOUT, name: str = NAMES[0]) -> list[Any]:
        """The events of a question whose token is itself, without the passing of time."""
        token: Any = question
        return self.groups[name].ask(self.now, Ask("plant", token, question, timeout, 1e9))

    def answer(self, question: Any, wait: float = 3.0, **more: Any) -> Any:
        """The answer to a question, within some seconds."""
        self.up = {name: [] for name in self.groups}
        found = self.ask(question, **more)
        self.run(wait)
        found += [event for events in self.up.values() for event in events]
        answers = [event.answer for event in found if isinstance(event, Answer) and event.token is question]
        return answers[0] if len(answers) == 1 else answers


def test_a_group_of_one_founds_itself_and_commits() -> None:
    bench = Bench()
    group = bench.groups["attic"]
    assert (group.status.role, group.size, group.backlog, group.is_voter) == (Role.FOUNDING, 0, 0, False)
    assert bench.lone() is group
    assert (group.status.role, group.status.leader, group.is_voter) == (Role.LEADER, id_of("attic"), True)
    began = bench.now
    answer = bench.answer(Write([Set("a", 1), Set("b", 2)]))
    assert isinstance(answer, Committed)
    assert answer.since == began
    assert (group.size, [change.value for change in group.local("#")]) == (2, [1, 2])
    assert bench.answer(Read("b")) == Found([Change("b", b"2", answer.index)])
    assert (group.failure(bench.now), group.age(bench.now), group.backlog) == ("", 0.0, 0)
    assert bench.answer(Write([Expect("a", 2), Set("a", 3)])) == Refused("'a' has another value")


def test_topics_are_subscribed_at_the_beginning_and_given_back_at_the_end() -> None:
    group = Bench().groups["attic"]
    to_all, to_one = "$glue/model/plant/all", f"$glue/model/plant/to/{id_of('attic')}"
    opened: list[Any] = group.open()
    assert [(type(one), one.token, one.patterns) for one in opened] == [
        (Subscribe, ("plant", 0), (to_all,)),
        (Subscribe, ("plant", 1), (to_one,)),
    ]
    up, closing = group.close()
    ends: list[Any] = closing
    assert (up, [(type(one), one.token) for one in ends]) == (
        [],
        [(Unsubscribe, ("plant", 0)), (Unsubscribe, ("plant", 1))],
    )
    merging = Bench(mergeable={"m/": "register"}).groups["attic"]
    topics = [one.patterns[0] for one in merging.open() if isinstance(one, Subscribe)]
    assert topics[:2] == [to_all, to_one]
    assert len(topics) == len(merging.close()[1]) > 2
    assert all(topic.startswith("$glue/model/plant/merge") for topic in topics[2:])


def test_a_write_that_no_replica_would_take_is_refused_and_those_beside_it_are_not() -> None:
    bench = Bench()
    bench.lone()
    wrong: Any = "3"
    good, bad = Write([Set("a", 1)]), Write([ExpectRevision("a", wrong), Set("a", 2)])
    assert bench.ask(good) == []
    refused = bench.ask(bad)
    bench.up["attic"].clear()
    bench.run(3.0)
    assert [(one.token, type(one.answer)) for one in (*refused, *bench.up["attic"])] == [
        (bad, Refused), (good, Committed),
    ]  # fmt: skip


def test_each_call_that_waits_counts_and_ends_with_the_group() -> None:
    bench = Bench(voters=3)  # two are missing
    group = bench.groups["attic"]
    for number in range(3):
        assert bench.ask(Write([Set("a", number)])) == []
    read = Read("#")
    assert bench.ask(read) == []
    assert group.backlog == 3 * 256
    removal = Remove(id_of("cellar"))
    assert bench.ask(removal) == []
    ends: list[Any] = group.close()[0]
    assert [one.answer for one in ends[:3]] == [Refused("the model was closed", unreachable=True)] * 3
    assert (ends[3].token, ends[3].answer) == (read, Refused("the model was closed", unreachable=True))
    assert (ends[4].token, ends[4].answer) == (removal, Unknown("the model was closed"))
    merging = Bench(mergeable={"m/": "register"})
    question: Any = Synchronize()
    assert merging.ask(question) == []
    (end,) = merging.groups["attic"].close()[0]
    assert isinstance(end, Answer)
    assert (end.token, end.answer) == (question, Unknown("the model was closed"))


def test_what_nobody_can_answer_is_refused_with_its_reason_when_its_time_is_over() -> None:
    bench = Bench(voters=3)
    reason = "the model 'plant' is not founded yet, or not in reach: too few of its voters are found"
    for question in (Write([Set("a", 1)]), Read("#")):
        began = bench.now
        assert bench.answer(question, 1.9, timeout=2.0) == []
        bench.up["attic"].clear()
        bench.run(began + 2.0 - bench.now)
        (told,) = bench.up["attic"]
        assert told.answer == Refused(f"{reason}; 1 of 3 are there", unreachable=True)


def test_a_replica_without_a_majority_says_so_and_tells_how_old_its_copy_is() -> None:
    bench = Bench("attic", "cellar", voters=2)
    bench.run(4.0)
    leader, follower = sorted(bench.groups, key=lambda name: bench.groups[name].status.role is not Role.LEADER)
    assert isinstance(bench.answer(Write([Set("a", 1)]), name=follower), Committed)
    assert bench.groups[leader].age(bench.now) == 0.0
    assert bench.groups[leader].statistics == {}, "only the leader stamps"
    assert 0.0 <= bench.groups[follower].age(bench.now) <= ELECTION / 3
    bench.away = {leader}
    bench.run(5.0)
    assert 4.5 < bench.groups[follower].age(bench.now) <= 5.0 + ELECTION / 3
    assert bench.answer(Read("a"), name=follower, timeout=2.0) == Refused(
        "no majority of the voters is in reach of model 'plant'; reads with stale=True still work", unreachable=True
    )
    assert [change.value for change in bench.groups[follower].local("a")] == [1]


def test_a_watch_begins_with_what_is_there_and_ends_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.lone()
    bench.answer(Write([Set("a/x", 1), Set("b", 2)]))
    watch = WatchPattern("w", "a/#")
    first, answer = bench.ask(watch)
    assert isinstance(answer, Answer)
    assert ([one.key for one in first.payloads], first.sequence, answer.answer) == (["a/x"], 1, Found([]))
    bench.answer(Write([Set("a/y", 3), Set("b", 4)]))
    (told,) = [event for event in bench.up["attic"] if isinstance(event, Delivery)]
    assert ([(one.key, one.live) for one in told.payloads], told.sequence) == ([("a/y", True)], 2)
    monkeypatch.setattr(module, "WATCHES", 2)
    assert bench.answer(WatchPattern("second", "b")) == Found([])
    assert bench.answer(WatchPattern("third", "b")) == Refused("more than 2 watches of one model")
    assert bench.answer(Unwatch("w")) == Found([])
    bench.answer(Write([Set("a/z", 5)]))
    assert [event for event in bench.up["attic"] if isinstance(event, Delivery)] == []
    assert bench.answer(WatchPattern("third", "b")) == Found([])
    assert isinstance(bench.answer(WatchPattern("x", "a/#/b")), Refused)


def test_reads_that_wait_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READS", 2)
    bench = Bench(voters=3)
    assert bench.ask(Read("a")) == bench.ask(Read("b")) == []
    assert bench.answer(Read("c"), 0.0) == Refused("more than 2 reads wait")


def test_a_lock_that_is_held_is_waited_for_or_refused() -> None:
    bench = Bench()
    bench.lone()
    assert isinstance(bench.answer(Write([AcquireLock("door", "me", 5000)]), 0.5), Committed)
    assert bench.answer(Write([AcquireLock("door", "you", 5000)]), 0.5) == Refused("held by me")
    patient = Write([AcquireLock("door", "you", 5000)], patient=True)
    assert bench.answer(patient, 0.5) == []
    next_one = Write([AcquireLock("door", "she", 5000)], patient=True)
    assert bench.answer(next_one, 0.5) == []
    for owner, waiter in (("me", patient), ("you", next_one)):  # each in its turn
        bench.up["attic"].clear()
        assert isinstance(bench.answer(Write([ReleaseLock("door", owner)]), 0.5), Committed)
        got = [(one.token, type(one.answer)) for one in bench.up["attic"] if one.token in (patient, next_one)]
        assert got == [(waiter, Committed)]
    assert isinstance(bench.answer(Write([AcquireLock("door", "me", 5000)], patient=True), 7.0), Committed), (
        "it ran out"
    )


def test_members_are_removed_and_lead_as_asked() -> None:
    bench = Bench("attic", "cellar", voters=2)
    bench.run(4.0)
    leader, follower = sorted(bench.groups, key=lambda name: bench.groups[name].status.role is not Role.LEADER)
    assert bench.answer(Transfer(id_of(follower)), name=leader) == Found([])
    assert bench.groups[follower].status.role is Role.LEADER
    wrong = bench.answer(Transfer(id_of("kitchen")), name=follower)
    assert isinstance(wrong, Refused)
    assert wrong.reason != ""
    assert bench.answer(Remove(id_of(leader)), name=follower) == Found([])
    assert [bench.groups[follower].is_voter, bench.groups[follower].failure(bench.now)] == [True, ""]
    assert id_of(leader) not in bench.groups[follower].replica.configuration.voters


def test_mergeable_keys_are_a_part_of_what_is_read_and_only_they_synchronize() -> None:
    bench = Bench()
    bench.lone()
    assert bench.answer(Synchronize()) == Refused("no keys of the model are mergeable")
    both = Bench(mergeable={"m/": "register"})
    group = both.lone()
    assert isinstance(both.answer(Write([Set("z", 1), Set("a", 2)])), Committed)
    assert isinstance(both.answer(Write([Set("m/x", 3)])), Committed)
    assert ([change.key for change in group.local("#")], group.size) == (["a", "m/x", "z"], 3)
    found = both.answer(Read("#"))
    assert [change.value for change in found.entries] == [2, 3, 1]
    store = group.mergeable.store if group.mergeable else None
    watched = [getattr(store, "is_watched", None)]
    assert both.answer(WatchPattern("w", "#")) == Found([])
    watched.append(getattr(store, "is_watched", None))
    both.answer(Write([Set("m/x", 4)]))
    assert both.answer(Unwatch("w")) == Found([])
    assert [*watched, getattr(store, "is_watched", None)] == [False, True, False]


def test_a_replica_whose_disk_fails_ends_its_calls_and_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    group, storage = bench.lone(), bench.storages["attic"]
    assert isinstance(bench.answer(Write([Set("a", 0)])), Committed)

    def fail(*_: Any) -> None:
        raise StorageFullError("no room")

    monkeypatch.setattr(storage, "sync", fail)
    failed = Write([Set("a", 1)])
    assert bench.answer(failed, 0.5) == Unknown("the storage failed: no room")
    assert group.failure(bench.now) == "the storage failed: no room"
    assert [group.status.role] == [Role.FOLLOWER]
    assert bench.answer(Read("a"), 0.0) == Refused("the storage failed: no room", unreachable=True)
    assert bench.now < group.deadline <= bench.now + 1.0
    monkeypatch.undo()
    bench.up["attic"].clear()
    bench.run(5.0)
    assert [one for one in bench.up["attic"] if one.token is failed] == [], "it was answered before"
    assert (group.failure(bench.now), group.status.role) == ("", Role.LEADER)
    assert isinstance(bench.answer(Write([Set("a", 2)])), Committed)

    def break_down(*_: Any) -> None:
        raise StorageError("broken")

    monkeypatch.setattr(storage, "sync", break_down)
    assert bench.answer(Write([Set("a", 3)]), 0.5) == Unknown("the storage failed: broken")
    assert (group.deadline, group.status.role) == (inf, Role.FOLLOWER)


def test_messages_expire_after_an_election_timeout_and_are_best_effort_at_rest() -> None:
    bench = Bench("attic", "cellar", voters=2)
    bench.run(10.0)
    leader = next(name for name, group in bench.groups.items() if group.status.role is Role.LEADER)
    sent = bench.down[leader]
    assert {(one.options.lifespan, one.options.ordered, type(one)) for one in sent} == {(ELECTION, False, Publication)}
    assert sent[0].options.reliable
    assert {one.published_at for one in sent} == {0.0}
    names = [one for one in sent if bytes(one.payloads[0]).startswith(b'["names"')]
    assert {one.options.reliable for one in names} == ({True} if names else set())
    bench.down[leader] = []
    bench.run(3.0)
    assert {one.options.reliable for one in bench.down[leader]} == {False}, "heartbeats alone"
    bench.down[leader] = []
    bench.answer(Write([Set("a", 1)]), 0.5, name=leader)
    assert {one.options.reliable for one in bench.down[leader]} == {True}
    bench.run(3.0)
    bench.down[leader] = []
    bench.answer(Read("a"), 0.1, name=leader)
    assert {one.options.reliable for one in bench.down[leader]} == {True}
    bench.away = {leader}
    (other,) = {*bench.groups} - {leader}
    bench.run(3.0)
    bench.down[other] = []
    bench.run(5.0)
    assert bench.down[other], "it asks whether it would be elected"
    assert {one.options.reliable for one in bench.down[other]} == {True}


def test_a_replica_that_was_away_goes_on_from_a_snapshot() -> None:
    bench = Bench(*NAMES, voters=3, compact_after=2000, trailing=0)
    bench.run(5.0)
    leader = next(name for name, group in bench.groups.items() if group.status.role is Role.LEADER)
    away = next(name for name in NAMES if name != leader)
    assert isinstance(bench.answer(Write([Set("kept", 1), Set("gone", 2)]), name=leader), Committed)
    assert isinstance(bench.answer(Write([AcquireLock("door", "me", 90_000)]), 0.5, name=leader), Committed)
    patient = Write([AcquireLock("door", "you", 90_000)], patient=True)
    assert bench.answer(patient, 1.0, name=away, timeout=80.0) == []
    assert bench.answer(WatchPattern("w", "#"), 0.1, name=away) == Found([])
    bench.away = {away}
    bench.answer(Write([Delete("gone"), ReleaseLock("door", "me")]), 1.0, name=leader)
    for number in range(40):
        assert isinstance(bench.answer(Write([Set("text", f"{number} {'x' * 99}")]), 0.2, name=leader), Committed)
    bench.up[away] = []
    bench.away = set()
    bench.run(5.0)
    told = [event for event in bench.up[away] if isinstance(event, Delivery)]
    assert [(one.key, one.live) for one in told[0].payloads] == [("text", False), ("gone", False)]
    assert [type(one.answer) for one in bench.up[away] if isinstance(one, Answer)] == [Committed], "the lock is free"


def test_a_new_leader_is_asked_for_what_the_old_one_left_unanswered() -> None:
    bench = Bench(*NAMES, voters=3, ticket_timeout=100.0)
    bench.run(5.0)
    leader = next(name for name, group in bench.groups.items() if group.status.role is Role.LEADER)
    follower = next(name for name in NAMES if name != leader)
    assert isinstance(bench.answer(Write([Set("a", 1)]), name=follower), Committed)
    bench.away = {leader}
    read, write = Read("a"), Write([Set("a", 2)])
    assert bench.answer(read, 0.0, name=follower) == []
    assert bench.ask(write, name=follower) == []
    bench.run(6.0)
    answers: dict[Any, Any] = {type(one.token): one.answer for one in bench.up[follower] if isinstance(one, Answer)}
    assert isinstance(answers[Write], Committed)
    assert [change.value for change in answers[Read].entries] in ([1], [2])
