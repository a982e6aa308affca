"""The watch that checks simulated replicas says what is wrong with them."""

from __future__ import annotations

import pytest

from glue.model.consensus import Configuration, ConsensusSettings, DurableWrite, Kind, LogEntry, Snapshot
from glue.simulation.consensus.cluster import Cluster
from glue.simulation.consensus.invariants import InvariantWatch, Violation
from glue.simulation.consensus.machine import ChainMachine
from glue.simulation.consensus.observed import Observed


@pytest.mark.parametrize(
    "kinds", [(Kind.NOTHING, Kind.NOTHING), (Kind.COMMAND, Kind.NOTHING), (Kind.NOTHING, Kind.COMMAND)]
)
def test_a_snapshot_that_leaves_out_a_command_is_a_violation(kinds: tuple[Kind, Kind]) -> None:
    watch, node = InvariantWatch(), Observed()
    node.machine, node.commit_index = ChainMachine(), 0
    for index, kind in enumerate((Kind.COMMAND, *kinds), 1):
        watch.committed[index] = LogEntry(index, 1, kind, b"%d" % index)
    node.machine.apply(watch.committed[1])
    watch.applied(node, watch.committed[1])
    snapshot = Snapshot(3, 1, Configuration({}, {}), node.machine.snapshot())  # the state of the first entry alone
    if Kind.COMMAND in kinds:
        with pytest.raises(Violation, match="a snapshot has all up to its index"):
            watch.restored(node, snapshot)
    else:
        watch.restored(node, snapshot)
    assert node.commit_index == (0 if Kind.COMMAND in kinds else 3)


def test_the_watch_sees_what_a_replica_has_in_memory() -> None:
    cluster = Cluster(1)
    node = cluster.add("a", ConsensusSettings(voters=1, election_timeout=1.0, compact_after=1000, trailing=2))
    cluster.run(3.0)
    for number in range(3):
        cluster.propose(node, b"%d" % number)
    cluster.run(1.0)
    term, last = node.last()
    assert [(e.index, e.data) for e in node.entries(last - 2, last)] == [
        (last - 2, b"0"), (last - 1, b"1"), (last, b"2"),
    ]  # fmt: skip
    assert (node.has(last, term), node.has(last, term + 1), node.has(last + 1, term)) == (True, False, False)
    assert [node.term_before(DurableWrite(9, None, [LogEntry(index, 9, Kind.COMMAND, b"")])) for index in (2, 3)] == [
        node.entries(1, 1)[0].term, node.entries(2, 2)[0].term,
    ]  # fmt: skip
    assert node.term_before(DurableWrite(9, None, [LogEntry(last + 2, 9, Kind.COMMAND, b"")])) is None
    assert node.term_before(DurableWrite(9, None, [])) is None
    for number in range(3, 20):
        cluster.propose(node, b"%d" % number)
    cluster.run(1.0)
    assert node.entries(1, last) == []
    assert node.has(1, 99)  # what it has left out is in its snapshot
    assert node.has(node.last()[1], term)
    assert not node.has(node.last()[1], 99)
    node.crash()
    assert node.last() == (0, 0)
    node.restart()
    assert node.last()[1] >= last
    assert cluster.watch.commit_index >= 20
