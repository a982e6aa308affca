"""Who takes part, decided by the leader: one change at a time (thesis, section 4.1), learners first.

A change waits until the one before is committed, and until the leader has committed an entry of its own term (the
bug of 2015: https://groups.google.com/g/raft-dev/c/t4xj6dJTP6E). A member that answers under another life has lost
its storage: its vote is taken away, and it is admitted again as a learner; a learner that has caught up is promoted.
"""

from __future__ import annotations

from typing import NamedTuple

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.items import Kind

PROMOTABLE = 1000
"""Entries that a learner may lag and be promoted: what a stream of 10,000 a second makes in 0.1 s."""


class Claim(NamedTuple):
    """A member's id was heard under another life than the known one."""

    life: str
    heard: float


class ConfigurationChanges:
    """The changes of configuration of one leader, whose own first entry is at `first_index`."""

    __slots__ = ("_claims", "_core", "_first_index")

    def __init__(self, core: ReplicaCore, first_index: int) -> None:
        self._core = core
        self._first_index = first_index
        self._claims: dict[str, Claim] = {}

    def claims(self, now: float, peer: str, life: str) -> None:
        """A member was heard under a life that is not known."""
        self._claims[peer] = Claim(life, now)

    def obstacle(self) -> str:
        """Why no change can be made now, "" if one can."""
        core = self._core
        if core.commit_index < self._first_index:
            return "the leader is new and has not committed anything yet"
        if core.log.configuration_index > core.commit_index:
            return "another change of members is under way"
        return ""

    def change(self, configuration: Configuration) -> str:
        """Append a change; the reason if that cannot be."""
        core = self._core
        obstacle = self.obstacle()
        if obstacle:
            return obstacle
        if not configuration.is_single_step_from(core.configuration):
            return "members change one at a time, and one must be left"
        core.append(Kind.CONFIGURATION, configuration.encode())
        return ""

    def readmission(self, now: float, last_heard: dict[str, float]) -> Configuration | None:
        """The configuration in which someone who lost its storage is admitted anew; None if nobody did.

        Not while the known life was heard lately, lest a late message of a former life throws out the present one.
        """
        configuration, timeout = self._core.configuration, self._core.settings.election_timeout
        for peer, claim in sorted(self._claims.items()):
            known = configuration.life(peer)
            if known is None or known == claim.life or now - claim.heard > timeout:
                del self._claims[peer]
            elif now - last_heard.get(peer, now) > timeout / 2:
                del self._claims[peer]
                return configuration.with_learner(peer, claim.life)
        return None

    def promotion(self, matches: dict[str, int]) -> Configuration | None:
        """The configuration in which a learner that has caught up is a voter; None if there is none such.

        It must have on its disk that it is a learner: a vote is asked of members only, and the entry that promotes it
        may be committed by its vote alone.
        """
        core = self._core
        least = max(self._first_index, core.log.configuration_index)
        for learner in sorted(core.configuration.learners):
            index = matches.get(learner, 0)
            if index >= least and core.log.last_index - index <= PROMOTABLE:
                return core.configuration.promoted(learner)
        return None
