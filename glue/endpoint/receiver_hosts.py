"""Which hosts of receivers there are, as far as this endpoint knows: beats, and what follows from their silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from threading import RLock
from typing import Any, Protocol

from glue.contract import Delivery, Event, PeerRemoved
from glue.contract.heads import MalformedError, integer
from glue.endpoint.receiver_kind import Kind
from glue.endpoint.receiver_ops import Operation
from glue.endpoint.receivers import Receiver as Mailbox
from glue.errors import ConfigurationError, NoResponderError, RequestError, RequestTimeoutError
from glue.receivers.address import PARTITIONS_MOST, Address
from glue.receivers.outbox import Outbox
from glue.receivers.wire import decode, encode

BEAT_TOPIC = "$glue/receivers/beat"
BEAT = 0.5
"""Seconds between two beats of a host."""
SILENT = 2.0
"""Seconds of silence after which a host is taken for lost: four beats, so that a lost datagram does not matter."""
HOSTS = 1024
"""Hosts known at most; each with 64 kinds at most, of some 100 bytes: 6 MB."""
KINDS = 64
HEARD_OF = 4096
"""Kinds that are remembered once all their hosts have gone."""
PENDING: Any = object()
"""The outcome of an operation that resumes the receiver later."""

Resume = Callable[[Any, BaseException | None], None]


class Executor(Protocol):
    """Differences between threads, asyncio and the simulator."""

    counts: bool
    """Whether a token tells the endpoint itself that a delivery was handled."""

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function soon, where receivers run."""

    def look(self) -> None:
        """Look whether receivers are stuck; called now and then."""

    def perform(self, operation: Operation, resume: Resume) -> Any:
        """Do something that has to be waited for; return (result, error), or PENDING and call `resume` later."""

    def ask(self, address: Address, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver from within a receiver."""


class Beat:
    """The latest beat of a host."""

    __slots__ = ("at", "kinds", "life")

    def __init__(self, life: int, at: float, kinds: dict[str, int]) -> None:
        self.life = life
        self.at = at
        self.kinds = kinds


class HostRuntime(Mailbox):
    """The hosts of kinds, this endpoint included."""

    host: str
    executor: Executor

    def __init__(self, statistics: Counter[str]) -> None:
        super().__init__()
        self.statistics = statistics
        self.lock = RLock()
        self.kinds: dict[str, Kind] = {}
        self._heads: dict[str, Kind] = {}  # by what addresses begin with
        self.beats: dict[str, Beat] = {}
        self.outbox = Outbox(statistics)
        self.is_closed = False
        self._heard_of: set[str] = set()  # kinds that any host has hosted
        self._beat_at = -inf

    def now(self) -> float:
        """The time, in monotonic seconds."""
        raise NotImplementedError

    def _publish(self, topic: str, payloads: list[bytes]) -> None:
        """Publish payloads."""
        raise NotImplementedError

    def _flush_soon(self) -> None:
        """Send what may leave, soon."""
        raise NotImplementedError

    def handled(self, delivery: Delivery) -> None:
        """Count a delivery as handled."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- hosting

    def add_kind(self, kind: Kind) -> None:
        """Host a kind from now on."""
        with self.lock:
            if kind.kind in self.kinds:
                raise ConfigurationError(f"receivers of kind {kind.kind!r} are hosted here already; close them first")
            self.kinds[kind.kind] = self._heads[kind.kind] = self._heads[kind.kind.removeprefix(":")] = kind
            self._hosts_changed()
            self._beat(self.now())
        kind.open()

    def unanswered(self, address: Address) -> RequestError:
        """Return the error of a request that was not answered in time."""
        if address.kind in self._heard_of:
            return RequestTimeoutError(f"{address} did not answer in time; it may have acted", str(address))
        kind = address.kind.removeprefix(":")
        return NoResponderError(
            f"{address}: no host of kind {kind!r} was heard of; is that its name, and does one run?"
        )

    def withdraw(self, *kinds: Any) -> None:
        """Own no partition of these kinds any more, and tell the others."""
        with self.lock:
            for kind in kinds:
                kind.ownership.leave()
            self._hosts_changed()
            if self.kinds:
                self._beat(self.now())

    def remove_kind(self, kind: Kind) -> None:
        """Host a kind no more."""
        with self.lock:
            for name in (kind.kind, kind.kind.removeprefix(":")):
                self.kinds.pop(name, None)
                self._heads.pop(name, None)
            self._hosts_changed()
            self._beat(self.now())

    def _beat(self, now: float) -> None:
        self._beat_at = now + BEAT
        kinds = {kind.kind: kind.partitions for kind in self.kinds.values() if not kind.ownership.is_leaving}
        self._publish(BEAT_TOPIC, [encode({"kinds": kinds})])

    def take_beat(self, delivery: Delivery) -> None:
        """Take beats of hosts."""
        peer, now = delivery.publisher_id, self.now()
        if peer == self.host:
            return
        with self.lock:
            for payload in delivery.payloads:
                try:
                    head, _ = decode(payload)
                    kinds = {str(kind): integer(count) for kind, count in dict(head["kinds"]).items()}
                except (MalformedError, KeyError, TypeError, ValueError):
                    self.statistics["malformed receiver messages"] += 1
                    continue
                if head.get("hello") and self.kinds:
                    self._beat_at = now
                known = self.beats.get(peer)
                if not kinds and known is None:
                    continue
                if (known is None and len(self.beats) >= HOSTS) or len(kinds) > KINDS:
                    self.statistics["malformed receiver messages"] += 1
                    continue
                if known is None or known.kinds != kinds or known.life != delivery.incarnation:
                    self.beats[peer] = Beat(delivery.incarnation, now, kinds)
                    self._hosts_changed()
                else:
                    known.at = now

    def note(self, event: PeerRemoved) -> None:
        """A peer has left; called within a turn."""
        with self.lock:
            self._lose(event.peer)

    def _lose(self, peer: str) -> None:
        if self.beats.pop(peer, None) is not None:
            self.outbox.lost(peer)
            self._hosts_changed()

    def _hosts_changed(self) -> None:
        """Tell outbox and kinds which hosts there are; the caller holds the lock."""
        hosts: dict[str, tuple[int, set[str]]] = {}
        for kind in self.kinds.values():
            hosts[kind.kind] = kind.partitions, {self.host}
            if kind.ownership.is_leaving:
                hosts[kind.kind][1].clear()
        lives: dict[str, dict[str, int]] = {kind: {} for kind in self.kinds}
        for peer, beat in self.beats.items():
            for name, partitions in beat.kinds.items():
                if not 0 < partitions <= PARTITIONS_MOST:
                    continue
                found = hosts.setdefault(name, (partitions, set()))
                if found[0] != partitions:
                    self.statistics["hosts with other partitions"] += 1
                    continue
                found[1].add(peer)
                if name in lives:
                    lives[name][peer] = beat.life
        if len(self._heard_of) < HEARD_OF:
            self._heard_of.update(hosts)
        changed = [kind for kind in {*hosts, *self.outbox.hosts} if hosts.get(kind) != self.outbox.hosts.get(kind)]
        self.outbox.hosts = {kind: found for kind, found in hosts.items() if found[1]}
        for name, others in lives.items():
            self.kinds[name].ownership.set_hosts(others)
        for name in changed:
            self.outbox.hosts_changed(name)
        self._flush_soon()


class BeatToken(Mailbox):
    """Receives the beats of hosts."""

    def __init__(self, runtime: HostRuntime) -> None:
        super().__init__()
        self._runtime = runtime

    def _deliver(self, event: Event) -> None:
        """Take beats."""
        if isinstance(event, Delivery):
            self._runtime.take_beat(event)
            self._runtime.handled(event)
