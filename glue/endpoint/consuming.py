"""The memberships of an endpoint in durable consumers, shared by threads, asyncio and the simulator.

`glue.consumers.Membership` decides; here it gets time, a lock, and the endpoint's topics. Messages of homes come from
the receiving thread, timers from within a turn, and acknowledgements from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from math import inf
from threading import RLock
from typing import Any

from glue.consumers.membership import Membership, Message, Taken
from glue.consumers.wire import consumer_of, parse
from glue.contract import Alarm, CodedDelivery, Delivery, Event, Publication
from glue.contract.heads import MalformedError
from glue.endpoint.consumer_room import ConsumerRoom
from glue.endpoint.core import EndpointCore
from glue.endpoint.fork import heirs
from glue.endpoint.owner import OwnerFunctions
from glue.endpoint.receivers import AlarmReceiver
from glue.model import StackRequest
from glue.topics.deliveries import deliveries

PERIOD = 0.01
"""Seconds between two acknowledgements to a home at least, unless a share is over."""

Order = Callable[[StackRequest], Any]
"""Passes a request to the stack, from any thread; drops it if the endpoint is closed."""


class Consuming(AlarmReceiver):
    """The memberships of one life of an endpoint. Its methods may be called from any thread."""

    def __init__(self, core: EndpointCore, owner: OwnerFunctions, order: Order, counts: bool) -> None:
        """`counts`: this receiver tells when a delivery is handled."""
        super().__init__()
        self._core = core
        self._owner = owner
        self._order = order
        self._counts = counts
        self._rooms: dict[ConsumerRoom, None] = {}
        self._numbers = count(1)
        self._answers: dict[
            int, tuple[frozenset[str], Callable[[str, dict[str, Any]], None]]
        ] = {}  # with who was asked
        self._told_at = -inf
        self._due = inf
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        self.lock = RLock()

    # ------------------------------------------------------------------------------------------ membership

    def room(self, name: str, pattern: str, start: Sequence[Any], ordered: bool, by_hand: bool) -> ConsumerRoom:
        """The queue of a new member, which looks for its home soon."""
        identity = self._core.identity
        me = identity.endpoint_id, identity.incarnation
        membership = Membership(name, pattern, me, self._numbers.__next__, start, ordered, lambda: room.void())
        room = ConsumerRoom(membership, self, self._owner, by_hand)
        with self.lock:
            self._rooms[room] = None
            self._look_at(self._now())
        return room

    def ended(self, room: ConsumerRoom) -> None:
        """A subscription was closed."""
        with self.lock:
            if self._rooms.pop(room, room) is None:
                self._publish(room.membership.leave())

    def leave_all(self) -> None:
        """The endpoint closes: others get what is not done."""
        with self.lock:
            for room in [*self._rooms]:
                self.ended(room)

    def finished(self, room: ConsumerRoom, taken: Taken, place: int, is_done: bool) -> None:
        """The program is done with a message, or failed to handle it."""
        now = self._now()
        with self.lock:
            membership = room.membership
            membership.finished(taken.member, taken.number, place, is_done)
            if membership.is_over(taken.number) or not is_done or now - self._told_at >= PERIOD:
                self._told_at = now
                self._publish(membership.flush())

    # ---------------------------------------------------------------------------------------------- timers

    def _now(self) -> float:
        return self._core.requests.clock()

    def _look_at(self, due: float) -> None:
        """Have `rung` called at that time, at the latest."""
        if due < self._due:
            self._due = due
            self._order(Alarm(self, due))

    def rung(self, now: float) -> Sequence[Publication]:
        """Do what is due; returns what to publish."""
        with self.lock:
            self._due = inf
            found: list[Message] = []
            for room in self._rooms:
                membership = room.membership
                found += membership.advance(now, self.keepers(membership.pattern))
            if self._rooms:
                self._look_at(min(room.membership.deadline for room in self._rooms))
        return [self._publication(*one) for one in found]

    def keepers(self, pattern: str) -> list[str]:
        """Ids of the keepers with a disk that keep all of a pattern."""
        return self._core.durability.covering(pattern)

    def _publication(self, topic: str, payload: bytes) -> Publication:
        return Publication(topic, [payload], self._core.requests.unix_time(), False, len(payload))

    def _publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._order(self._publication(*message))

    # ------------------------------------------------------------------------------------- what homes tell

    def _deliver(self, event: Event) -> None:
        if not isinstance(event, Delivery):
            return
        poked: dict[ConsumerRoom, None] = {}
        with self.lock:
            for payload in event.payloads:
                try:
                    self._told(event.publisher_id, payload, poked)
                except MalformedError:
                    self._core.statistics["malformed messages from the home of a consumer"] += 1
            if self._rooms:
                self._look_at(min(room.membership.deadline for room in self._rooms))
        self._owner.settled("handled", len(event.payloads))
        if self._counts:
            self._owner.handled(event)
        for room in poked:
            room.poke()

    def _told(self, keeper: str, payload: Any, poked: dict[ConsumerRoom, None]) -> None:
        head, groups = parse(payload)
        id = head.get("id", 0)
        asked, answer = self._answers.get(id if id.__class__ is int else 0, (frozenset(), None))
        if answer is not None:
            if keeper not in asked:
                raise MalformedError("not asked")
            answer(keeper, head)
            return
        name, pattern = consumer_of(head)
        now = self._now()
        for room in [*self._rooms]:
            membership = room.membership
            if (membership.name, membership.pattern) != (name, pattern):
                continue
            for taken in membership.told(now, keeper, head, groups):
                opened = self._opened(taken)
                self._core.arrived(len(taken.group.payloads))
                room.push(taken, opened)
                poked[room] = None

    def _opened(self, taken: Taken) -> list[Delivery]:
        """The messages of a share, decoded."""
        statistics = self._core.statistics
        name, id = taken.publisher, taken.publisher_id
        found: list[Delivery] = []
        for delivery in deliveries(statistics, taken.group, name, id, taken.life, (self,), inf):
            if delivery.__class__ is CodedDelivery:
                found += [one for one in self._core.decoder.opened(delivery) if isinstance(one, Delivery)]
            else:
                found.append(delivery)
        return found

    # ---------------------------------------------------------------------------------------------- people

    def ask(self, keepers: Sequence[str], message: Callable[[str, int], Message], take: Callable[..., None]) -> int:
        """Ask keepers something; `take` is called with each keeper and its answer until `asked` with the number."""
        with self.lock:
            number = next(self._numbers)
            self._answers[number] = frozenset(keepers), take
            self._publish([message(keeper, number) for keeper in keepers])
        return number

    def asked(self, number: int) -> None:
        """Wait for no more answers."""
        with self.lock:
            self._answers.pop(number, None)
