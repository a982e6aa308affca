"""The receivers of one endpoint: what threads, asyncio and the simulator share.

Hosts of kinds publish a beat twice a second. A host that is silent for some beats is taken for lost by the other hosts
and by senders, sooner than discovery does. That needs no agreement: the model decides on the owner of a partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import orjson

from glue.contract import Alarm, Delivery, Event, Publication, Rung, Subscribe
from glue.contract.heads import MalformedError, integer, loads
from glue.endpoint.core import EndpointCore
from glue.endpoint.encoding import encoded
from glue.endpoint.options import class_of
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receiver_hosts import BEAT_TOPIC, SILENT, BeatToken, Executor, HostRuntime
from glue.endpoint.receiver_payloads import PLAIN_TYPES, body_of, copied
from glue.endpoint.receiver_results import Settled, local_answer, result_of, settled_by
from glue.endpoint.receiver_running import MAILBOX
from glue.errors import ClosedError, MessageTooLargeError, PayloadError, RequestCycleError, WouldBlockError
from glue.model import StackRequest
from glue.receivers.address import Address, parse
from glue.receivers.context import Call
from glue.receivers.inbox import Inbox
from glue.receivers.outbox import GIVE_UP, WAITING
from glue.receivers.wire import (
    Batch,
    at_topic,
    decode,
    decode_batch,
    decode_report,
    encode,
    encode_batch,
    encode_report,
)

TICK = 0.1
"""Seconds between two looks at what is due."""
REMIND = 0.5
"""Seconds between two answers that a host still has batches; senders repeat after 2 s without an answer."""
ROOM = 64 << 10
"""Bytes that the rest of a batch with one message takes at most."""

logger = logging.getLogger("glue")


class ReceiverRuntime(HostRuntime):
    """Receivers that this endpoint hosts, and its messages to other receivers."""

    def __init__(
        self,
        core: EndpointCore,
        owner: SubscriptionOwner,
        order: Callable[[StackRequest], None],
        executor: Executor,
    ) -> None:
        super().__init__(core.statistics)
        self.core = core
        self.executor = executor
        self.order = order
        self.host, self.life = core.identity.endpoint_id, core.identity.incarnation
        self._owner = owner
        self._flushing = False
        self._limit = core.settings.message_limit - ROOM
        self._inboxes: dict[str, Inbox] = {}
        self._ticked_at = self.now()
        self._expire_at = self._remind_at = -inf
        self._on_status: Callable[[str, Any], None] | None = None
        core.receivers = self
        order(Subscribe(self, at_topic(self.host)))
        self._beat_token = BeatToken(self)
        order(Subscribe(self._beat_token, BEAT_TOPIC))
        self._publish(BEAT_TOPIC, [encode({"hello": 1, "kinds": {}})])
        self._alarm_at = inf
        self.wake_at(self.now() + TICK)

    def now(self) -> float:
        """The time, in monotonic seconds."""
        return self.core.requests.clock()

    def unix_time(self) -> float:
        """The time, in Unix seconds."""
        return self.core.requests.unix_time()

    def _publish(self, topic: str, payloads: list[bytes]) -> None:
        size = max(map(len, payloads))
        length = size if len(payloads) == 1 else None
        try:
            self.order(Publication(topic, payloads, self.unix_time(), False, length, class_of("normal", size)))
        except ClosedError:
            self.is_closed = True

    # ------------------------------------------------------------------------------------------------- time

    def _tick(self) -> None:
        now = self.now()
        with self.lock:
            if self.is_closed:
                return
            if now - self._ticked_at > SILENT / 2:  # this process stood still: no host was silent
                for beat in self.beats.values():
                    beat.at = max(beat.at, now)
            self._ticked_at = now
            for peer in [peer for peer, beat in self.beats.items() if now - beat.at > SILENT]:
                self.statistics["hosts that fell silent"] += 1
                self._lose(peer)
            if self.kinds and now >= self._beat_at:
                self._beat(now)
            calls = self.outbox.expire(now) if now >= self._expire_at else []
            self._expire_at = now + 1.0 if now >= self._expire_at else self._expire_at
            kinds = list(self.kinds.values())
            inboxes = list(self._inboxes.values())
            if now >= self._remind_at:
                self._remind_at = now + REMIND
                for inbox in inboxes:
                    inbox.remind()
            self._flush_soon()
        for call in calls:
            call()
        for inbox in inboxes:
            self._report(inbox)
        self.executor.look()
        for kind in kinds:
            kind.tick(now)

    def rung(self, now: float) -> Sequence[Publication]:
        """The time of an alarm has come, within a turn; what follows is done where handlers run."""
        return ()

    def _deliver(self, event: Event) -> None:
        """Take what came for this endpoint, or the time that has come."""
        if isinstance(event, Rung):
            try:
                self._tick()
            finally:  # or it would never be rung again
                self._alarm_at = inf
                self.wake_at(min([self.now() + TICK, *[kind.due for kind in list(self.kinds.values())]]))
            return
        if not isinstance(event, Delivery):
            return
        told: dict[str, Inbox] = {}
        for payload in event.payloads:
            try:
                inbox = self._take(event, *decode(payload))
            except MalformedError:
                self.statistics["malformed receiver messages"] += 1
            else:
                if inbox is not None:
                    told[inbox.sender] = inbox
        for inbox in told.values():
            self._report(inbox)
        self.handled(event)

    def ask_hosts(self, take: Callable[[str, Any], None]) -> None:
        """Ask all hosts what they do; `take` is called with a host's name and a list of counters by kind."""
        self._on_status = take
        with self.lock:
            hosts = list(self.beats)
        for host in hosts:
            self._publish(at_topic(host), [encode({"status": 1})])

    def wake_at(self, due: float) -> None:
        """Look at what is due at this time (monotonic seconds), or before."""
        if due >= self._alarm_at or self.is_closed:
            return
        self._alarm_at = due
        try:
            self.order(Alarm(self, due))
        except ClosedError:
            self.is_closed = True

    def park(self, topic: str, address: str, payload: Any, error: BaseException) -> None:
        """Publish a message that a receiver failed on."""
        letter = {"receiver": address, "error": type(error).__name__, "message": str(error)[:2000], "payload": payload}
        try:
            body, json = encoded(letter)
        except PayloadError:  # bytes
            body, json = encoded({**letter, "payload": payload.hex()})
        self.statistics["messages parked"] += 1
        self.order(Publication(topic, [body], self.unix_time(), json, len(body), class_of("normal", len(body))))

    def watched(self, delivery: Delivery) -> None:
        """Count changes of the model as handled."""
        if self.executor.counts:
            self._owner.handled(delivery)

    def handled(self, delivery: Delivery) -> None:
        """Count a delivery as handled."""
        self._owner.settled("handled", len(delivery.payloads))
        if self.executor.counts:
            self._owner.handled(delivery)

    def _take(self, delivery: Delivery, head: dict[str, Any], body: bytes) -> Inbox | None:
        """Take one payload; returns the inbox that has something to tell at once."""
        peer = delivery.publisher_id
        if "batch" in head:
            return self._take_batch(peer, f"{peer}/{delivery.incarnation}", decode_batch(head, body))
        if "status" in head:
            counters = orjson.dumps([kind.counters() for kind in self.kinds.values()])
            self._publish(at_topic(peer), [encode({"counters": integer(head["status"])}, counters)])
        elif "counters" in head:
            if self._on_status is not None:
                self._on_status(delivery.publisher, loads(body))
        else:
            report = decode_report(head, body)
            with self.lock:
                calls = self.outbox.report(self.now(), peer, report)
                self._flush_soon()
            for call in calls:
                call()
        return None

    # --------------------------------------------------------------------------------- messages to receivers

    def _take_batch(self, peer: str, sender: str, batch: Batch) -> Inbox:
        with self.lock:
            inbox = self._inboxes.get(sender)
            if inbox is None:
                inbox = self._inboxes[sender] = Inbox(peer, sender, result_of, lambda: self._tell(sender))
            kind = self.kinds.get(batch.kind)
            if kind is None or batch.partitions != kind.partitions or not kind.serves(batch.partition):
                owner = kind.ownership.records.get(batch.partition) if kind is not None else None
                inbox.moved.append((batch.number, owner.host if owner else ""))
            elif inbox.is_full:
                self.statistics["batches to a full host"] += 1
                inbox.moved.append((batch.number, ""))
            else:
                kind.arrive(batch, inbox)
        return inbox

    def _tell(self, sender: str) -> None:
        """Tell a sender soon what became of its messages; called from any thread."""
        inbox = self._inboxes.get(sender)
        if inbox is not None and not inbox.is_told:
            inbox.is_told = True
            self.executor.soon(lambda: self._report(inbox))

    def _report(self, inbox: Inbox) -> None:
        inbox.is_told = False
        with self.lock:
            report = inbox.report()
            if report is None:
                if inbox.is_empty:
                    self._inboxes.pop(inbox.sender, None)
                return
            self._publish(at_topic(inbox.peer), [encode_report(report)])
        if inbox.has_more:
            self._tell(inbox.sender)

    # ---------------------------------------------------------------------------------------------- sending

    def send_text(self, text: str, payload: Any) -> None:
        """Send a message to an address. Raises ConfigurationError, PayloadError, WouldBlockError."""
        if text.__class__ is not str:
            parse(text)  # raises, unless it is a text of a class of its own
        head, _, id = text.partition("/")
        kind = self._heads.get(head)
        if kind is not None:
            activation = kind.activations.get(id)
            if activation is not None:
                if payload.__class__ not in PLAIN_TYPES:
                    payload = copied(payload)
                with self.lock:
                    if activation.is_direct:
                        kind.append(activation, payload)
                        return
        self.send(parse(text), payload)

    def check_room(self, address: Address) -> None:
        """Raise WouldBlockError if too many messages wait already."""
        kind = self.kinds.get(address.kind)
        activation = kind.activations.get(address.id) if kind is not None else None
        if activation is not None and len(activation.mailbox or ()) >= MAILBOX:
            raise WouldBlockError(f"{MAILBOX} messages wait at {address}; send fewer at once")
        if self.outbox.count >= WAITING:
            raise WouldBlockError(f"{WAITING} messages to receivers wait to be handled; send fewer at once")

    def send(
        self, address: Address, payload: Any, path: tuple[str, ...] = (), within: float = 0.0,
        settle: Settled | None = None, is_forced: bool = False,
    ) -> None:  # fmt: skip
        """Send a message; `settle` is called once, from any thread, when it was handled or given up.

        `within`: the seconds that the sender waits for an answer, 0 for none. `is_forced`: the room was looked at.
        """
        kind = self.kinds.get(address.kind)
        if kind is not None:
            item = copied(payload)
            if within or settle is not None:
                until = self.now() + within if within else inf
                taker = None if settle is None else local_answer(settle)
                item = Call(item, taker, is_request=bool(within), until=until, path=path)
            if kind.put(address.id, item, is_forced):
                return
        body, is_json = body_of(payload)
        if len(body) > self._limit:
            raise MessageTooLargeError(f"{address}: the message has {len(body)} bytes, more than {self._limit}")
        taking = None if settle is None else settled_by(str(address), settle, lambda: self.unanswered(address))
        with self.lock:
            if self.outbox.count >= WAITING and not is_forced:
                raise WouldBlockError(f"{WAITING} messages to receivers wait to be handled; send fewer at once")
            until = self.now() + (within or GIVE_UP)
            if self.outbox.put(address.kind, address.id, body, is_json, until, within, path, taking):
                self._flush_soon()

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...], settle: Settled) -> None:
        """Ask a receiver. Raises RequestCycleError if it waits for this request."""
        if str(address) in path:
            hops = " → ".join([*path[path.index(str(address)) :], str(address)])
            raise RequestCycleError(f"a cycle of requests: {hops}")
        self.send(address, payload, path, timeout, settle)

    def _flush_soon(self) -> None:
        if not self._flushing and not self.is_closed:
            self._flushing = True
            self.executor.soon(self.flush)

    def flush(self) -> None:
        """Send the batches that may leave now."""
        with self.lock:
            self._flushing = False
            sent = self.outbox.flush(self.now())
            self.wake_at(self.outbox.due)
        by_host: dict[str, list[bytes]] = {}
        for host, batch in sent:
            route = batch.route
            payload = encode_batch(
                batch.number, route.kind, route.partition, route.partitions, batch.entries.values()
            )  # fmt: skip
            by_host.setdefault(host, []).append(payload)
        for host, batches in by_host.items():
            self._publish(at_topic(host), batches)

    # ------------------------------------------------------------------------------------------------ closing

    def hurry(self) -> None:
        """Give up soon what is due to be given up: this endpoint is about to close."""
        self._expire_at = -inf

    @property
    def has_unsent(self) -> bool:
        """Whether messages to receivers of other endpoints are not handled yet."""
        return bool(self.outbox.count) and not self.is_closed

    def close(self) -> None:
        """End."""
        if self.has_unsent:
            logger.warning("%d messages to receivers were not handled before the end: they are lost", self.outbox.count)
        self.is_closed = True
        for kind in list(self.kinds.values()):
            kind.close()
