"""Who may connect, and who may publish and subscribe to what: the interface, and the rules by topic filter.

A rule allows reading or writing the topics of one filter, in which `%c` stands for the client id and `%u` for the user
name. What no rule allows is refused. Plug-ins give other answers through the same two methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glue.gateway.mqtt.codes import NOT_AUTHORIZED
from glue.gateway.mqtt.packets import Connect
from glue.gateway.mqtt.subscriptions import shared_parts

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows `action` ("read", "write" or "readwrite") on the topics that match `topic_filter`."""

    action: str
    topic_filter: str

    def allows(self, action: str, name: str, client_id: str, user: str) -> bool:
        """Whether the rule allows this for a topic or a topic filter."""
        if action not in self.action:
            return False
        own = self.topic_filter
        if "%" in own:
            if any(sign in client_id + user for sign in "+#/"):
                return False  # a name that would widen the filter
            own = own.replace("%c", client_id).replace("%u", user)
        return covers(own, name)


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that was let in: the user name or certificate name, "" for an anonymous one; and what it may."""

    user: str = ""
    rules: tuple[Rule, ...] | None = None
    """None allows everything."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a client is not let in: a reason code of MQTT 5, and words for the log and for clients of MQTT 5."""

    code: int = NOT_AUTHORIZED
    reason: str = "not authorized"


@dataclass(slots=True)
class Remote:
    """The other end of a connection: its address for people, the name in its TLS certificate ("" without one)."""

    address: str
    certificate: str = ""
    is_local: bool = False
    """Whether it is on this machine."""


class Access(Protocol):
    """Decides about clients. Both methods are called by the broker and must not wait."""

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        """Return who this is, or a refusal; None if that takes time, and the shell finds out with `check`."""

    def check(self, connect: Connect, remote: Remote) -> Identity | Refusal:
        """Return who this is; may take time, and is called in a thread of its own."""

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
        """Whether a client may "read" a topic filter or "write" a topic."""


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


def allowed(identity: Identity, client_id: str, action: str, name: str) -> bool:
    """Whether the rules of an identity allow an action on a topic or a topic filter."""
    if identity.rules is None:
        return True
    _, name = shared_parts(name)
    return any(rule.allows(action, name, client_id, identity.user) for rule in identity.rules)


def covers(own: str, other: str) -> bool:
    """Whether each topic that the filter (or topic) `other` matches is matched by the filter `own`."""
    mine, theirs = own.split("/"), other.split("/")
    if mine[0] in ("+", "#") and theirs[0].startswith("$"):
        return False
    return _covers(mine, theirs)


def _covers(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    for place, level in enumerate(mine):
        if level == "#":
            return True
        if place >= len(theirs):
            return False
        if theirs[place] == "#" or (level != "+" and level != theirs[place]):
            return False
    return len(mine) == len(theirs)
