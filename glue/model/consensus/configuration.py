"""Who takes part in a group: voters, and learners that are on their way to become voters.

A configuration is an entry of the log and in force from the moment it is appended (Raft thesis, section 4.1). It
changes by one voter at a time, so that every majority of the old one meets every majority of the new one.

Members are bound to a life of their storage: whoever comes back under an old id with another life is not the member
that voted (its votes and acknowledgements do not count) until it has been admitted anew, as a learner first.
Observers are not part of the configuration: the leader serves whoever asks to follow.
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
        """The life under which a peer is a member, None if it is not."""
        return self.voters.get(peer) or self.learners.get(peer)

    def votes(self, peer: str, life: str) -> bool:
        """Whether this life of a peer has a vote."""
        return self.voters.get(peer) == life

    def has_quorum(self, peers: Iterable[str]) -> bool:
        """Whether these peers contain a majority of the voters."""
        return sum(peer in self.voters for peer in peers) >= self.quorum

    # ---------------------------------------------------------------------------------------------- changes

    def with_learner(self, peer: str, life: str) -> Configuration:
        """This peer is a learner; the vote of a former life of it is taken away."""
        voters = {voter: known for voter, known in self.voters.items() if voter != peer}
        return Configuration(voters, {**self.learners, peer: life})

    def promoted(self, peer: str) -> Configuration:
        """A learner becomes a voter."""
        learners = {learner: life for learner, life in self.learners.items() if learner != peer}
        return Configuration({**self.voters, peer: self.learners[peer]}, learners)

    def without(self, peer: str) -> Configuration:
        """This peer is no member any more."""
        voters = {voter: life for voter, life in self.voters.items() if voter != peer}
        learners = {learner: life for learner, life in self.learners.items() if learner != peer}
        return Configuration(voters, learners)

    def is_single_step_from(self, other: Configuration) -> bool:
        """Whether at most one vote differs, and somebody can still vote."""
        return bool(self.voters) and len(self.voters.items() ^ other.voters.items()) <= 1

    # ----------------------------------------------------------------------------------------------- coding

    def encode(self) -> bytes:
        """As JSON, the same bytes for the same configuration."""
        fields = [dict(sorted(self.voters.items())), dict(sorted(self.learners.items()))]
        return orjson.dumps(fields)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Configuration:
        """The inverse of `encode`. Raises ValueError for anything else."""
        match orjson.loads(data):
            case [dict(voters), dict(learners)] if all(
                isinstance(life, str) for life in (*voters.values(), *learners.values())
            ):
                return cls(voters, learners)
        raise ValueError("not a configuration")
