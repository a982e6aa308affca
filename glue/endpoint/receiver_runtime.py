"""The receivers of one endpoint: what threads, asyncio and the simulator share.

Hosts of kinds publish a beat twice a second. A host that is silent for some beats is taken for lost by the other hosts
and by senders, sooner than discovery does. That needs no agreement: who owns a partition is decided in the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import orjson

from glue.contract import Alarm, Delivery, Event, Publication, Rung, Subscribe
from glue.endpoint.core import EndpointCore
from glue.endpoint.encoding import encoded
from glue.endpoint.options import class_of
from glue.endpoint.owner import SubscriptionOwner
from glue.endpoint.receiver_hosts import BEAT_TOPIC, SILENT, BeatToken, Executor, HostRuntime
from glue.endpoint.receiver_results import check_local, document, settle_item, settled_by
from glue.errors import (
    ClosedError,
    PayloadError,
    RequestCycleError,
    WouldBlockError,
)
from glue.model import StackRequest
from glue.receivers.address import Address, partition_of
from glue.receivers.context import Mail
from glue.receivers.outbox import WAITING
from glue.receivers.wire import (
    FAILED,
    Item,
    MalformedError,
    Result,
    at_topic,
    decode,
    decode_items,
    decode_results,
    encode,
    encode_batch,
    integer,
)

TICK = 0.1
"""Seconds between two looks at what is due."""
GIVE_UP = 60.0
"""Seconds until a message that no host took is given up."""

logger = logging.getLogger("glue")


class ReceiverRuntime(HostRuntime):
    """Receivers that this endpoint hosts, and messages that it sends to others."""

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
        self._ticked_at = self.now()
        self._expire_at = -inf
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
            if now - self._ticked_at > SILENT / 2:  # this process stood still: nobody else was silent
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
            self._flush_soon()
        for call in calls:
            call()
        for kind in kinds:
            kind.tick(now)

    def rung(self, now: float) -> Sequence[Publication]:
        """The time of an alarm has come, within a turn; what follows is done where handlers run."""
        return ()

    def _deliver(self, event: Event) -> None:
        """Take what came for this endpoint, or the time that has come."""
        if isinstance(event, Rung):
            self._tick()
            self._alarm_at = inf
            self.wake_at(min([self.now() + TICK, *[kind.due for kind in list(self.kinds.values())]]))
            return
        if not isinstance(event, Delivery):
            return
        for payload in event.payloads:
            try:
                self._take(event, *decode(payload))
            except MalformedError:
                self.statistics["malformed receiver messages"] += 1
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

    def _take(self, delivery: Delivery, head: dict[str, Any], body: bytes) -> None:
        peer = delivery.publisher_id
        if "batch" in head:
            self._take_batch(peer, f"{peer}/{delivery.incarnation}", integer(head["batch"]), head, body)
            return
        if "status" in head:
            counters = orjson.dumps([kind.counters() for kind in self.kinds.values()])
            self._publish(at_topic(peer), [encode({"counters": integer(head["status"])}, counters)])
            return
        if "counters" in head:
            if self._on_status is not None:
                self._on_status(delivery.publisher, document(body))
            return
        number, calls = integer(head.get("of")), []
        with self.lock:
            if "taken" in head:
                self.outbox.taken(self.now(), number, peer)
            elif "moved" in head:
                self.outbox.moved(self.now(), number, peer, str(head["moved"]))
            else:
                calls = self.outbox.results(self.now(), number, peer, decode_results(head, body))
            self._flush_soon()
        for call in calls:
            call()

    # --------------------------------------------------------------------------------- messages to receivers

    def _take_batch(self, peer: str, sender: str, number: int, head: dict[str, Any], body: bytes) -> None:
        items = decode_items(head, body)
        partition = integer(head.get("partition"))
        name = str(head.get("kind"))
        with self.lock:
            kind = self.kinds.get(name)
            if kind is None or head.get("partitions") != kind.partitions or not kind.serves(partition):
                owner = kind.ownership.records.get(partition) if kind is not None else None
                self._publish(at_topic(peer), [encode({"of": number, "moved": owner.host if owner else ""})])
                return
            self._publish(at_topic(peer), [encode({"of": number, "taken": 1})])
        answers = kind.answers(peer, number)
        now = self.now()
        for item in items:
            if partition_of(item.id, kind.partitions) != partition:
                answers(Result(item.seq, FAILED, b'["MalformedError",""]', True))
                continue
            if kind.is_waiting(sender, partition, item.seq, item.id, partial(settle_item, answers, item)):
                continue
            try:
                mail = self._mail(item, sender, now, answers)
            except MalformedError:
                answers(Result(item.seq, FAILED, b'["MalformedError",""]', True))
                continue
            kind.put(item.id, mail, partition)

    def _mail(self, item: Item, sender: str, now: float, answers: Callable[[Result], None]) -> Mail:
        try:
            payload = orjson.loads(item.body) if item.is_json else item.body
        except orjson.JSONDecodeError:
            raise MalformedError("json") from None
        until = now + item.within if item.within else inf
        return Mail(
            payload, partial(settle_item, answers, item), is_request=bool(item.within), until=until, sender=sender,
            seq=item.seq, path=item.path,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- sending

    def send(self, address: Address, payload: Any, path: tuple[str, ...] = (), within: float = 0.0,
             settle: Callable[[BaseException | None, Any], None] | None = None) -> None:  # fmt: skip
        """Send a message; `settle` is called once, from any thread, when it was handled or given up."""
        kind = self.kinds.get(address.kind)
        if kind is not None and kind.serves(partition_of(address.id, kind.partitions)):
            if within or settle is not None:
                until = self.now() + within if within else inf
                mail = Mail(payload, settle, is_request=bool(within), until=until, path=path)
            else:
                mail = Mail(payload)
            check_local(payload)
            kind.put(address.id, mail)
            return
        body, is_json = (payload, False) if payload.__class__ is bytes else encoded(payload)
        with self.lock:
            if self.outbox.count >= WAITING:
                raise WouldBlockError(f"{WAITING} messages to receivers wait to be handled; send fewer at once")
            until = self.now() + (within or GIVE_UP)
            self.outbox.put(address, body, is_json, within, until, path, settled_by(str(address), settle))
            self._flush_soon()

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...],
            settle: Callable[[BaseException | None, Any], None]) -> None:  # fmt: skip
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
            by_host: dict[str, list[bytes]] = {}
            for host, kind, partition, partitions, items, number in self.outbox.flush(self.now()):
                by_host.setdefault(host, []).append(encode_batch(number, kind, partition, partitions, items))
            for host, batches in by_host.items():
                self._publish(at_topic(host), batches)

    # ------------------------------------------------------------------------------------------------ closing

    def begin_to_leave(self) -> None:
        """Take no more partitions, and hand over those that are owned."""
        with self.lock:
            for kind in self.kinds.values():
                kind.ownership.is_leaving = True
            self._hosts_changed()
            if self.kinds:
                self._beat(self.now())

    @property
    def is_put_away(self) -> bool:
        """Whether no receiver is in memory any more."""
        return all(not kind.activations for kind in self.kinds.values())

    def close(self) -> None:
        """End."""
        self.is_closed = True
        for kind in list(self.kinds.values()):
            kind.close()
