"""Access of clients: the interface that decides about connecting, publishing and subscribing, and an open access."""

from __future__ import annotations

from typing import Protocol

from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.subscriptions import shared_parts


class Access(Protocol):
    """Decides about clients. Both methods are called by the broker and must not wait."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Return the client's identity or a refusal; None if the decision takes time, and the shell must `check`."""

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """Return the client's identity or a refusal; called in a thread of its own, so it may take time."""

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Whether a client may "read" a topic filter or "write" a topic."""

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        """Return the rule by which `authorize` has just refused this, in words."""

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        """Whether a client that may read a topic filter may not read some of its topics; then each is asked for."""

    def changed(self) -> bool:
        """Whether decisions may differ from earlier ones; called every few seconds. May read files, for a moment."""

    def knows(self, identity: Identity) -> bool:
        """Whether a client with this identity may stay connected; asked after a change."""


class Everybody:
    """Lets all clients in, and allows everything."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Accept the user name that the client gives, or the name in its certificate."""
        return self.check(connect, remote)

    def check(self, connect: Connect, remote: Remote) -> Identity:
        """Accept the client, as `authenticate` does."""
        return Identity(remote.certificate or connect.username or "")

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Everything is allowed, unless the identity has rules."""
        return allowed(identity, client_id, action, name)

    def refused_by(self, identity: Identity, client_id: str, action: str, name: str) -> str:
        """Only the identity has rules."""
        return "no rule of the user allows it"

    def narrows(self, identity: Identity, client_id: str, name: str) -> bool:
        """Rules of an identity deny nothing."""
        return False

    def changed(self) -> bool:
        """Nothing changes."""
        return False

    def knows(self, identity: Identity) -> bool:
        """All clients may stay."""
        return True


def allowed(identity: Identity, client_id: str, action: str, name: str) -> bool:
    """Whether the rules of an identity allow an action on a topic or a topic filter."""
    if identity.rules is None:
        return True
    _, name = shared_parts(name)
    return any(rule.allows(action, name, client_id, identity.user) for rule in identity.rules)
