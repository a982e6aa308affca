"""The decision who may connect, and who may publish and subscribe to what: the interface, and one that allows all."""

from __future__ import annotations

from typing import Protocol

from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.subscriptions import shared_parts


class Access(Protocol):
    """Decides about clients. Both methods are called by the broker and must not wait."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Return who this is, or a refusal; None if that takes time, and the shell finds out with `check`."""

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """Return who this is; may take time, and is called in a thread of its own."""

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Whether a client may "read" a topic filter or "write" a topic."""

    def changed(self) -> bool:
        """Whether decisions may be others than before; called every few seconds. May read files, for a moment."""

    def knows(self, identity: Identity) -> bool:
        """Whether a client with this identity may stay connected; asked after a change."""


class Everybody:
    """Lets everybody in, and allows everything."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """The name that the client gives is taken as it is."""
        return self.check(connect, remote)

    def check(self, connect: Connect, remote: Remote) -> Identity:
        """As `authenticate`, which knows at once."""
        return Identity(remote.certificate or connect.username or "")

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Everything is allowed, unless the identity has rules."""
        return allowed(identity, client_id, action, name)

    def changed(self) -> bool:
        """Nothing changes."""
        return False

    def knows(self, identity: Identity) -> bool:
        """Everybody may stay."""
        return True


def allowed(identity: Identity, client_id: str, action: str, name: str) -> bool:
    """Whether the rules of an identity allow an action on a topic or a topic filter."""
    if identity.rules is None:
        return True
    _, name = shared_parts(name)
    return any(rule.allows(action, name, client_id, identity.user) for rule in identity.rules)
