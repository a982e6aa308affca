"""Simulated clusters of replicas, and what tests ask of them."""

from __future__ import annotations

import dataclasses

from glue.model.consensus.messages import Vote
from glue.simulation.consensus import Cluster
from tests.model.member import SETTINGS


def votes(said: list[object]) -> list[tuple[int, bool, bool]]:
    """Term, pre and granted of the votes among messages."""
    return [(vote.term, vote.pre, vote.granted) for vote in said if isinstance(vote, Vote)]


def cluster(voters: int = 3, seed: int = 1) -> Cluster:
    """Voters on a network without faults, with a leader."""
    made = Cluster(seed)
    settings = dataclasses.replace(SETTINGS, voters=voters)
    for number in range(voters):
        made.add("abcde"[number], settings)
    assert made.run_until(lambda: made.leader() is not None, 20.0)
    made.run(1.0)
    return made


def leader_of(made: Cluster) -> str:
    leader = made.leader()
    assert leader is not None
    return leader.peer
