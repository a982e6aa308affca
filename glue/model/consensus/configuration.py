"""The members of a group: voters, and learners that are to become voters.

A configuration is an entry of the log and in force from the moment it is appended (Raft thesis, section 4.1). One voter
changes at a time, so every majority of the old configuration meets every majority of the new one.

A member is a life of a storage. An endpoint that returns with another life is another member. The new member has no
vote until the group admits it again, as a learner first. Observers are not in the configuration: the leader serves
every follower that asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

Members = Mapping[str, str]
"""Lives by endpoint id."""


class Configuration:
    """The voters and learners of a group, each with its life."""

    __slots__ = ("learners", "quorum", "voters")

    def __init__(self, voters: Members, learners: Members) -> None:
        self.voters = dict(voters)
        self.learners = dict(learners)
        self.quorum = len(self.voters) // 2 + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return f"Configuration(voters={sorted(self.voters)}, learners={sorted(self.learners)})"

    def _key(self) -> tuple[dict[str, str], dict[str, str]]:
        return self.voters, self.learners

    def life(self, peer: str) -> str | None:
        """Return the life under which a peer is a member, None if it is none."""
        return self.voters.get(peer) or self.learners.get(peer)

    def votes(self, peer: str, life: str) -> bool:
        """Whether this life of a peer has a vote."""
        return self.voters.get(peer) == life

    def has_quorum(self, peers: Iterable[str]) -> bool:
        """Whether these peers contain a majority of the voters."""
        return sum(peer in self.voters for peer in peers) >= self.quorum

    # ---------------------------------------------------------------------------------------------- changes

    def with_learner(self, peer: str, life: str) -> Configuration:
        """Return a configuration with this peer as a learner; a former life of the peer loses its vote."""
        voters = {voter: known for voter, known in self.voters.items() if voter != peer}
        return Configuration(voters, {**self.learners, peer: life})

    def promoted(self, peer: str) -> Configuration:
        """Return a configuration in which this learner is a voter."""
        learners = {learner: life for learner, life in self.learners.items() if learner != peer}
        return Configuration({**self.voters, peer: self.learners[peer]}, learners)

    def without(self, peer: str) -> Configuration:
        """Return a configuration without this peer."""
        voters = {voter: life for voter, life in self.voters.items() if voter != peer}
        learners = {learner: life for learner, life in self.learners.items() if learner != peer}
        return Configuration(voters, learners)

    def is_single_step_from(self, other: Configuration) -> bool:
        """Whether at most one vote differs and at least one voter is left."""
        return bool(self.voters) and len(self.voters.items() ^ other.voters.items()) <= 1

    # ----------------------------------------------------------------------------------------------- coding

    def encode(self) -> bytes:
        """Encode as JSON; equal configurations give equal bytes."""
        fields = [dict(sorted(self.voters.items())), dict(sorted(self.learners.items()))]
        return orjson.dumps(fields)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Configuration:
        """Decode the result of `encode`. Raises ValueError for anything else."""
        match orjson.loads(data):
            case [dict(voters), dict(learners)] if all(
                isinstance(life, str) for life in (*voters.values(), *learners.values())
            ):
                return cls(voters, learners)
        raise ValueError("not a configuration")
