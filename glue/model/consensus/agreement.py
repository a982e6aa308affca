"""Whether all mean the same group: who votes is given by each replica, and must be given alike.

Compared is the configuration with which a group was *founded*, not the present one: members that were removed or
admitted since are no disagreement. A replica neither joins nor founds a group beside one that does not fit, so no
write is acknowledged by fewer voters than its endpoint asked for. Who differs, and how, is told while it is heard.
"""

from __future__ import annotations

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.settings import ConsensusSettings

DIFFERING = 256
"""Replicas that are remembered to differ: as many as may offer to be voters."""

PRESENT = 5
"""A replica counts as there for as many heartbeats after its last offer: of four lost ones in a row none matters."""


class Agreement:
    """Who votes by the settings of this replica, and which others were given something else."""

    __slots__ = ("_differing", "_group_until", "_lasts", "_settings")

    def __init__(self, settings: ConsensusSettings) -> None:
        self._settings = settings
        self._lasts = max(PRESENT * settings.heartbeat, 2 * settings.election_timeout)
        self._differing: dict[str, tuple[float, str]] = {}  # by peer: until when, and what it says
        self._group_until = 0.0

    def fits(self, value: bytes) -> bool:
        """Whether a group that was founded with this configuration is the one that is meant."""
        voters, settings = Configuration.decode(value).voters, self._settings
        if settings.members is not None:
            return voters.keys() == set(settings.members)
        return settings.voters is None or len(voters) == settings.voters

    # ------------------------------------------------------------------------------------------- who differs

    def note_offer(self, now: float, peer: str, seats: int) -> None:
        """Another one would found a group of so many voters."""
        self._note(now, peer, counted(seats))

    def note_stranger(self, now: float, peer: str) -> None:
        """Another one would vote that is not among the members."""
        self._note(now, peer, "other members, with itself among them")

    def note_group(self, now: float, peer: str, value: bytes) -> None:
        """Another one is of a group that does not fit."""
        self._group_until = now + self._lasts
        self._note(now, peer, founded(value))

    def _note(self, now: float, peer: str, what: str) -> None:
        if peer in self._differing or len(self._differing) < DIFFERING:
            self._differing[peer] = now + self._lasts, what

    def hears_group(self, now: float) -> bool:
        """Whether there is a group that does not fit."""
        return now < self._group_until

    def differing(self, now: float) -> dict[str, str]:
        """What others say, by peer, if it differs and they were heard lately."""
        if self._differing:
            self._differing = {peer: known for peer, known in self._differing.items() if known[0] > now}
        return {peer: what for peer, (_, what) in sorted(self._differing.items())}


def counted(voters: int) -> str:
    """So many voters, in words."""
    return f"{voters} voter{'' if voters == 1 else 's'}"


def founded(value: bytes) -> str:
    """A group that was founded with this configuration, in words."""
    return f"a group founded with {counted(len(Configuration.decode(value).voters))}"
