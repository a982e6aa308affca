"""The leader's changes of the configuration: one at a time (thesis, section 4.1), and learners first.

A change waits until the one before is committed, and until the leader has committed an entry of its own term (see the
bug of 2015, https://groups.google.com/g/raft-dev/c/t4xj6dJTP6E). A member that answers under another life has lost its
storage. The leader takes its vote away and admits it again as a learner. A learner that has caught up is promoted.
"""

from __future__ import annotations

from typing import NamedTuple

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.core import ReplicaCore
from glue.model.consensus.items import Kind

PROMOTABLE = 1000
"""Entries that a learner may lag behind at its promotion: 0.1 s of a stream of 10,000 a second."""


class Claim(NamedTuple):
    """A life of a member's id other than the known one, and when its last message arrived."""

    life: str
    received_at: float


class ConfigurationChanges:
    """The configuration changes of one leader; `first_index` is the leader's first entry."""

    __slots__ = ("_claims", "_core", "_first_index")

    def __init__(self, core: ReplicaCore, first_index: int) -> None:
        self._core = core
        self._first_index = first_index
        self._claims: dict[str, Claim] = {}

    def claims(self, now: float, peer: str, life: str) -> None:
        """Note that a member answers under an unknown life."""
        self._claims[peer] = Claim(life, now)

    def obstacle(self) -> str:
        """Return why no change can be made now; "" if one can."""
        core = self._core
        if core.commit_index < self._first_index:
            return "the leader is new and has not committed anything yet"
        if core.log.configuration_index > core.commit_index:
            return "another change of members is under way"
        return ""

    def change(self, configuration: Configuration) -> str:
        """Append a change of the configuration; returns why not, or ""."""
        core = self._core
        obstacle = self.obstacle()
        if obstacle:
            return obstacle
        if not configuration.is_single_step_from(core.configuration):
            return "members change one at a time, and one must be left"
        core.append(Kind.CONFIGURATION, configuration.encode())
        return ""

    def readmission(self, now: float, answered_at: dict[str, float]) -> Configuration | None:
        """Return the configuration that admits a member with a lost storage again; None if there is none.

        A member is not replaced if its known life sent messages lately: a late message of a former life must not remove
        it.
        """
        configuration, timeout = self._core.configuration, self._core.settings.election_timeout
        for peer, claim in sorted(self._claims.items()):
            known = configuration.life(peer)
            if known is None or known == claim.life or now - claim.received_at > timeout:
                del self._claims[peer]
            elif now - answered_at.get(peer, now) > timeout / 2:
                del self._claims[peer]
                return configuration.with_learner(peer, claim.life)
        return None

    def promotion(self, matches: dict[str, int]) -> Configuration | None:
        """Return the configuration that promotes a learner, once it has caught up; None if there is none.

        The learner must have stored that it is a learner. Only members are asked for votes, and its vote alone may
        commit the entry of its promotion.
        """
        core = self._core
        least = max(self._first_index, core.log.configuration_index)
        for learner in sorted(core.configuration.learners):
            index = matches.get(learner, 0)
            if index >= least and core.log.last_index - index <= PROMOTABLE:
                return core.configuration.promoted(learner)
        return None
