"""Names of endpoints by id, also of endpoints that have left: consensus uses ids, error messages use names.

Names come from discovery, from the `members` setting, and from members of a group, which send a newcomer the names of
its voters. An id is a hash of the name, so no message can give an endpoint a wrong name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from glue.contract.hashing import blake2s

if TYPE_CHECKING:
    from glue.model.consensus import ConsensusSettings

KNOWN = 4096
"""Names kept, 200 bytes each with the id: 0.8 MB."""

NAME_LIMIT = 255
"""Characters of a name."""

TOLD = 64
"""Names in one message: more than a group has members."""

MARK = b'["names",'


class Names:
    """The known names by id. At `KNOWN` names, the one learned first is forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def learn(self, peer: str, name: str) -> None:
        """Note the name of an endpoint."""
        self._known.pop(peer, None)
        if len(self._known) >= KNOWN:
            del self._known[next(iter(self._known))]
        self._known[peer] = name

    def learn_all(self, names: Mapping[str, str]) -> None:
        """Note the names of several endpoints, given by id."""
        for peer, name in names.items():
            self.learn(peer, name)

    def of(self, peer: str) -> str:
        """Return an endpoint's name, or its id if the name is unknown."""
        return self._known.get(peer, peer)

    def told(self, peers: Iterable[str]) -> bytes:
        """Encode a message with the known names of these endpoints, `TOLD` at most."""
        names = [self._known[peer] for peer in peers if peer in self._known]
        return orjson.dumps(["names", names[:TOLD]])

    def take(self, payload: bytes) -> bool:
        """Learn new names from a message; false if it is not a message of names."""
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
    """Describe the voters of these settings as a program writes them: `voters=3` or `members=[…]`."""
    if settings.members is not None:
        return f"members={[names.of(member) for member in settings.members]}"
    return f"voters={settings.voters}"


def disagreement(settings: ConsensusSettings, differing: Mapping[str, str], names: Names) -> str:
    """Describe which endpoints were given other voters; "" if none was."""
    if not differing:
        return ""
    others = "; ".join(
        f"at {names.of(peer)}: {what}" for peer, what in sorted(differing.items(), key=lambda item: names.of(item[0]))
    )
    return f"who votes must be given alike at all endpoints, but here: {who_votes(settings, names)}; {others}"


def missing(settings: ConsensusSettings, found: Sequence[str], names: Names) -> str:
    """Describe which voters are missing while the group is not founded; "" if that is unknown."""
    if settings.members is not None:
        absent = [names.of(member) for member in settings.members if member not in found]
        return f"missing: {', '.join(absent)}" if absent else ""
    return f"{len(found)} of {settings.voters} are there" if settings.voters else ""


def id_of(name: str) -> str:
    """Return the id of the endpoint of this name: 16 hex digits."""
    return blake2s(name.encode(), digest_size=8).hexdigest()
