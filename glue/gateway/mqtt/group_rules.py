"""The rules of the group for MQTT clients, above what the door's own files or plug-ins allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glue.gateway.mqtt.access import Access
from glue.gateway.mqtt.identity import READ, Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.subscriptions import shared_parts
from glue.gateway.rights import Rights

if TYPE_CHECKING:
    from glue.security.rules import Decision

SYSTEM = "$SYS/"
"""The topics of the broker itself, which the group has no rules about."""


class GroupAccess:
    """Allows what both the door's access and the rules of the group allow; a user is mqtt/USER there."""

    def __init__(self, rights: Rights, door: Access) -> None:
        self._rights = rights
        self._door = door

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """As the access of the door says."""
        return self._door.authenticate(connect, remote)

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """As the access of the door says."""
        return self._door.check(connect, remote)

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Whether the door and the group allow it."""
        if not self._door.authorize(identity, client_id, action, name):
            return False
        return name.startswith(SYSTEM) or self._decide(identity, action, name).allowed

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        """The rule of the door, or of the group."""
        if not self._door.authorize(identity, client_id, action, name):
            return self._door.refused_by(identity, client_id, action, name)
        return self._decide(identity, action, name).rule

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        """As the access of the door says: the rules of the group only allow."""
        return self._door.narrows(identity, client_id, name)

    def _decide(self, identity: Identity, action: str, name: str) -> Decision:
        asked = "subscribe" if action == READ else "publish"
        return self._rights.decide(self._rights.visitor(identity.user), asked, shared_parts(name)[1])

    def changed(self) -> bool:
        """Whether one of both has changed."""
        are_files, are_rules = self._door.changed(), self._rights.changed()
        return are_files or are_rules

    def knows(self, identity: Identity) -> bool:
        """As the access of the door says."""
        return self._door.knows(identity)
