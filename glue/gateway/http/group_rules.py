"""The rules of the group for HTTP clients, above what their tokens allow."""

from __future__ import annotations

from dataclasses import dataclass

from glue.gateway.http.tokens import MODEL, Rights
from glue.gateway.rights import Rights as GroupRules


@dataclass(frozen=True, slots=True)
class GroupRights(Rights):
    """Rights that both the client's token and the rules of the group give; a client is http/NAME there.

    Keys of a model are read and written, as the rules call it.
    """

    rules: GroupRules | None = None

    def may_publish(self, topic: str) -> bool:
        """Whether the client may publish to a topic, or ask its responders."""
        return Rights.may_publish(self, topic) and self._is_allowed("publish", "write", topic)

    def may_subscribe(self, pattern: str) -> bool:
        """Whether the client may read all topics of a pattern."""
        return Rights.may_subscribe(self, pattern) and self._is_allowed("subscribe", "read", pattern)

    def _is_allowed(self, action: str, action_on_keys: str, topic: str) -> bool:
        if self.rules is None:
            return True
        if topic.startswith(MODEL):
            action, topic = action_on_keys, topic.removeprefix(MODEL)
        return self.rules.decide(self.rules.visitor(self.name), action, topic).allowed


def within_group(rights: Rights, rules: GroupRules | None) -> Rights:
    """Return rights of a client as far as the rules of the group, if there are any, allow them."""
    if rules is None:
        return rights
    return GroupRights(rights.name, rights.publish, rights.subscribe, rights.admin, rules)
