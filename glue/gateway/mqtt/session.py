"""A session: what a broker remembers of a client, whether it is connected or not (3.1.1, section 3.1.2.4).

Messages of QoS 1 and 2 wait in a bounded queue, get packet ids when the client has room for them, and are in flight
until the client has acknowledged them. After a reconnect those in flight are sent again, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from glue.gateway.mqtt.packets import Publish, Will

if TYPE_CHECKING:
    from glue.gateway.mqtt.client import Client
    from glue.gateway.mqtt.subscriptions import Subscription

LAST_ID = 65_535


class Parcel:
    """A run of messages for one client: with its QoS, retain flag, and the identifiers of the subscriptions."""

    __slots__ = ("identifiers", "qos", "retain", "run")

    def __init__(self, run: Publish, qos: int, retain: bool = False, identifiers: Sequence[int] = ()) -> None:
        self.run = run
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers

    def part(self, start: int, stop: int) -> Parcel:
        """The messages from `start` to before `stop`."""
        return Parcel(self.run.part(start, stop), self.qos, self.retain, self.identifiers)


class Session:
    """The state of one client id."""

    __slots__ = (
        "client", "client_id", "dropped", "expires_at", "expiry", "inflight", "next_id", "queue", "queue_bytes",
        "queue_messages", "queued", "queued_bytes", "received", "released", "subscriptions", "will", "will_at",
    )  # fmt: skip

    def __init__(self, client_id: str, queue_messages: int, queue_bytes: int) -> None:
        """`queue_messages` and `queue_bytes` bound what waits."""
        self.client_id = client_id
        self.client: Client | None = None
        self.expiry = 0.0  # seconds that it outlives its connection
        self.expires_at = float("inf")
        self.subscriptions: dict[str, Subscription] = {}
        self.will: Will | None = None
        self.will_at = float("inf")
        self.next_id = 1
        self.inflight: dict[int, tuple[Parcel, int]] = {}  # packet id → parcel and the message's place in its run
        self.released: dict[int, None] = {}  # QoS 2: PUBREL was sent, PUBCOMP is awaited
        self.received: set[int] = set()  # QoS 2: PUBLISH has come, PUBREL is awaited
        self.queue: deque[Parcel] = deque()
        self.queued = self.queued_bytes = 0
        self.queue_messages = queue_messages
        self.queue_bytes = queue_bytes
        self.dropped = 0

    def put(self, parcel: Parcel) -> int:
        """Let messages wait; returns how many of them found no room, the newest ones."""
        room = self.queue_messages - self.queued
        if self.queued_bytes + parcel.run.size > self.queue_bytes:
            room = min(room, _fitting(parcel.run, self.queue_bytes - self.queued_bytes))
        count = parcel.run.count
        if room < count:
            self.dropped += count - max(room, 0)
            if room <= 0:
                return count
            parcel = parcel.part(0, room)
        self.queue.append(parcel)
        self.queued += parcel.run.count
        self.queued_bytes += parcel.run.size
        return count - parcel.run.count

    def take(self, now: float, room: int) -> Iterator[tuple[Parcel, Sequence[int]]]:
        """Give packet ids to at most `room` messages that wait; yields runs with their ids, to be sent."""
        while self.queue and room > 0:
            parcel = self.queue.popleft()
            self.queued -= parcel.run.count
            self.queued_bytes -= parcel.run.size
            if parcel.run.expires <= now:
                continue
            if parcel.run.count > room:
                rest = parcel.part(room, parcel.run.count)
                parcel = parcel.part(0, room)
                self.queue.appendleft(rest)
                self.queued += rest.run.count
                self.queued_bytes += rest.run.size
            room -= parcel.run.count
            yield parcel, self.number(parcel)

    def number(self, parcel: Parcel) -> Sequence[int]:
        """Give packet ids to the messages of a run, which are then in flight."""
        ids = self._free_ids(parcel.run.count)
        self.inflight.update(zip(ids, zip(repeat(parcel), range(len(ids)), strict=False), strict=True))
        return ids

    def _free_ids(self, count: int) -> Sequence[int]:
        first = self.next_id if self.next_id + count - 1 <= LAST_ID else 1
        ids = range(first, first + count)
        if self.inflight.keys().isdisjoint(ids) and self.released.keys().isdisjoint(ids):
            self.next_id = first + count if first + count <= LAST_ID else 1
            return ids
        found: list[int] = []
        number = self.next_id
        while len(found) < count:
            if number not in self.inflight and number not in self.released:
                found.append(number)
            number = number + 1 if number < LAST_ID else 1
        self.next_id = number
        return found

    @property
    def under_way(self) -> int:
        """Messages that the client has not acknowledged to the end."""
        return len(self.inflight) + len(self.released)

    def acknowledge(self, ids: Iterable[int]) -> int:
        """Forget messages of QoS 1 that the client has; returns how many ids were not known."""
        unknown = 0
        pop = self.inflight.pop
        for number in ids:
            unknown += pop(number, None) is None
        return unknown

    def again(self) -> Iterator[tuple[int, Parcel]]:
        """The messages in flight, one at a time with its packet id, to be sent again after a reconnect."""
        for number, (parcel, place) in self.inflight.items():
            yield number, parcel.part(place, place + 1)


def _fitting(run: Publish, room: int) -> int:
    """How many messages of a run fit into so many bytes."""
    count = 0
    for payload in run.payloads:
        room -= len(payload)
        if room < 0:
            break
        count += 1
    return count
