"""The rules of the group for HTTP clients, above what their tokens allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glue.gateway.http.tokens import MODEL, Rights
from glue.gateway.rights import Rights as GroupRules

if TYPE_CHECKING:
    from glue.security.rules import Decision

ON_KEYS: Final = {"publish": "write", "subscribe": "read"}
"""What the rules call it where a topic stands for keys of a model."""


@dataclass(frozen=True, slots=True)
class GroupRights(Rights):
    """Rights that both the client's token and the rules of the group give; a client is http/NAME there.

    Keys of a model are read and written, as the rules call it.
    """

    rules: GroupRules | None = None

    def may_publish(self, topic: str) -> bool:
        """Whether the client may publish to a topic, or ask its responders."""
        return Rights.may_publish(self, topic) and self._decide("publish", topic).allowed

    def may_subscribe(self, pattern: str) -> bool:
        """Whether the client may read all topics of a pattern."""
        return Rights.may_subscribe(self, pattern) and self._decide("subscribe", pattern).allowed

    def refused_by(self, action: str, pattern: str) -> str:
        """The patterns of the token, or the rule of the group."""
        if not (Rights.may_publish(self, pattern) if action == "publish" else Rights.may_subscribe(self, pattern)):
            return Rights.refused_by(self, action, pattern)
        return self._decide(action, pattern).rule

    def _decide(self, action: str, topic: str) -> Decision:
        assert self.rules is not None
        if topic.startswith(MODEL):
            action, topic = ON_KEYS[action], topic.removeprefix(MODEL)
        return self.rules.decide(self.rules.visitor(self.name), action, topic)


def within_group(rights: Rights, rules: GroupRules | None) -> Rights:
    """Return rights of a client as far as the rules of the group, if there are any, allow them."""
    if rules is None:
        return rights
    return GroupRights(rights.name, rights.publish, rights.subscribe, rights.admin, rules)
