"""The model layer: shared state beside topics. Items that concern no model pass through unchanged.

Each open model is a `ModelGroup`. Its messages travel on topics under `$glue/model`: a topic for all replicas, by
multicast, and a topic for each replica.
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
from glue.model.requests import PREFIX, Answer, Ask, CloseModel, OpenModel, StackEvent, StackRequest

if TYPE_CHECKING:
    from glue.model.group import ModelGroup
    from glue.model.mergeable import Prefixes
    from glue.model.rights import Rights

MODELS = 64
"""Models at one endpoint; each costs a few heartbeats a second."""


class Replicated:
    """A `Layer[Event, StackEvent, StackRequest, Request]` with models."""

    unfinished = 0

    def __init__(self, *, endpoint_id: str, incarnation: int, network_id: int, random: Random) -> None:
        self._endpoint_id = endpoint_id
        self._incarnation = incarnation
        self._network_id = network_id
        self._rng = random
        self._counters: Counter[str] = Counter()
        self.groups: dict[str, ModelGroup] = {}
        self.names = Names()
        self.was_used = False
        self.rights: Rights | None = None  # set where members have identities
        self._up: list[StackEvent] = []  # known answers, for the next `receive`

    def fit(self, size: int) -> int:
        """Return `size`: messages may have any size."""
        return size

    @property
    def deadline(self) -> float:
        """The earliest deadline of all groups."""
        if self._up:
            return -inf
        if not self.groups:
            return inf
        return min(group.deadline for group in self.groups.values())

    @property
    def backlog(self) -> int:
        """Estimated bytes of the calls that wait in all groups."""
        return sum(group.backlog for group in self.groups.values()) if self.groups else 0

    @property
    def statistics(self) -> Counter[str]:
        """The counters of this layer, its groups and their replicas."""
        counters = self._counters.copy()
        for group in self.groups.values():
            counters += group.statistics
            counters += group.replica.statistics
        return counters

    # ------------------------------------------------------------------------------------------------- down

    def send(self, now: float, items: list[StackRequest]) -> list[Request]:
        """Take what concerns models, and pass on the rest in its order."""
        down: list[Request] = []
        asked: dict[str, ModelGroup] = {}
        for item in items:
            if item.__class__ is Publication:
                down.append(item)
            elif isinstance(item, Ask):
                self._ask(now, item, asked)
            elif isinstance(item, OpenModel):
                down += self._open(now, item)
            elif isinstance(item, CloseModel):
                group = self.groups.pop(item.name, None)
                asked.pop(item.name, None)
                if group is not None:
                    up, requests = group.close()
                    self._counters += group.statistics + group.replica.statistics
                    self._up += up
                    down += requests
            else:
                down.append(item)
        for group in asked.values():
            self._turn(now, group, [], down)
        return down

    def _ask(self, now: float, item: Ask, asked: dict[str, ModelGroup]) -> None:
        from glue.model.questions import Refused  # imported only where a model is used

        group = self.groups.get(item.name)
        if group is None:
            self.was_used = True
            self._up.append(Answer(item.token, Refused(f"no model {item.name!r} is open here")))
            return
        if self.rights is not None and (reason := self._refusal(self.rights, group, item)):
            self._up.append(Answer(item.token, Refused(reason, forbidden=True)))
            return
        self._up += group.ask(now, item)
        asked[item.name] = group

    @staticmethod
    def _refusal(rights: Rights, group: ModelGroup, item: Ask) -> str:
        """Return why the rules do not let this endpoint ask this; "" if they do."""
        from glue.model.rights import refusal

        prefixes = None if group.mergeable is None else group.mergeable.store.prefixes
        return refusal(rights, group.name, prefixes, item.question)

    def _open(self, now: float, item: OpenModel) -> list[Request]:
        """Open a model. Raises ModelError if the name is in use here, or too many models are open."""
        from glue.model.group import ModelGroup  # imports consensus only where a model is used
        from glue.model.state import check_name

        check_name(item.name)
        if item.name in self.groups or len(self.groups) >= MODELS:
            raise ModelError(f"model {item.name!r} is open here already, or {MODELS} others are")
        rng = Random(self._rng.getrandbits(64))
        self.names.learn_all(item.options.names)
        scope = self.scope(item.name, item.options.mergeable)
        group = ModelGroup(item, scope, self._endpoint_id, self._incarnation, rng, now, self.names)
        self.groups[item.name] = group
        self.was_used = True
        return group.open()

    def scope(self, name: str, mergeable: Prefixes) -> str:
        """Name the group that replicas may form: network, model name, and mergeable prefixes if there are any.

        Replicas with different mergeable prefixes share no log, so no mergeable key enters one.
        """
        return f"{self._network_id}/{name}{'+' + mergeable.mark if mergeable else ''}"

    # --------------------------------------------------------------------------------------------------- up

    def receive(self, now: float, items: list[Event]) -> tuple[list[StackEvent], list[Request]]:
        """Take what concerns models, pass on the rest in its order, and serve the groups that are due."""
        if not self.was_used:
            return [*items], []
        up: list[StackEvent] = []
        down: list[Request] = []
        for_groups: dict[str, list[Delivery]] = {}
        for item in items:
            if isinstance(item, Delivery) and item.topic.startswith(PREFIX):
                if item.publisher_id != self._endpoint_id:  # own messages are known here
                    name = item.topic[len(PREFIX) + 1 :].partition("/")[0]
                    for_groups.setdefault(name, []).append(item)
            elif isinstance(item, Missed) and item.topic.startswith(PREFIX):
                self._counters["messages missed"] += item.count  # consensus asks again for what it needs
                self._meet(now)
            else:
                if isinstance(item, PeerAdded | PeerInterest):
                    self._meet(now)
                if isinstance(item, PeerAdded):
                    self.names.learn(item.peer, item.name)
                up.append(item)
        for name, group in list(self.groups.items()):
            deliveries = for_groups.get(name, ())
            if deliveries and self.rights is not None:
                self._leave_out(self.rights, group, deliveries)
            if deliveries or group.deadline <= now:
                self._turn(now, group, deliveries, down)
        up += self._up
        self._up = []
        return up, down

    def _leave_out(self, rights: Rights, group: ModelGroup, deliveries: Sequence[Delivery]) -> None:
        """Leave out of the deliveries what their senders may not send."""
        from glue.model.rights import permitted

        self._counters["refused: message of a model"] += sum(
            permitted(rights, group, delivery) for delivery in deliveries
        )

    def _meet(self, now: float) -> None:
        for group in self.groups.values():
            if group.mergeable is not None:
                group.mergeable.meet(now)

    def _turn(self, now: float, group: ModelGroup, deliveries: Sequence[Delivery], down: list[Request]) -> None:
        up, requests = group.receive(now, deliveries)
        self._up += up
        down += requests
