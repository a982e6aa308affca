"""The identities of clients and their rights: rules by topic filter.

A rule allows reading or writing the topics of one filter, in which `%c` stands for the client id and `%u` for the user
name. What no rule allows is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glue.contract.matching import covers
from glue.gateway.mqtt.codes import NOT_AUTHORIZED

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows `action` ("read", "write" or "readwrite") on the topics that match `topic_filter`."""

    action: str
    topic_filter: str
    line: int = field(default=0, compare=False)
    """Where it is in its file."""

    def allows(self, action: str, name: str, client_id: str, user: str) -> bool:
        """Whether the rule allows this for a topic or a topic filter."""
        if action not in self.action:
            return False
        if "%" in self.topic_filter and any(sign in client_id + user for sign in "+#/"):
            return False  # a name that would widen the filter
        return covers(self.filter_for(client_id, user), name)

    def filter_for(self, client_id: str, user: str) -> str:
        """The filter with the names of a client."""
        return self.topic_filter.replace("%c", client_id).replace("%u", user)


@dataclass(frozen=True, slots=True)
class Identity:
    """An admitted client: the user name or certificate name ("" if anonymous), and the rules for this client."""

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

    @property
    def host(self) -> str:
        """The address without the port, which is another one for each connection."""
        return self.address.rpartition(":")[0] or self.address
