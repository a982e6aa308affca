"""Interests that ask for something else than every message: limited rates, and shares of a group's work."""

from __future__ import annotations

from glue.topics.index import Index
from glue.topics.limits import Limits
from glue.topics.shared.sharing import Sharing
from glue.topics.wrapped import LIMITED, SHARED, limited


class Asking:
    """Passes wrapped interests of this endpoint and its peers on to what serves them."""

    __slots__ = ("limits", "sharing")

    def __init__(self, limits: Limits, sharing: Sharing) -> None:
        self.limits = limits
        self.sharing = sharing

    def add(self, endpoint_id: str, interest: str) -> None:
        """Take a new interest of an endpoint, if it is wrapped."""
        if interest.startswith(LIMITED):
            self.limits.add(interest)
        elif interest.startswith(SHARED):
            self.sharing.add(endpoint_id, interest)

    def remove(self, interest: str) -> None:
        """Drop an interest of an endpoint, if it is wrapped."""
        if interest.startswith(LIMITED):
            self.limits.remove(interest)
        elif interest.startswith(SHARED):
            self.sharing.remove(interest)

    def wants(self, topic: str) -> bool:
        """Whether a message on this topic also goes another way than to plain subscribers."""
        return bool((self.limits and self.limits.intervals(topic)) or (self.sharing and self.sharing.wants(topic)))

    def subscribers(self, topic: str, index: Index[str]) -> set[str]:
        """Ids of the endpoints that get messages on this topic another way; `index` has the interests of the peers."""
        found = set(self.sharing.members(topic))
        for interval in self.limits.intervals(topic):
            found.update(index.match(limited(interval, topic)))
        return found
