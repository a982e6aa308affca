"""The model layer: shared state beside topics. What concerns no model passes through unchanged.

Each model that was opened is a `Group`; the groups' messages travel on topics of their own under `$glue/model`,
where everything to all replicas is one topic, so one multicast, and everything to one of them another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from random import Random
from typing import TYPE_CHECKING

from glue.contract import Delivery, Event, Missed, PeerAdded, PeerInterest, Publication, Request
from glue.errors import ModelError
from glue.model.names import Names
from glue.model.questions import Refused
from glue.model.requests import PREFIX, Answer, Ask, CloseModel, Happening, OpenModel, Wish

if TYPE_CHECKING:
    from glue.model.group import Group
    from glue.model.mergeable import Prefixes

MODELS = 64
"""Models at one endpoint; each costs a few heartbeats a second."""


class Replicated:
    """A `Layer[Event, Happening, Wish, Request]` with models."""

    unfinished = 0

    def __init__(self, *, endpoint_id: str, incarnation: int, network_id: int, random: Random) -> None:
        self._endpoint_id = endpoint_id
        self._incarnation = incarnation
        self._network_id = network_id
        self._luck = random
        self._counts: Counter[str] = Counter()
        self.groups: dict[str, Group] = {}
        self.names = Names()
        self.was_used = False
        self._up: list[Happening] = []  # answers that are known already, for the next `receive`

    def fit(self, size: int) -> int:
        """Messages may have any size."""
        return size

    @property
    def deadline(self) -> float:
        """The earliest of all groups'."""
        if self._up:
            return -inf
        if not self.groups:
            return inf
        return min(group.deadline for group in self.groups.values())

    @property
    def backlog(self) -> int:
        """Of all groups."""
        return sum(group.backlog for group in self.groups.values()) if self.groups else 0

    def commit(self) -> None:
        """Nothing is deferred."""

    @property
    def statistics(self) -> Counter[str]:
        """What this layer and its replicas have counted."""
        counts = self._counts.copy()
        for group in self.groups.values():
            counts += group.statistics
            counts += group.replica.statistics
        return counts

    # ------------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[Wish]) -> list[Request]:
        """Take what is for models; everything else goes on down, in its place."""
        down: list[Request] = []
        asked: dict[str, Group] = {}
        for item in items:
            if item.__class__ is Publication:
                down.append(item)
            elif isinstance(item, Ask):
                self._ask(now, item, asked)
            elif isinstance(item, OpenModel):
                down += self._open(now, item)
            elif isinstance(item, CloseModel):
                group = self.groups.pop(item.name, None)
                if group is not None:
                    up, requests = group.close()
                    self._up += up
                    down += requests
            else:
                down.append(item)
        for group in asked.values():
            self._turn(now, group, [], down)
        return down

    def _ask(self, now: float, item: Ask, asked: dict[str, Group]) -> None:
        group = self.groups.get(item.name)
        if group is None:
            self.was_used = True
            self._up.append(Answer(item.token, Refused(f"no model {item.name!r} is open here")))
            return
        self._up += group.ask(now, item)
        asked[item.name] = group

    def _open(self, now: float, item: OpenModel) -> list[Request]:
        """Raises ModelError for a name that is not free."""
        from glue.model.group import Group  # consensus is loaded by those who use it
        from glue.model.state import check_name

        check_name(item.name)
        if item.name in self.groups or len(self.groups) >= MODELS:
            raise ModelError(f"model {item.name!r} is open here already, or {MODELS} others are")
        luck = Random(self._luck.getrandbits(64))
        self.names.learn_all(item.options.names)
        scope = self.scope(item.name, item.options.mergeable)
        group = Group(item, scope, self._endpoint_id, self._incarnation, luck, now, self.names)
        self.groups[item.name] = group
        self.was_used = True
        return group.open()

    def scope(self, name: str, mergeable: Prefixes) -> str:
        """What is one group at most: the network, the model's name, and its mergeable prefixes if there are any.

        So replicas that do not agree on which keys are mergeable share no log, and no such key gets into one.
        """
        return f"{self._network_id}/{name}{'+' + mergeable.mark if mergeable else ''}"

    # --------------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Event]) -> tuple[list[Happening], list[Request]]:
        """Take what is for models; everything else goes on up, in its place."""
        if not self.was_used:
            return [*items], []
        up: list[Happening] = []
        down: list[Request] = []
        for_groups: dict[str, list[Delivery]] = {}
        for item in items:
            if isinstance(item, Delivery) and item.topic.startswith(PREFIX):
                if item.publisher_id != self._endpoint_id:  # what it said itself it knows
                    name = item.topic[len(PREFIX) + 1 :].partition("/")[0]
                    for_groups.setdefault(name, []).append(item)
            elif isinstance(item, Missed) and item.topic.startswith(PREFIX):
                self._counts["messages missed"] += item.count  # consensus asks again for what it needs
                self._meet(now)
            else:
                if isinstance(item, PeerAdded | PeerInterest):
                    self._meet(now)
                if isinstance(item, PeerAdded):
                    self.names.learn(item.peer, item.name)
                up.append(item)
        for name, group in list(self.groups.items()):
            deliveries = for_groups.get(name, ())
            if deliveries or group.deadline <= now:
                self._turn(now, group, deliveries, down)
        up += self._up
        self._up = []
        return up, down

    def _meet(self, now: float) -> None:
        for group in self.groups.values():
            if group.mergeable is not None:
                group.mergeable.meet(now)

    def _turn(self, now: float, group: Group, deliveries: Sequence[Delivery], down: list[Request]) -> None:
        up, requests = group.receive(now, deliveries)
        self._up += up
        down += requests
