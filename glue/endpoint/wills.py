"""Wills: messages to publish when an endpoint is lost without a goodbye. Peers hold them.

The owner announces the interest `$glue/will-of/ID`. Peers that see it subscribe to `$glue/wills/ID`, where the owner
keeps a retained message with all wills. When the owner is lost, its holders rank themselves by a hash. The first
publishes each will after its delay and tells the others on the same topic; each next one would do so a STEP later.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil, inf
from threading import RLock
from typing import Any, Final, Protocol

import orjson

from glue.contract import (
    Alarm,
    Delivery,
    Event,
    ExecuteWill,
    Options,
    PeerAdded,
    PeerInterest,
    PeerRemoved,
    Publication,
    Subscribe,
    Unsubscribe,
)
from glue.contract.frozen import Frozen
from glue.contract.hashing import blake2s
from glue.endpoint.fork import heirs
from glue.endpoint.receivers import AlarmReceiver
from glue.endpoint.reserved import WILL_OF
from glue.endpoint.sealing import require
from glue.errors import ForbiddenError, TopicError
from glue.model import StackRequest
from glue.topics import check_topic

WILLS_OF: Final = "$glue/wills/"
WILLS: Final = 64
"""Wills of one endpoint."""
WILLS_SIZE: Final = 1 << 20
"""Bytes of payload of all wills of one endpoint."""
HELD_SIZE: Final = 64 << 20
"""Bytes of encoded wills held for others, at most."""
DELAY_LIMIT: Final = 10**6
"""Seconds of delay of a will at most: eleven days."""
STEP: Final = 0.3
"""Seconds between two ranks: some round trips, and as far apart as endpoints notice a loss."""
AFTERWARDS: Final = 10.0
"""Seconds after the last will for which a holder listens to the others."""


class Will(Frozen):
    """One will; `delay` in seconds, `number` in the order of the owner's calls."""

    number: int
    topic: str
    payload: bytes
    json: bool
    retain: bool
    delay: float


def encode_wills(wills: Sequence[Will]) -> bytes:
    """All wills of an endpoint as one payload."""
    return orjson.dumps(
        {
            "wills": [
                {
                    "number": will.number, "topic": will.topic,
                    "payload": b2a_base64(will.payload, newline=False).decode(),
                    "json": int(will.json), "retain": int(will.retain), "delay": ceil(will.delay * 1000),
                }
                for will in wills
            ]
        }
    )  # fmt: skip


def decode_wills(payload: Any) -> list[Will]:
    """The wills of a payload. Raises ValueError if it is malformed."""
    entries = orjson.loads(payload)["wills"] if type(payload) is bytes else None
    if type(entries) is not list or len(entries) > WILLS:
        raise ValueError("no wills")
    return [_will(entry) for entry in entries]


def _will(entry: Any) -> Will:
    number, topic, delay = entry["number"], entry["topic"], entry["delay"]
    if type(number) is not int or not 0 < number < 10**15:
        raise ValueError("malformed number")
    if type(delay) is not int or not 0 <= delay <= DELAY_LIMIT * 1000:
        raise ValueError("malformed delay")
    check_topic(topic)
    if topic.startswith("$glue/"):
        raise ValueError("reserved topic")
    payload = a2b_base64(entry["payload"], strict_mode=True)
    return Will(number, topic, payload, entry["json"] == 1, entry["retain"] == 1, delay / 1000)


class Holding(AlarmReceiver):
    """The wills of one life of a peer; receives them, and what other holders tell."""

    def __init__(self, holder: Holder, owner_id: str) -> None:
        super().__init__()
        self.owner_id = owner_id
        self.owner: tuple[str, str, int] | None = None  # once it is lost: name, id and incarnation
        self.wills: dict[int, Will] = {}
        self.incarnation = 0
        self.size = 0
        self.due: dict[int, float] = {}  # by number, once the owner is lost
        self.ends = inf
        self._holder = holder

    def _deliver(self, event: Event) -> None:
        if isinstance(event, Delivery):
            self._holder.take(self, event)

    def rung(self, now: float) -> Sequence[Publication]:
        """Publish what is due."""
        return self._holder.advance(now, self)


class Clocks(Protocol):
    """The clock and the counters for a holder."""

    unix_time: Callable[[], float]
    statistics: Counter[str]


class Holder:
    """Holds the wills of peers for one endpoint, and publishes them."""

    def __init__(
        self,
        endpoint_id: str,
        order: Callable[[StackRequest], None],
        subscribers: Callable[[str], Sequence[str]],
        settle: Callable[[str, int], None],
        clocks: Clocks,
        guard: Any = None,
    ) -> None:
        """`order` passes requests to the stack, `settle` counts messages by their end.

        With a `guard` (that of the core), only wills on topics that this endpoint may publish to are published.
        """
        self._guard = guard
        self.handled: Callable[[Delivery], None] | None = (
            None  # tells that a delivery is handled, if the driver does not
        )
        self._endpoint_id = endpoint_id
        self._order = order
        self._subscribers = subscribers
        self._settle = settle
        self._clocks = clocks
        self._holdings: dict[str, Holding] = {}
        self._size = 0
        self._after_fork()
        heirs.add(self)

    def _after_fork(self) -> None:
        """Make the lock, for losses come from turns and wills where handlers run."""
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._holdings)

    # ------------------------------------------------------------------------------------- within a turn

    def note(self, now: float, event: Event) -> Sequence[Delivery]:
        """Take news of peers."""
        with self._lock:
            if isinstance(event, PeerInterest):
                interest = WILL_OF + event.peer
                if interest in event.removed:
                    self._end(event.peer)
                if interest in event.added:
                    self._begin(event.peer)
            elif isinstance(event, PeerAdded):
                self._end(event.peer)  # it is back: its interest follows
            elif isinstance(event, PeerRemoved):
                self._lose(now, event)
        return ()

    def _begin(self, peer: str) -> None:
        if peer not in self._holdings:
            self._holdings[peer] = Holding(self, peer)
            self._order(Subscribe(self._holdings[peer], WILLS_OF + peer))

    def _end(self, peer: str) -> None:
        holding = self._holdings.pop(peer, None)
        if holding is not None:
            self._size -= holding.size
            self._order(Alarm(holding, inf))
            self._order(Unsubscribe(holding))

    def _lose(self, now: float, event: PeerRemoved) -> None:
        """A peer is gone: plan its wills, unless it said goodbye or is back already."""
        holding = self._holdings.get(event.peer)
        if holding is None or holding.owner is not None:
            return
        if event.reason in ("goodbye", "restarted") or holding.incarnation != event.incarnation:
            self._end(event.peer)
            return
        holding.owner = event.name, event.peer, event.incarnation
        wait = STEP * self._rank(holding.owner)
        holding.due = {number: now + will.delay + wait for number, will in holding.wills.items()}
        holding.ends = max(holding.due.values(), default=now) + AFTERWARDS
        self._arm(holding)

    def _rank(self, owner: tuple[str, str, int]) -> int:
        """How many holders go before this one."""
        holders = {self._endpoint_id, *self._subscribers(WILLS_OF + owner[1])} - {owner[1]}

        def place(holder: str) -> bytes:
            return blake2s(f"{holder}/{owner[2]}".encode(), digest_size=8).digest()

        return sorted(holders, key=place).index(self._endpoint_id)

    def _arm(self, holding: Holding) -> None:
        self._order(Alarm(holding, min(holding.due.values(), default=holding.ends)))

    def advance(self, now: float, holding: Holding) -> Sequence[Publication]:
        """Publish the wills that are due, and tell the other holders."""
        with self._lock:
            if self._holdings.get(holding.owner_id) is not holding or holding.owner is None:
                return ()
            done = [number for number, due in holding.due.items() if due <= now]
            for number in done[:]:
                del holding.due[number]
                will = holding.wills[number]
                if not self._may_publish(will.topic):  # another holder may, and does
                    done.remove(number)
                    continue
                self._order(
                    ExecuteWill(
                        will.topic,
                        will.payload,
                        will.json,
                        will.retain,
                        holding.owner,
                        number,
                        self._clocks.unix_time(),
                    )
                )
            if holding.ends <= now:
                self._end(holding.owner_id)
                return ()
            self._arm(holding)
            if not done:
                return ()
            notice = orjson.dumps({"incarnation": holding.owner[2], "done": done})
            return (Publication(WILLS_OF + holding.owner_id, [notice], self._clocks.unix_time(), False, len(notice)),)

    def _may_publish(self, topic: str) -> bool:
        try:
            require(self._guard, "publish", (topic,))
        except ForbiddenError:
            return False
        return True

    # -------------------------------------------------------------------------------- where handlers run

    def take(self, holding: Holding, delivery: Delivery) -> None:
        """Take the wills of the owner, or what another holder has done."""
        self._settle("handled", len(delivery.payloads))
        if self.handled is not None:
            self.handled(delivery)
        for payload in delivery.payloads:
            try:
                with self._lock:
                    if delivery.publisher_id != holding.owner_id:
                        self._forget_done(holding, payload)
                    elif holding.owner is None and self._holdings.get(holding.owner_id) is holding:
                        self._keep(holding, delivery.incarnation, payload)
            except (ValueError, KeyError, TypeError, AttributeError, TopicError):
                self._clocks.statistics["malformed wills"] += 1

    def _keep(self, holding: Holding, incarnation: int, payload: Any) -> None:
        wills = decode_wills(payload) if payload else []
        size = len(payload)
        if self._size - holding.size + size > HELD_SIZE:
            self._clocks.statistics["wills refused: too many"] += 1
            return
        self._size += size - holding.size
        holding.size, holding.incarnation = size, incarnation
        holding.wills = {will.number: will for will in wills}

    def _forget_done(self, holding: Holding, payload: Any) -> None:
        notice = orjson.loads(payload)
        if holding.owner is not None and notice["incarnation"] == holding.owner[2]:
            for number in notice["done"]:
                holding.due.pop(number, None)


def publication_of(topic: str, payload: bytes, now: float) -> Publication:
    """The retained message of an owner; an empty payload clears it."""
    return Publication(topic, [payload], now, False, len(payload), options=Options(retain=True))
