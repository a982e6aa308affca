"""The receivers of a kind in memory, their waiting messages, and their runs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from math import inf
from typing import Any, cast

from glue.endpoint.receiver_ops import Known, Runtime
from glue.endpoint.receiver_partitions import Partitions
from glue.endpoint.receiver_results import given_back
from glue.endpoint.receiver_storing import GONE
from glue.errors import GlueError, ModelError, PayloadError, WouldBlockError
from glue.receivers.activation import MAILS, Activation, settle
from glue.receivers.address import partition_of
from glue.receivers.context import AgainError, Await, Call, Mail, Step, TimerMail, Wake
from glue.receivers.inbox import Inbox, Incoming
from glue.receivers.store import FencedError, Store
from glue.receivers.wire import Batch

MAILBOX = 65_536
"""Messages of this program that wait at one receiver at most."""
ARRIVED = 4 * MAILBOX
"""Messages that wait at one receiver at most when one of another endpoint arrives, so that it finds room."""
RUN = 64
"""Messages that one receiver handles before others have their turn."""
ACTIVE = 500_000
"""Receivers of a kind in memory at most, of some 300 bytes and what they keep themselves: 150 MB."""
SLOW = 0.0001
"""Seconds from which a message counts as slow."""
RETRY = 5.0
"""Seconds until a receiver with durable timers that could not begin is tried again, unless a message comes."""
SLOWEST = 3
"""Receivers that are listed for their slow messages."""
HOPELESS = (ModelError, PayloadError, TypeError, ValueError)
"""Errors of stores that come again with the same document, so its message fails; after others it is sent again."""

logger = logging.getLogger("glue")


class Running(Partitions):
    """The receivers of one hosted kind."""

    def __init__(
        self, runtime: Runtime, kind: str, partitions: int, model: str, store: Store | None, is_fenced: bool
    ) -> None:
        """As `Partitions`."""
        super().__init__(runtime, kind, partitions, model, store, is_fenced)
        self._slowest: dict[str, float] = {}  # the slowest messages of some receivers, in seconds
        self._floor = SLOW  # seconds from which a message is among them
        self.handled = 0
        self._lock = runtime.lock
        self._clock: Callable[[], float] = runtime.core.requests.clock
        self._time = runtime.now()  # as of the latest tick: one object, which passive receivers share
        self._to_wake: dict[str, float] = {}  # when to wake receivers with durable timers that failed, or their store

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._time = now
        super().tick(now)
        with self._lock:
            to_wake = [id for id, at in self._to_wake.items() if at <= now]
            for id in to_wake:
                del self._to_wake[id]
        for id in to_wake:
            if self.serves(partition_of(id, self.partitions)):
                self.wake(id)

    # --------------------------------------------------------------------------------------------- mailboxes

    def put(self, id: str, item: Any, is_forced: bool = False) -> bool:
        """Queue a message of this program; False if it has to go by the outbox. Raises WouldBlockError."""
        with self._lock:
            activation = self.activations.get(id)
            if activation is None or not activation.is_direct:
                partition = partition_of(id, self.partitions) if activation is None else activation.partition
                if not self.serves(partition) or self.runtime.outbox.is_busy(self.kind, partition):
                    return False
                activation = activation or self._new(id, partition)
                if activation is None:
                    raise WouldBlockError(f"{ACTIVE} receivers of {self.kind!r} are in memory")
                activation.is_direct = True
            self.append(activation, item, is_forced)
            return True

    def append(self, activation: Activation, item: Any, is_forced: bool = False) -> None:
        """Queue a message; the caller holds the lock. Raises WouldBlockError if the mailbox is full."""
        mailbox = activation.mailbox
        if mailbox is None:
            mailbox = activation.mailbox = deque()
        elif len(mailbox) >= MAILBOX and not is_forced:
            raise WouldBlockError(f"{MAILBOX} messages wait at {activation.address}; send fewer at once")
        mailbox.append(item)
        if not activation.is_scheduled:
            activation.is_scheduled = True
            self.runtime.executor.soon(partial(self._run, activation))

    def _new(self, id: str, partition: int) -> Activation | None:
        """A receiver that comes into memory; None if too many are there."""
        if len(self.activations) >= ACTIVE:
            self.runtime.statistics["messages to too many receivers"] += 1
            return None
        activation = self.activations[id] = Activation(self, id, partition, self._time)  # type: ignore[arg-type]
        return activation

    def arrive(self, batch: Batch, inbox: Inbox) -> None:
        """Take a batch of another endpoint; the caller holds the lock."""
        key = self.kind, batch.partition
        is_ahead = inbox.is_ahead(key, batch.seqs[0])
        incoming = inbox.open(key, batch.number, len(batch.seqs))
        waiting = inbox.waiting(key, batch.seqs[0])
        activations, asks, now = self.activations, batch.asks, self._clock()
        refused: set[str] = set()  # receivers without room: messages after a refused one are sent again behind it
        for index, (seq, id, payload) in enumerate(zip(batch.seqs, batch.ids, batch.payloads, strict=True)):
            mail = waiting.get(seq) if waiting else None
            if mail is not None and mail.batch is not None:  # it came before, and its answer goes to this batch
                inbox.take_over(mail, cast(Incoming, mail.batch), incoming)
                continue
            if index in asks:
                within, path = asks[index]
                mail = Call(payload, until=now + within, path=path, batch=incoming, seq=seq)
            else:
                mail = Mail(payload, incoming, seq)
            incoming.mails.append(mail)
            if is_ahead:
                settle(mail, AgainError("earlier messages come again"), None)
                continue
            activation = activations.get(id)
            if activation is None:
                if partition_of(id, self.partitions) != batch.partition or "\0" in id:
                    settle(mail, ValueError("a receiver of another partition"), None)
                    continue
                activation = self._new(id, batch.partition)
            if activation is None or id in refused or len(activation.mailbox or ()) >= ARRIVED:
                refused.add(id)
                self.runtime.statistics["messages to full receivers"] += 1
                settle(mail, AgainError("full"), None)
                continue
            self.append(activation, mail, True)

    def wake(self, id: str) -> None:
        """Bring a receiver into memory."""
        with self._lock:
            activation = self.activations.get(id) or self._new(id, partition_of(id, self.partitions))
            if activation is not None:
                self.append(activation, Wake(None), True)

    def stop(self, activation: Activation) -> None:
        """Put a receiver away; the caller holds the lock."""
        activation.is_stopping = True
        activation.is_direct = False
        if not activation.is_scheduled:
            activation.is_scheduled = True
            self.runtime.executor.soon(partial(self._run, activation))

    # ----------------------------------------------------------------------------------------------- running

    def _run(self, activation: Activation, handled: int = 0) -> None:
        """Let a receiver handle what waits, until it has to wait itself."""
        clock, mailbox, counted = self._clock, activation.mailbox, 0
        began = clock()
        while handled < RUN:
            mail: Any = None
            steps: Generator[Step, Any, None] | None
            if activation.is_stopping:
                steps = self._deactivate(activation)
            elif mailbox:
                try:
                    mail = mailbox.popleft()
                except IndexError:  # handed back at this moment
                    break
                steps = activation.take(mail)
            else:
                break
            handled += 1
            if steps is not None and not self._drive(activation, mail, steps, handled - counted, began):
                return
            now = clock()
            if now - began > self._floor:
                self._note_slow(activation.id, now - began)
                self._note_handled(handled - counted)  # others would be told only when all that waits is handled
                counted = handled
            began = now
        self._rest(activation, handled - counted)

    def _deactivate(self, activation: Activation) -> Generator[Step, Any, None]:
        activation.is_direct = False
        return activation.deactivate()

    def _note_handled(self, handled: int) -> None:
        with self._lock:
            self.handled += handled
            self.runtime.statistics["messages to receivers handled"] += handled

    def _rest(self, activation: Activation, handled: int) -> None:
        """A receiver has handled what waits, or enough for now."""
        with self._lock:
            self._note_handled(handled)
            if (activation.mailbox or activation.is_stopping) and activation.epoch != GONE:
                self.runtime.executor.soon(partial(self._run, activation))
                return
            activation.is_scheduled = False
            activation.used_at = self._time
            activation.rest()
            if activation.receiver is None and activation.epoch != GONE:
                activation.is_direct = False
                del self.activations[activation.id]
                self.gone(activation.partition)
            elif activation.epoch == GONE:
                activation.forget()

    def _drive(
        self, activation: Activation, mail: Any, steps: Generator[Step, Any, None], handled: int, began: float,
        value: Any = None, error: BaseException | None = None,
    ) -> bool:  # fmt: skip
        """Run the steps of a message until they end, or have to wait and go on later; returns whether they ended."""

        def resume(value: Any, error: BaseException | None) -> None:
            if self._drive(activation, mail, steps, handled, began, value, error):
                self._note_slow(activation.id, self._clock() - began)
                self._run(activation, handled)

        while True:
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration:
                return True
            except (AgainError, FencedError) as again:
                self._not_handled(activation, mail, again)
                return True
            except KeyboardInterrupt:
                raise
            except BaseException as raised:  # of `activate` or `deactivate`, or hopeless
                self.runtime.statistics["receivers failed"] += 1
                logger.warning("%s: %r", activation.address, raised)
                activation.forget()
                if activation.unarmed < inf:
                    with self._lock:
                        self._to_wake[activation.id] = self._clock() + max(RETRY, activation.unarmed)
                if mail.__class__ in MAILS:
                    settle(mail, raised, None)
                return True
            try:
                operation = self._operation(activation, step)
            except GlueError as wrong:
                value, error = None, wrong
                continue
            if operation.__class__ is Known:
                value, error = operation.value, None
                continue
            outcome = self.runtime.executor.perform(operation, _sorted(resume, step))
            if not isinstance(outcome, tuple):
                return False
            value, error = outcome[0], _kind_of(step, outcome[1])

    def _not_handled(self, activation: Activation, mail: Any, error: BaseException) -> None:
        """A write was refused, or failed: what is in memory is void, and the messages are to come again."""
        runtime = self.runtime
        runtime.statistics["receivers fenced off"] += 1
        with runtime.lock:
            activation.forget()
            if activation.epoch != GONE:
                del self.activations[activation.id]
                self.gone(activation.partition)
            if mail is not None:
                self.again(activation, mail, error)
            self._hand_back(activation)

    def again(self, activation: Activation, item: Any, error: BaseException) -> None:
        """Hand a message back to its sender; a local message goes by the outbox, at the end of its route.

        Timers are read again at the next tick. The caller holds the lock.
        """
        kind = item.__class__
        if kind in (Wake, TimerMail):
            self._to_wake[activation.id] = self._clock()
            return
        if kind in MAILS and item.batch is not None:
            settle(item, AgainError(str(error)), None)
            return
        body, is_json, until, within, path, taker = given_back(item, activation.address, self._clock())
        if self.runtime.outbox.put(self.kind, activation.id, body, is_json, until, within, path, taker):
            self.runtime._flush_soon()

    def _note_slow(self, id: str, seconds: float) -> None:
        if seconds <= self._floor:
            return
        with self._lock:
            slowest = self._slowest
            slowest[id] = max(seconds, slowest.get(id, 0.0))
            if len(slowest) > SLOWEST:
                del slowest[min(slowest, key=lambda one: slowest[one])]
            self._floor = min(slowest.values()) if len(slowest) >= SLOWEST else SLOW

    def slowest_ones(self) -> list[tuple[str, float]]:
        """The receivers with the slowest messages, and how many seconds these took; the caller holds the lock."""
        return sorted(self._slowest.items(), key=lambda one: -one[1])

    @property
    def slowest(self) -> float:
        """The seconds of the slowest message."""
        return max(self._slowest.values(), default=0.0)

    def waiting(self) -> Iterable[tuple[int, str]]:
        """How many messages wait at each receiver where any does; the caller holds the lock."""
        return [(len(one.mailbox), one.id) for one in self.activations.values() if one.mailbox]


Resume = Callable[[Any, BaseException | None], None]


def _sorted(resume: Resume, step: Step) -> Resume:
    if isinstance(step, Await):
        return resume
    return lambda value, error: resume(value, _kind_of(step, error))


def _kind_of(step: Step, error: BaseException | None) -> BaseException | None:
    """An error as the steps of a receiver know it: of a store, AgainError unless it comes again each time."""
    if error is None or isinstance(step, Await) or isinstance(error, (AgainError, FencedError)):
        return error
    if isinstance(error, HOPELESS):
        return error
    return AgainError(repr(error))
