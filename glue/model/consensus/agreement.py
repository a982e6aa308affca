"""Checks that all replicas want the same group: every replica is given its voters, and all must be given the same.

The check compares the configuration with which a group was *founded*, so later removals and admissions do not matter. A
replica ignores a group that does not fit, and founds none beside it. Therefore no write is acknowledged by fewer voters
than its endpoint asked for. A disagreement is reported while messages of the other replica arrive.
"""

from __future__ import annotations

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.settings import ConsensusSettings

DIFFERING = 256
"""Replicas with other settings that are remembered: as many as the candidates for a founding."""

PRESENT = 5
"""Heartbeats for which a candidate counts as present after its last offer: four lost offers in a row do no harm."""


class Agreement:
    """The voters by this replica's settings, and the replicas that were given others."""

    __slots__ = ("_differing", "_group_until", "_lasts", "_settings")

    def __init__(self, settings: ConsensusSettings) -> None:
        self._settings = settings
        self._lasts = max(PRESENT * settings.heartbeat, 2 * settings.election_timeout)
        self._differing: dict[str, tuple[float, str]] = {}  # by peer: until when it counts, and what it wants
        self._group_until = 0.0

    def fits(self, value: bytes) -> bool:
        """Whether a group founded with this configuration fits this replica's settings."""
        voters, settings = Configuration.decode(value).voters, self._settings
        if settings.members is not None:
            return voters.keys() == set(settings.members)
        return settings.voters is None or len(voters) == settings.voters

    # ------------------------------------------------------------------------------------------ disagreement

    def note_offer(self, now: float, peer: str, seats: int) -> None:
        """Note a replica that would found a group of this many voters."""
        self._note(now, peer, counted(seats))

    def note_stranger(self, now: float, peer: str) -> None:
        """Note a replica that wants a vote and is not among the members."""
        self._note(now, peer, "other members, with itself among them")

    def note_group(self, now: float, peer: str, value: bytes) -> None:
        """Note a replica of a group that does not fit."""
        self._group_until = now + self._lasts
        self._note(now, peer, founded(value))

    def _note(self, now: float, peer: str, what: str) -> None:
        if peer in self._differing or len(self._differing) < DIFFERING:
            self._differing[peer] = now + self._lasts, what

    def hears_group(self, now: float) -> bool:
        """Whether a message of a group that does not fit arrived lately."""
        return now < self._group_until

    def differing(self, now: float) -> dict[str, str]:
        """Return what other replicas want, by peer, if it differs and their messages arrived lately."""
        if self._differing:
            self._differing = {peer: known for peer, known in self._differing.items() if known[0] > now}
        return {peer: what for peer, (_, what) in sorted(self._differing.items())}


def counted(voters: int) -> str:
    """Describe a number of voters in words."""
    return f"{voters} voter{'' if voters == 1 else 's'}"


def founded(value: bytes) -> str:
    """Describe a group in words, by the configuration with which it was founded."""
    return f"a group founded with {counted(len(Configuration.decode(value).voters))}"
