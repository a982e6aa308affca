"""What endpoints are called, also those that have gone: consensus knows ids alone, and people know names.

A name is learned from discovery while its endpoint is there, from the `members` that were given, and from members of
a group, who tell a newcomer the names of its voters. A name that does not belong to its id is not taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from glue.model.consensus import ConsensusSettings

KNOWN = 4096
"""Names that are remembered, 200 bytes each with its id: 0.8 MB."""

NAME_LIMIT = 255
"""Characters of a name."""

TOLD = 64
"""Names in one message: more than a group has members."""

MARK = b'["names",'


class Names:
    """The names by id, as far as they are known."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def learn(self, peer: str, name: str) -> None:
        """This endpoint is called so."""
        self._known.pop(peer, None)
        if len(self._known) >= KNOWN:
            del self._known[next(iter(self._known))]
        self._known[peer] = name

    def learn_all(self, names: Mapping[str, str]) -> None:
        """As `learn`, for several."""
        for peer, name in names.items():
            self.learn(peer, name)

    def of(self, peer: str) -> str:
        """An endpoint's name, or else its id."""
        return self._known.get(peer, peer)

    def told(self, peers: Iterable[str]) -> bytes:
        """A message with the names of these."""
        names = [self._known[peer] for peer in peers if peer in self._known]
        return orjson.dumps(["names", names[:TOLD]])

    def take(self, payload: bytes) -> bool:
        """Learn from a message, if it is one of names; those that are known already stay."""
        if not payload.startswith(MARK):
            return False
        try:
            _, names = orjson.loads(payload)
        except ValueError:
            return False
        if not isinstance(names, list) or len(names) > TOLD:
            return False
        for name in names:
            if isinstance(name, str) and len(name) <= NAME_LIMIT and (peer := id_of(name)) not in self._known:
                self.learn(peer, name)
        return True


def who_votes(settings: ConsensusSettings, names: Names) -> str:
    """Who is to vote by these settings, as a program gives it."""
    if settings.members is not None:
        return f"members={[names.of(member) for member in settings.members]}"
    return f"voters={settings.voters}"


def disagreement(settings: ConsensusSettings, differing: Mapping[str, str], names: Names) -> str:
    """Who was given something else, and what; "" if nobody was."""
    if not differing:
        return ""
    others = "; ".join(
        f"at {names.of(peer)}: {what}" for peer, what in sorted(differing.items(), key=lambda item: names.of(item[0]))
    )
    return f"who votes must be given alike at all endpoints, but here: {who_votes(settings, names)}; {others}"


def missing(settings: ConsensusSettings, found: Sequence[str], names: Names) -> str:
    """Which of the voters of a group that is not founded yet are not there."""
    if settings.members is not None:
        absent = [names.of(member) for member in settings.members if member not in found]
        return f"missing: {', '.join(absent)}" if absent else ""
    return f"{len(found)} of {settings.voters} are there" if settings.voters else ""


def id_of(name: str) -> str:
    """The id of the endpoint of this name: 16 hex digits."""
    return hashlib.blake2s(name.encode(), digest_size=8).hexdigest()
