"""Rights of a door's clients by the rules of the group: the one interface from an identity to its rules.

A door authenticates clients in its own way: a password, a token, a TLS certificate. The rules of the group know the
client as DOOR/USER, such as mqtt/anna; an anonymous one is "mqtt/". A door may also give a client its own rules. The
rules of the group overrule these, as for the certificate of a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from glue.security.rules import Decision, Rule


class Visitor(NamedTuple):
    """A client of a door, as a subject of rules."""

    name: str
    rules: Sequence[Rule] = ()


class Rights:
    """The rights of the clients of a door. The door itself needs each right, too."""

    def __init__(self, door: str, guard: Any) -> None:
        """`door` is the kind of the door, `guard` that of its endpoint; None, without identities, allows everything."""
        self._door = door
        self._guard = guard
        self._changes = self.revision

    def visitor(self, user: str, rules: Sequence[Rule] = ()) -> Visitor:
        """Return a client by its name at this door."""
        return Visitor(f"{self._door}/{user}", rules)

    def decide(self, visitor: Visitor, action: str, topic: str) -> Decision:
        """Whether a client may do something with a topic or, to subscribe, a pattern; and by which rule."""
        from glue.security.rules import Decision  # imported here: most doors belong to a group without rules

        if self._guard is None:
            return Decision(True, "there are no rules")
        own: Decision = self._guard.decide_own(action, topic)
        if not own.allowed:
            return own
        decision: Decision = self._guard.decide(visitor, action, topic)
        return decision

    @property
    def revision(self) -> int:
        """Counts the changes of the rules."""
        return 0 if self._guard is None else self._guard.changes

    def changed(self) -> bool:
        """Whether the rules are others than at the last call."""
        before, self._changes = self._changes, self.revision
        return before != self._changes
