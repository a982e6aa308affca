"""Each invariant that the watch holds is broken once by a replica that lies, and just kept by one that does not."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from glue.model.consensus import Configuration, DurableWrite, Kind, LogEntry, Outcome, Resolution, Role, Snapshot, Vital
from glue.model.consensus.messages import Append, Appended, RequestVote, SnapshotReceived, Vote
from glue.simulation.consensus.history import History
from glue.simulation.consensus.invariants import InvariantWatch, Violation
from glue.simulation.consensus.machine import ChainMachine
from glue.simulation.consensus.observed import DurableLog, Observed

VOTERS = {"a": "A", "b": "B", "c": "C"}


def entry(index: int, term: int = 1, data: bytes = b"", kind: int = Kind.COMMAND) -> LogEntry:
    return LogEntry(index, term, kind, data or b"%d" % index)


class Node(Observed):
    """A replica that says what the test wants."""

    def __init__(self, peer: str = "a", vital: Vital | None = None, **entries: int) -> None:
        self.peer, self.life = peer, peer.upper()
        self.vital = vital or Vital(self.life, "g", 1, "a")
        self.durable = DurableLog(self.vital, None, {int(index[1:]): term for index, term in entries.items()})
        self.machine, self.commit_index = ChainMachine(), 0
        self.is_stepping_once, self.last_before = True, (1, 5)
        self.log: dict[int, LogEntry] = {}
        configuration = Configuration(VOTERS, {})
        self.replica: Any = SimpleNamespace(
            configuration=configuration, snapshot=None, status=SimpleNamespace(term=1, commit_index=0)
        )

    def entries(self, first: int, last: int) -> list[LogEntry]:
        return [self.log[index] for index in range(first, last + 1) if index in self.log]

    def has(self, index: int, term: int) -> bool:
        return index in self.log and self.log[index].term == term

    def term_before(self, write: DurableWrite) -> int | None:
        found = self.log.get(write.entries[0].index - 1) if write.entries else None
        return None if found is None else found.term


def broken(invariant: str) -> Any:
    """That an invariant is broken; "" for none."""
    return pytest.raises(Violation, match=f"^{invariant}:") if invariant else nullcontext()


@pytest.mark.parametrize(
    ("vital", "invariant"),
    [
        (Vital("A", "g", 1, "b"), ""), (Vital("A", "g", 2, ""), ""), (Vital("A", "g", 1, ""), "vote durable before"),
        (Vital("A", "g", 0, "b"), "vote durable before it is told"), (Vital("A", "g", 1, "c"), "vote durable before"),
    ],
)  # fmt: skip
def test_a_vote_is_durable_before_it_is_told(vital: Vital, invariant: str) -> None:
    watch, node = InvariantWatch(), Node(vital=vital)
    watch.sent(node, "b", Vote("g", "A", 1, True, True))
    watch.sent(node, "b", Vote("g", "A", 1, False, False))
    with broken(f"{invariant}.*" if invariant else ""):
        watch.sent(node, "b", Vote("g", "A", 1, False, True))


def test_a_life_votes_once_in_a_term() -> None:
    watch, node = InvariantWatch(), Node(vital=Vital("A", "g", 9, ""))
    for term, to, invariant in ((1, "b", ""), (1, "b", ""), (2, "c", ""), (1, "c", "one vote in a term")):
        with broken(invariant):
            watch.sent(node, to, Vote("g", "A", term, False, True))


@pytest.mark.parametrize(
    ("term", "durable", "last", "invariant"),
    [(1, 1, (5, 1), ""), (1, 1, (6, 1), "candidate tells what is durable"), (1, 1, (5, 2), "candidate tells"),
     (1, 2, (9, 9), ""), (2, 1, (5, 1), "vote durable before it is told")],
)  # fmt: skip
def test_a_candidate_tells_what_is_durable(term: int, durable: int, last: tuple[int, int], invariant: str) -> None:
    node = Node(vital=Vital("A", "g", durable, "a"), i5=1)
    watch = InvariantWatch()
    watch.sent(node, None, RequestVote("g", "A", 9, True, False, 99, 9))
    with broken(f"{invariant}.*" if invariant else ""):
        watch.sent(node, None, RequestVote("g", "A", term, False, False, *last))


@pytest.mark.parametrize(
    ("term", "durable", "index", "snapshot", "invariant"),
    [(1, 1, 5, 0, ""), (1, 1, 6, 0, "entries durable before the acknowledgement"), (1, 1, 6, 6, ""), (1, 2, 99, 0, ""),
     (2, 1, 5, 0, "term durable before the acknowledgement"), (1, 1, 7, 6, "entries durable before")],
)  # fmt: skip
def test_what_is_acknowledged_is_durable(term: int, durable: int, index: int, snapshot: int, invariant: str) -> None:
    node, watch = Node(vital=Vital("A", "g", durable), i5=1), InvariantWatch()
    node.durable.snapshot_index = snapshot
    watch.sent(node, "b", Appended("g", "A", term, 1, False, 99, 1, 1))
    with broken(f"{invariant}.*" if invariant else ""):
        watch.sent(node, "b", Appended("g", "A", term, 1, True, index, 1, 0))
    empty = Node()
    watch.sent(empty, "b", Appended("g", "A", 1, 1, True, 0, 1, 0))
    with broken("entries durable before the acknowledgement"):
        watch.sent(empty, "b", Appended("g", "A", 1, 1, True, 1, 1, 0))


@pytest.mark.parametrize(
    ("received", "known", "invariant"),
    [(5, 9, ""), (6, 9, "snapshot durable before its receipt"), (6, 6, "snapshot durable before"), (6, 5, ""),
     (4, 9, "")],
)  # fmt: skip
def test_a_snapshot_is_durable_before_its_receipt(received: int, known: int, invariant: str) -> None:
    node, watch = Node(i5=1), InvariantWatch()
    node.durable.snapshot_index = 4
    node.replica.snapshot = Snapshot(known, 1, Configuration({}, {}), b"")
    with broken(f"{invariant}.*" if invariant else ""):
        watch.sent(node, "b", SnapshotReceived("g", "A", 1, 1, received, 0))
    node.replica.snapshot = None
    watch.sent(node, "b", SnapshotReceived("g", "A", 1, 1, 99, 0))
    node.replica = None
    watch.sent(node, "b", SnapshotReceived("g", "A", 1, 1, 99, 0))


@pytest.mark.parametrize(
    ("before", "after", "invariant"),
    [
        (Vital("A", "g", 2), Vital("A", "g", 2), ""), (Vital("A", "g", 2), Vital("B", "g", 2), "a life never changes"),
        (Vital("A", "g", 2), Vital("A", "g", 1), "terms only rise"), (Vital("A", "", 1), Vital("A", "h", 1), ""),
        (Vital("A", "g", 1), Vital("A", "h", 1), "a replica stays in its group"),
    ],
)  # fmt: skip
def test_what_a_replica_must_not_forget(before: Vital, after: Vital, invariant: str) -> None:
    node, watch = Node(vital=before), InvariantWatch()
    with broken(invariant):
        watch.wrote(node, DurableWrite(1, after))
        assert node.vital == after
        assert [write.number for write in node.durable.written] == [1]


def test_there_is_one_group() -> None:
    watch = InvariantWatch()
    for group, invariant in (("g", ""), ("g", ""), ("h", "one group")):
        with broken(invariant):
            watch.wrote(Node(vital=Vital("A")), DurableWrite(1, Vital("A", group)))


@pytest.mark.parametrize(
    ("last", "stepping", "before", "invariant"),
    [((5, 1), True, "", ""), ((4, 1), True, "", "up-to-date vote"), ((9, 0), True, "", "up-to-date vote"),
     ((0, 2), True, "", ""), ((4, 1), False, "", ""), ((4, 1), True, "b", "")],
)  # fmt: skip
def test_a_vote_goes_to_who_is_up_to_date(last: tuple[int, int], stepping: bool, before: str, invariant: str) -> None:
    watch, candidate = InvariantWatch(), Node("b", Vital("B", "g", 9, ""))
    candidate.durable.entries = {9: 9}
    watch.sent(candidate, None, RequestVote("g", "B", 2, False, False, *last))
    node = Node(vital=Vital("A", "g", 2, before))
    node.is_stepping_once = stepping
    with broken(invariant):
        watch.wrote(node, DurableWrite(1, Vital("A", "g", 2, "b")))
    watch.wrote(Node("b", Vital("B", "g", 2)), DurableWrite(1, Vital("B", "g", 2, "b")))


def test_logs_match_and_terms_never_fall() -> None:
    watch = InvariantWatch()

    def write(node: Node, *entries: LogEntry) -> None:
        watch.wrote(node, DurableWrite(1, None, entries))

    write(Node(vital=Vital("A", "g", 3)), entry(1), entry(2), entry(3, 2))
    write(Node("b", vital=Vital("B", "g", 3)), entry(1), entry(2))
    for entries, term, invariant in [
        ([entry(2, 1, b"other")], 3, "log matching"), ([entry(2, 1, kind=Kind.NOTHING)], 3, "log matching"),
        ([entry(1, 2), entry(2, 1)], 3, "log: terms never fall"),
        ([entry(2, 2), entry(3, 2)], 3, "log matching: the entry before"),
        ([entry(4, 4)], 3, "log: no term above the replica's own"), ([entry(4, 3)], 3, ""),
        ([entry(4, 3), entry(5, 4)], 3, "log: no term above the replica's own"),
    ]:  # fmt: skip
        with broken(invariant):
            write(Node(vital=Vital("A", "g", term)), *entries)
    watch.committed[2] = entry(2)
    for committed, term, invariant in ((2, 1, ""), (1, 2, ""), (2, 2, "log: what is committed stays")):
        node = Node(vital=Vital("A", "g", 3))
        node.replica.status.commit_index = committed
        with broken(invariant):
            write(node, entry(2, term))


def elected(watch: InvariantWatch, granted: str, term: int = 1, peer: str = "a") -> Node:
    """A node that has the votes of these voters."""
    for voter in granted:
        watch.sent(
            Node(voter, Vital(voter.upper(), "g", term, peer)), peer, Vote("g", voter.upper(), term, False, True)
        )
    node = Node(peer, Vital(peer.upper(), "g", term, peer))
    node.replica.status.term = term
    return node


def test_a_leader_is_elected_by_a_majority_and_alone() -> None:
    watch = InvariantWatch()
    watch.became(Node(), Role.FOLLOWER, 1)
    node = elected(watch, "ab")
    watch.became(node, Role.LEADER, 1)
    assert watch.elections == 1
    watch.appends(node, Append("g", "A", 1, 1, 0, 0, 0, ()))
    with broken("only a leader appends"):
        watch.appends(Node("b"), Append("g", "B", 1, 1, 0, 0, 0, ()))
    with broken("only a leader appends"):
        watch.appends(node, Append("g", "A", 2, 1, 0, 0, 0, ()))
    with broken("leader uniqueness"):
        watch.became(Node("b"), Role.LEADER, 1)
    with broken("election safety"):
        watch.became(elected(watch, "a", 2), Role.LEADER, 2)
    late = elected(watch, "ab", 3)
    late.durable.vital = Vital("A", "g", 3, "")
    with broken("own vote durable before it counts"):
        watch.became(late, Role.LEADER, 3)
    late.durable.vital = Vital("A", "g", 4, "")
    watch.became(late, Role.LEADER, 3)


def test_a_leader_has_what_was_committed_in_earlier_terms() -> None:
    for terms, last, invariant in (
        ({1: 4, 2: 9}, 4, ""), ({1: 4, 2: 9}, 3, "leader completeness"), ({2: 9}, 0, ""),
        ({0: 2, 1: 4}, 3, "leader completeness"), ({0: 2, 1: 4}, 4, ""),
    ):  # fmt: skip
        watch = InvariantWatch()
        watch._commits = terms
        watch.committed = {index: entry(index) for index in range(1, 10)}
        node = elected(watch, "ab", 2)
        node.log = {index: entry(index) for index in range(1, last + 1)}
        with broken(invariant):
            watch.became(node, Role.LEADER, 2)


def led(watch: InvariantWatch, holders: str, peer: str = "a") -> Node:
    """A leader with two entries, which are durable at these voters."""
    node = elected(watch, "ab")
    watch.became(node, Role.LEADER, 1)
    for voter in VOTERS:
        durable = Node(voter, None, **({"i1": 1, "i2": 1} if voter in holders else {"i1": 1})).durable
        watch.began(voter.upper(), durable)
    node = node if peer == "a" else elected(watch, "", 1, peer)
    node.log = {1: entry(1, kind=Kind.CONFIGURATION), 2: entry(2)}
    node.replica.status.commit_index = 2
    return node


@pytest.mark.parametrize(
    ("holders", "peer", "invariant"),
    [("ab", "a", ""), ("abc", "a", ""), ("a", "a", r"committed is durable \(quorum log\)"),
     ("abc", "b", "only a leader commits first")],
)  # fmt: skip
def test_what_is_committed_is_durable_at_a_majority(holders: str, peer: str, invariant: str) -> None:
    watch = InvariantWatch()
    node = led(watch, holders, peer)
    with broken(invariant):
        watch.advanced(node)
        assert (watch.commit_index, node.commit_index, watch._commits) == (2, 2, {1: 2})
        follower = Node("b")
        follower.log, follower.replica.status.commit_index = node.log, 1
        watch.advanced(follower)
        assert (watch.commit_index, follower.commit_index) == (2, 1)
        follower.log = {2: entry(2, 2)}
        follower.replica.status.commit_index = 2
        with broken("state machine safety"):
            watch.advanced(follower)


def test_the_entry_that_founds_a_group_needs_no_leader_and_a_term_may_be_larger_than_what_it_commits() -> None:
    watch = InvariantWatch()
    assert (watch.commit_index, watch.elections) == (0, 0)
    founder = Node()
    founder.log, founder.replica.status.commit_index = {1: entry(1)}, 1
    watch.advanced(founder)
    assert (watch.commit_index, founder.commit_index) == (1, 1)
    node = led(watch, "abc")
    node.replica.status.commit_index, node.replica.status.term = 1, 9  # what counts is the index
    watch.advanced(node)
    later = elected(watch, "ab", 10)
    later.log = {1: entry(1)}
    watch.became(later, Role.LEADER, 10)


def test_only_entries_of_the_own_term_are_committed_by_counting() -> None:
    watch = InvariantWatch()
    node = led(watch, "abc")
    node.log[2] = entry(2, 0)
    for durable in watch._durable.values():
        durable.entries[2] = 0
    with broken("commit by counting only in the own term"):
        watch.advanced(node)


def test_state_machines_apply_what_is_committed_once_and_alike() -> None:
    def applied(watch: InvariantWatch, *entries: LogEntry) -> Node:
        node = Node()
        for one in entries:
            node.machine.apply(one)
            watch.applied(node, one)
        return node

    watch = InvariantWatch()
    watch.committed = {1: entry(1), 2: entry(2), 3: entry(3, data=b"1")}
    applied(watch, entry(1), entry(2))
    applied(watch, entry(1))
    assert watch.commands == {b"1", b"2"}
    for entries, invariant in [
        ([entry(1, data=b"x")], "state machine safety"), ([entry(4)], "state machine safety"),
        ([entry(2)], "the same state everywhere"), ([entry(1), entry(2), entry(3, data=b"1")], "each command once"),
    ]:  # fmt: skip
        with broken(invariant):
            applied(watch, *entries)


@pytest.mark.parametrize(
    ("applied", "index", "term", "digest", "invariant"),
    [(1, 2, 1, True, ""), (2, 1, 1, True, "snapshot"), (1, 2, 2, True, "snapshot of what is committed"),
     (1, 9, 1, True, "snapshot of what is committed"), (1, 2, 1, False, "the same state everywhere"),
     (0, 1, 1, False, "")],
)  # fmt: skip
def test_a_snapshot_is_of_what_is_committed(applied: int, index: int, term: int, digest: bool, invariant: str) -> None:
    watch, node = InvariantWatch(), Node()
    watch.committed = {1: entry(1, kind=Kind.NOTHING), 2: entry(2, kind=Kind.NOTHING)}
    node.machine.applied = applied
    watch.digests[applied] = node.machine.digest if digest else b"other"
    node.commit_index = 1
    with broken(invariant):
        watch.restored(node, Snapshot(index, term, Configuration({}, {}), b""))
        assert node.commit_index == max(1, index)


def test_a_disk_has_what_was_synced_up_to_a_write() -> None:
    durable = DurableLog(Vital("A"), None, {1: 1, 2: 1, 3: 1})
    assert (durable.last, durable.holds(3, 1), durable.holds(3, 2), durable.holds(4, 1)) == ((1, 3), True, False, False)
    assert (DurableLog(Vital("A"), None, {}).last, DurableLog(Vital("A"), None, {}).holds(1, 1)) == ((0, 0), False)
    snapshot = Snapshot(7, 2, Configuration({}, {}), b"")
    durable.written = [
        DurableWrite(1, Vital("A", "g"), [entry(2, 2)]), DurableWrite(2, None, [], snapshot, (7, 2)),
        DurableWrite(3, None, [entry(8, 3)]),
    ]  # fmt: skip
    durable.synced(1)
    assert (durable.vital.group, durable.entries, durable.last) == ("g", {1: 1, 2: 2}, (2, 2))
    durable.synced(2)
    assert (durable.entries, durable.last, durable.holds(7, 9), durable.holds(8, 3)) == ({}, (2, 7), True, False)
    durable.synced(5)
    assert (durable.entries, durable.last, durable.written) == ({8: 3}, (3, 8), [])


def test_clients_see_one_history() -> None:
    def begun(*asked: tuple[str, int, bytes | None]) -> tuple[InvariantWatch, History]:
        watch = InvariantWatch()
        history = History(watch)
        watch.committed = {5: entry(5, data=b"x")}
        for one in asked:
            history.asked(*one)
        return watch, history

    def committed(index: int) -> Resolution:
        return Resolution(1, Outcome.COMMITTED, index)

    _, history = begun(("a", 1, b"x"), ("a", 2, None))
    history.written("a", committed(5))
    assert history.counters[Outcome.COMMITTED] == 1
    history.asked("a", 3, None)
    history.read("a", Resolution(2, Outcome.READABLE, 0), 0)
    with broken("reads are linearizable"):
        history.read("a", Resolution(3, Outcome.READABLE, 4), 9)
    history.asked("a", 4, None)
    history.read("a", Resolution(4, Outcome.READABLE, 5), 5)
    with broken("a read waits for its index"):
        history.read("a", Resolution(9, Outcome.READABLE, 5), 4)
    history.read("a", Resolution(9, Outcome.READABLE, 7), 7)
    history.asked("b", 1, None)
    history.forget("b")
    history.read("b", Resolution(1, Outcome.READABLE, 0), 0)
    assert history.counters[Outcome.READABLE] == 6
    history.written("b", committed(9))  # whose it was is forgotten
    _, history = begun(("a", 1, None))
    history.read("a", Resolution(1, Outcome.READABLE, 7), 7)
    history.asked("b", 1, None)
    with broken("reads are linearizable"):
        history.read("b", Resolution(1, Outcome.READABLE, 6), 9)
    for index, command in ((5, b"y"), (6, b"x")):
        _, history = begun(("a", 1, command))
        with broken("acknowledged is committed"):
            history.written("a", committed(index))
    watch, history = begun(("a", 1, b"no"), ("a", 2, b"yes"))
    history.written("a", Resolution(1, Outcome.REFUSED, 0))
    history.written("a", Resolution(2, Outcome.UNKNOWN, 0))
    history.check()
    watch.commands = {b"yes"}
    history.check()
    watch.commands = {b"no"}
    with broken("refused never happens"):
        history.check()
