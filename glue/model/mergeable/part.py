"""The mergeable keys of one model at one endpoint: answers questions at once, and reports changes.

No majority is asked: a write is complete once it is done here, and on disk if there is one. It reaches the other
replicas as soon as the network allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from random import Random

from glue.contract import Delivery, Options, Publication, Request
from glue.errors import ModelError, StorageFullError
from glue.model.calls import DISAGREEMENT
from glue.model.mergeable.context import Context
from glue.model.mergeable.exchange import DigestExchange, Sending
from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.store import Delta, Store
from glue.model.mergeable.values import Reading
from glue.model.mergeable.wire import (
    Digest,
    ForeignError,
    MalformedDeltasError,
    Pull,
    Push,
    TooFarError,
    decode,
    encode,
)
from glue.model.questions import Committed, Ending, Found, Question, Read, Refused, Synchronize, Write
from glue.model.requests import Answer, Pending, StackEvent
from glue.model.state import Change, Delete, Expect, ExpectRevision, Operation, Pattern, Set, Update
from glue.model.storage.deltas import DeltaFile
from glue.model.storage.memory import new_life

LIFESPAN = 10.0
"""Seconds after which a delta need not be delivered any more: digests find what is missing."""

OPTIONS = Options(lifespan=LIFESPAN, ordered=False)  # merging needs no order

WAITING = 65_536
"""Calls that wait for the disk or for another replica at once."""

ASK_INTERVAL = 0.5
"""Seconds between two requests for the digests of others, while a call waits to synchronize."""

ALONE = "no other endpoint of the model is in reach"
RENEWAL = 60.0
"""Seconds between two lives of one replica: the context has room for 11 days of such attacks (`CONTEXT_LIMIT`)."""

TOO_FAR = "messages refused: writes or stamps too far ahead"
STRANGERS = "messages of replicas with other mergeable prefixes"


class Mergeable:
    """The mergeable part of a group. All replicas share `topic`; each replica has another one below it."""

    def __init__(
        self,
        prefixes: Prefixes,
        file: DeltaFile | None,
        deltas: Sequence[Delta],
        topic: str,
        statistics: Counter[str],
        rng: Random,
        now: float,
        at: float,
    ) -> None:
        """`at` is the wall clock (Unix seconds) at `now`; `deltas` are those that `file` has loaded."""
        self.topic = topic
        self._statistics = statistics
        self._file = file
        self._epoch = at - now
        self.store = Store(prefixes, new_life(rng), statistics)
        for delta in deltas:
            self.store.merge(delta, int(at * 1000))
        self._exchange = DigestExchange(self.store, statistics, rng, now)
        self._unsynced: list[Pending] = []  # calls with writes that must become durable first
        self._synchronizing: list[tuple[float, Pending]] = []  # deadline and token
        self._asks_at = inf
        self._rng = rng
        self._renewed_at = -inf

    @property
    def deadline(self) -> float:
        """The time at which `receive` has something to do."""
        if self._unsynced or (self._file is not None and not self._file.is_whole):
            return -inf
        return min((self._exchange.deadline, self._asks_at, *(deadline for deadline, _ in self._synchronizing)))

    # -------------------------------------------------------------------------------------------- questions

    def concerns(self, question: Question) -> bool:
        """Whether a question is for this part alone. Raises ModelError if it mixes mergeable and other keys."""
        match question:
            case Synchronize():
                return True
            case Read(pattern):
                return self.store.prefixes.hold_all(Pattern(pattern))
            case Write(operations):
                keys = [operation.key for operation in operations if isinstance(operation, KEYED)]
                mergeable = [key for key in keys if self.store.prefixes.kind(key)]
                if mergeable and len(mergeable) < len(operations):
                    raise ModelError(
                        f"{mergeable[0]!r:.80} is mergeable, others are not: they change one without another"
                    )
                return bool(mergeable)
        return False

    def ask(
        self, now: float, at: float, token: Pending, question: Question, deadline: float
    ) -> tuple[list[StackEvent], list[Change]]:
        """Take a question for this part; returns answers and changes. Raises ModelError, and StorageError for good."""
        self._epoch = at - now
        if len(self._unsynced) + len(self._synchronizing) >= WAITING:
            return [Answer(token, Refused(f"more than {WAITING} calls wait"))], []
        match question:
            case Read(pattern):
                return [Answer(token, Found(self.match(Pattern(pattern))))], []
            case Write(operations):
                return self._write(now, token, operations)
            case _:
                self._synchronizing.append((deadline, token))
                self._exchange.agreed = False
                self._asks_at = now
        return [], []

    def _write(
        self, now: float, token: Pending, operations: Sequence[Operation]
    ) -> tuple[list[StackEvent], list[Change]]:
        touched, before = self.store.write(self._wall_ms(now), operations)
        self._exchange.wrote(now, touched)
        changes = self._changes(before)
        if self._file is None:
            return [Answer(token, Committed(0))], changes
        self._keep(self.store.delta(touched))
        self._unsynced.append(token)
        return [], changes

    def match(self, pattern: Pattern) -> list[Change]:
        """Return the local entries that match."""
        return [_change(key, reading) for key, reading in self.store.match(pattern)]

    def conflicts(self, pattern: str) -> dict[str, list[bytes]]:
        """Return the values that were written at the same time, by key. Raises ModelError for a malformed pattern."""
        return self.store.conflicts(Pattern(pattern))

    def end(self, ending: Ending) -> list[StackEvent]:
        """End all calls that wait."""
        tokens = [*self._unsynced, *(token for _, token in self._synchronizing)]
        self._unsynced, self._synchronizing = [], []
        return [Answer(token, ending) for token in tokens]

    # -------------------------------------------------------------------------------------------------- turns

    def receive(
        self, now: float, deliveries: Sequence[Delivery], up: list[StackEvent]
    ) -> tuple[list[Change], list[Request]]:
        """Take messages of other replicas and do what is due; returns changes and messages. Raises StorageError.

        Answers are added to `up`.
        """
        changes: list[Change] = []
        sendings: list[Sending] = []
        if self._file is not None:
            self._make_durable(self._file, up)
        for delivery in deliveries:
            for payload in delivery.payloads:
                self._take(now, delivery.publisher_id, payload, changes, sendings)
        up += self._synchronize(now, sendings)
        sendings += self._exchange.tick(now)
        return changes, [self._publication(sending) for sending in sendings]

    def _make_durable(self, file: DeltaFile, up: list[StackEvent]) -> None:
        """Sync the writes that calls wait for.

        The file is written anew once most of it is outdated, or after it had no room for a delta.
        """
        if file.is_outdated or not file.is_whole:
            file.replace([self._stored(self.store.whole())])
        if self._unsynced:
            file.sync()
            up += [Answer(token, Committed(0)) for token in self._unsynced]
            self._unsynced = []

    def recover(self) -> None:
        """Write the whole state after a full disk refused a delta. Raises StorageError."""
        if self._file is not None and not self._file.is_whole:
            self._file.replace([self._stored(self.store.whole())])

    def meet(self, now: float) -> None:
        """Compare digests soon, because a replica came or a message was lost."""
        self._exchange.hasten(now)

    def _take(self, now: float, sender: str, payload: object, changes: list[Change], sendings: list[Sending]) -> None:
        self._statistics["messages of mergeable keys"] += 1
        try:
            message = decode(self.store.prefixes, payload) if isinstance(payload, bytes) else None
        except TooFarError:
            self._statistics[TOO_FAR] += 1
            return
        except MalformedDeltasError:
            message = None
        except ForeignError:
            self._statistics[STRANGERS] += 1
            return
        match message:
            case Digest():
                self._defend(now, message.context)
                self._exchange.receive_digest(now, sender, message)
            case Pull():
                sendings += self._exchange.receive_pull(now, sender, message)
            case Push():
                self._defend(now, message.delta.context)
                changes += self._merge(now, message)
            case None:
                self._statistics["malformed messages of mergeable keys"] += 1

    def _defend(self, now: float, context: Context) -> None:
        """Move this replica's writes to a new life, if another replica claims writes that were never made.

        The other replica would take the next writes of the present life for old ones.
        """
        store = self.store
        if context.last(store.life) <= store.context.last(store.life):
            return
        self._statistics["writes of ours that we never made"] += 1
        if now >= self._renewed_at + RENEWAL:
            self._renewed_at = now
            touched = store.renew(new_life(self._rng))
            if touched:
                self._exchange.wrote(now, touched)
                self._keep(store.delta(touched))

    def _merge(self, now: float, push: Push) -> list[Change]:
        version = self.store.version
        readings = self.store.merge(push.delta, self._wall_ms(now))
        if readings is None:
            return []
        has_news = self.store.version != version
        if has_news:
            self._keep(push.delta)
        self._exchange.receive_push(now, push, has_news)
        return self._changes(readings)

    def _synchronize(self, now: float, sendings: list[Sending]) -> list[StackEvent]:
        """Answer the calls that wait to synchronize, and ask the others again while one waits."""
        waiting = self._synchronizing
        if not waiting:
            return []
        if self._exchange.agreed:
            self._synchronizing, self._asks_at = [], inf
            return [Answer(token, Found([])) for _, token in waiting]
        if self._asks_at <= now:
            self._asks_at = now + ASK_INTERVAL
            sendings.append(self._exchange.ask())
        self._synchronizing = [(deadline, token) for deadline, token in waiting if deadline > now]
        if not self._synchronizing:
            self._asks_at = inf
        reason = f"{ALONE} that agrees: {DISAGREEMENT}" if self._statistics[STRANGERS] else ALONE
        return [Answer(token, Refused(reason, unreachable=True)) for deadline, token in waiting if deadline <= now]

    def _keep(self, delta: Delta) -> None:
        """Append a delta to the file. If there is no room, the next turn says so: what was merged is told before."""
        if self._file is not None and self._file.is_whole:
            with suppress(StorageFullError):
                self._file.append(self._stored(delta))

    def _stored(self, delta: Delta) -> bytes:
        return encode(self.store.prefixes, Push(delta))

    def _publication(self, sending: Sending) -> Publication:
        receiver, message = sending
        topic = self.topic if receiver is None else self.to_one(receiver)
        body = [encode(self.store.prefixes, message)]
        return Publication(topic, body, 0.0, options=OPTIONS)

    def topics(self, peer: str) -> list[str]:
        """The topics of this peer."""
        return [self.topic, self.to_one(peer)]

    def to_one(self, peer: str) -> str:
        """The topic of one replica."""
        return f"{self.topic}/{peer}"

    def _changes(self, before: Mapping[str, Reading]) -> list[Change]:
        return [
            _change(key, reading) for key, was in before.items() if (reading := self.store.reading(key)) != was
        ]  # fmt: skip

    def _wall_ms(self, now: float) -> int:
        """The wall clock, continued from the last question."""
        return int((now + self._epoch) * 1000)


KEYED = Set | Delete | Update | Expect | ExpectRevision


def _change(key: str, reading: Reading) -> Change:
    document, is_conflict = reading
    return Change(key, document, 0, True, is_conflict)
