"""The watch that checks simulated replicas says what is wrong with them."""

from __future__ import annotations

import pytest

from glue.model.consensus import Configuration, Kind, LogEntry, Snapshot
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
