"""The watch over a consensus group notices every breach of Raft's invariants, each shown to it by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from glue.model.consensus import DurableWrite, Kind, LogEntry, Role, Snapshot, Vital
from glue.model.consensus.configuration import Configuration
from glue.model.consensus.messages import Append, Appended, RequestVote, Vote
from glue.simulation.consensus.invariants import InvariantWatch, Violation
from glue.simulation.consensus.node import Node
from glue.simulation.consensus.observed import DurableLog

TERM = 5


def entry(index: int, term: int, data: bytes = b"c") -> LogEntry:
    return LogEntry(index, term, Kind.COMMAND, data)


class Group:
    """Three voters as the watch sees them, of which `a` leads in term 5."""

    def __init__(self) -> None:
        self.watch = InvariantWatch()
        self.nodes = {peer: self.node(peer) for peer in "abc"}
        self.a, self.b, self.c = (cast(Node, node) for node in self.nodes.values())

    def node(self, peer: str) -> SimpleNamespace:
        life = f"{peer}1"
        durable = DurableLog(Vital(life, "g"), None, {})
        self.watch.began(life, durable)
        voters = {other: f"{other}1" for other in "abc"}
        replica = SimpleNamespace(
            configuration=Configuration(voters, {}),
            status=SimpleNamespace(term=TERM, commit_index=0),
            snapshot=None,
        )
        node = SimpleNamespace(
            peer=peer, life=life, vital=Vital(life, "g"), durable=durable, replica=replica, log=list[LogEntry](),
            is_stepping_once=True, last_before=(0, 0), commit_index=0,
            machine=SimpleNamespace(applied=0, digest=b"d"),
        )  # fmt: skip
        node.entries = lambda first, last: [e for e in node.log if first <= e.index <= last]
        node.has = lambda index, term: any((e.index, e.term) == (index, term) for e in node.log)
        node.term_before = lambda write: next(
            (e.term for e in node.log if write.entries and e.index == write.entries[0].index - 1), None
        )
        return node

    def write(self, node: Node, number: int, vital: Vital | None = None, entries: tuple[LogEntry, ...] = ()) -> None:
        self.watch.wrote(node, DurableWrite(number, vital, entries))
        cast(Any, node).log += entries

    def vote(self, node: Node, candidate: str, term: int = TERM) -> None:
        vital = node.vital._replace(term=term, vote=candidate)
        self.write(node, node.vital.term + 1, vital)
        node.durable.synced(1 << 30)

    def request(self, node: Node, term: int = TERM, last: tuple[int, int] = (0, 0)) -> None:
        message = RequestVote("g", node.life, term, pre=False, last_index=last[1], last_term=last[0], transfer=False)
        self.watch.sent(node, None, message)

    def elect(self) -> None:
        for node in (self.a, self.b):
            self.vote(node, "a")
        self.request(self.a)
        self.watch.sent(self.b, "a", Vote("g", "b1", TERM, False, True))
        self.watch.became(self.a, Role.LEADER, TERM)

    def append(self, node: Node, number: int, *entries: LogEntry, durable: bool = True) -> None:
        self.write(node, number, None, entries)
        if durable:
            node.durable.synced(number)

    def commit(self, node: Node, index: int) -> None:
        cast(Any, node).replica.status.commit_index = index
        self.watch.advanced(node)


@pytest.fixture
def group() -> Group:
    return Group()


def test_an_election_and_a_commit_that_are_right_pass(group: Group) -> None:
    group.elect()
    for number, node in enumerate((group.a, group.b)):
        group.append(node, 20 + number, entry(1, TERM), entry(2, TERM))
        group.watch.sent(node, "a", appended(node, 2))
    group.commit(group.a, 2)
    group.commit(group.b, 2)
    assert group.watch.elections == 1
    assert (group.watch.commit_index, sorted(group.watch.committed)) == (2, [1, 2])


def test_commands_that_all_apply_alike_and_a_snapshot_of_them_pass(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    first, second = LogEntry(1, TERM, Kind.COMMAND, b"c"), LogEntry(2, TERM, Kind.COMMAND, b"d")
    group.watch.committed[2] = second
    for node, applied in ((group.a, first), (group.b, first), (group.a, second), (group.b, second)):
        cast(Any, node).machine.digest = b"after %d" % applied.index
        group.watch.applied(node, applied)
    cast(Any, group.c).machine = SimpleNamespace(applied=2, digest=b"after 2")
    group.watch.restored(group.c, Snapshot(2, TERM, Configuration({}, {}), b""))
    assert group.c.commit_index == 2


def appended(node: Node, index: int, term: int = TERM) -> Appended:
    fields: dict[str, Any] = dict.fromkeys(Appended.__slots__, 0)
    return Appended(**{**fields, "group": "g", "life": node.life, "term": term, "matches": True, "index": index})


def vote_not_durable(group: Group) -> None:
    group.write(group.b, 1, group.b.vital._replace(term=TERM, vote="a"))
    group.watch.sent(group.b, "a", Vote("g", "b1", TERM, False, True))


def two_votes(group: Group) -> None:
    group.vote(group.b, "a")
    group.watch.sent(group.b, "a", Vote("g", "b1", TERM, False, True))
    group.b.durable.vital = group.b.durable.vital._replace(vote="c")
    group.watch.sent(group.b, "c", Vote("g", "b1", TERM, False, True))


def candidate_before_its_term_is_durable(group: Group) -> None:
    group.write(group.a, 1, group.a.vital._replace(term=TERM, vote="a"))
    group.request(group.a)


def candidate_tells_more_than_is_durable(group: Group) -> None:
    group.vote(group.a, "a")
    group.request(group.a, last=(TERM, 3))


def acknowledged_before_durable(group: Group) -> None:
    group.vote(group.b, "a")
    group.append(group.b, 20, entry(1, TERM), durable=False)
    group.watch.sent(group.b, "a", appended(group.b, 1))


def acknowledged_in_a_term_that_is_not_durable(group: Group) -> None:
    group.watch.sent(group.b, "a", appended(group.b, 0))


def append_of_a_follower(group: Group) -> None:
    group.elect()
    fields: dict[str, Any] = dict.fromkeys(Append.__slots__, 0)
    group.watch.appends(group.b, Append(**{**fields, "group": "g", "life": "b1", "term": TERM}))


def two_leaders(group: Group) -> None:
    group.elect()
    group.watch.became(group.b, Role.LEADER, TERM)


def leader_without_a_majority(group: Group) -> None:
    group.vote(group.a, "a")
    group.request(group.a)
    group.watch.became(group.a, Role.LEADER, TERM)


def term_that_falls(group: Group) -> None:
    group.vote(group.a, "a")
    group.write(group.a, 9, group.a.vital._replace(term=TERM - 1))


def another_life(group: Group) -> None:
    group.write(group.a, 9, group.a.vital._replace(life="other"))


def another_group(group: Group) -> None:
    group.write(group.a, 9, group.a.vital._replace(group="other"))


def vote_for_a_log_that_is_behind(group: Group) -> None:
    group.vote(group.a, "a")
    group.request(group.a)
    cast(Any, group.b).last_before = (1, 1)
    group.vote(group.b, "a")


def entries_that_differ(group: Group) -> None:
    for node in (group.a, group.b):
        group.vote(node, "a")
    group.append(group.a, 20, entry(1, TERM))
    group.append(group.b, 20, entry(1, TERM, b"another"))


def terms_of_a_log_that_fall(group: Group) -> None:
    group.vote(group.a, "a")
    group.append(group.a, 20, entry(1, TERM), entry(2, TERM - 1))


def term_above_the_own(group: Group) -> None:
    group.vote(group.a, "a")
    group.append(group.a, 20, entry(1, TERM + 1))


def entry_after_another_one(group: Group) -> None:
    for node in (group.a, group.b):
        group.vote(node, "a")
    group.append(group.a, 20, entry(1, 3), entry(2, TERM))
    group.append(group.b, 20, entry(1, 4), entry(2, TERM))


def commit_without_a_majority(group: Group) -> None:
    group.elect()
    group.append(group.a, 20, entry(1, TERM), entry(2, TERM))
    group.commit(group.a, 2)


def commit_of_a_follower(group: Group) -> None:
    group.elect()
    for node in (group.a, group.b):
        group.append(node, 20, entry(1, TERM), entry(2, TERM))
    group.commit(group.b, 2)


def commit_by_counting_in_an_old_term(group: Group) -> None:
    group.elect()
    for node in (group.a, group.b):
        group.append(node, 20, entry(1, 3), entry(2, 3))
    group.commit(group.a, 2)


def committed_entry_that_changes(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    group.vote(group.b, "b", TERM + 1)
    group.append(group.b, 40, entry(2, TERM + 1))


def applied_what_was_not_committed(group: Group) -> None:
    group.watch.applied(group.a, entry(1, TERM))


def applied_twice(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    group.watch.applied(group.a, entry(1, TERM))
    group.watch.applied(group.a, entry(2, TERM))


def states_that_differ(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    group.watch.applied(group.a, entry(1, TERM))
    cast(Any, group.b).machine.digest = b"another"
    group.watch.applied(group.b, entry(1, TERM))


def snapshot_of_what_is_not_committed(group: Group) -> None:
    group.watch.restored(group.a, Snapshot(3, TERM, Configuration({}, {}), b""))


def snapshot_that_lacks_a_command(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    group.watch.restored(group.b, Snapshot(2, TERM, Configuration({}, {}), b""))


def snapshot_that_goes_back(group: Group) -> None:
    test_an_election_and_a_commit_that_are_right_pass(group)
    cast(Any, group.b).machine.applied = 2
    group.watch.restored(group.b, Snapshot(1, TERM, Configuration({}, {}), b""))


BREACHES: dict[Callable[[Group], None], str] = {
    vote_not_durable: "vote durable before it is told",
    two_votes: "one vote in a term",
    candidate_before_its_term_is_durable: "vote durable before it is told|before candidacy",
    candidate_tells_more_than_is_durable: "candidate tells what is durable",
    acknowledged_before_durable: "entries durable before the acknowledgement",
    acknowledged_in_a_term_that_is_not_durable: "term durable before the acknowledgement",
    append_of_a_follower: "only a leader appends",
    two_leaders: "leader uniqueness",
    leader_without_a_majority: "election safety",
    term_that_falls: "terms only rise",
    another_life: "a life never changes",
    another_group: "a replica stays in its group",
    vote_for_a_log_that_is_behind: "up-to-date vote",
    entries_that_differ: "log matching",
    terms_of_a_log_that_fall: "terms never fall",
    term_above_the_own: "no term above the replica's own",
    entry_after_another_one: "the entry before",
    commit_without_a_majority: "quorum log",
    commit_of_a_follower: "only a leader commits first",
    commit_by_counting_in_an_old_term: "commit by counting only in the own term",
    committed_entry_that_changes: "what is committed stays",
    applied_what_was_not_committed: "state machine safety",
    applied_twice: "each command once",
    states_that_differ: "the same state everywhere",
    snapshot_of_what_is_not_committed: "snapshot of what is committed",
    snapshot_that_lacks_a_command: "a snapshot has all up to its index|the same state everywhere",
    snapshot_that_goes_back: "^snapshot:",
}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__)
def test_a_breach_is_noticed(breach: Callable[[Group], None], group: Group) -> None:
    with pytest.raises(Violation, match=BREACHES[breach]):
        breach(group)
