"""Messages that this endpoint sends to receivers: the host of each, and the unanswered messages.

A partition has a route. One batch of it at a time waits to be taken by the host; later messages gather meanwhile. If a
host refuses a batch, hands messages back, or is lost, the route stops until each message under way is settled. Then it
sends all unhandled messages again, in order. Therefore a receiver gets the messages of a sender in order, each at least
once; repeated ones are known by their numbers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from glue.receivers.address import choose, partition_of
from glue.receivers.wire import AGAIN, BATCH_MESSAGES, Report, Result

WAITING = 100_000
"""Messages that wait or are under way, of some 300 bytes and their payloads: 30 MB. More raise WouldBlockError."""
BATCH_BYTES = 256 << 10
PAUSE = 0.1
"""Seconds before a route that was refused is tried again, unless its hosts change before."""
PAUSE_FIRST = 0.02
"""The same after the first refusal, as a partition is handed over in a moment; then twice as long each time."""
REFUSALS = 2
"""Refusals in a row after which a route goes to a named owner only after a pause."""
REPEAT, REPEAT_MOST = 2.0, 30.0
"""Seconds without an answer after which what is under way is sent again: at first, then twice as long, and at most."""
GIVE_UP = 60.0
"""Seconds until a message without an answer is given up, while no host takes any of its route."""
HANDLED = Result(0, 0)
"""The result of a message that was handled, and has no answer."""

Settle = Callable[[Result | None], None]
"""Called once with the result of a message; None: nobody took it in time."""


class Entry(NamedTuple):
    """One message; `until` is when it is given up (monotonic seconds), `within` the seconds of the sender's wait."""

    seq: int
    id: str
    body: bytes
    is_json: bool
    until: float
    within: float
    path: tuple[str, ...]
    settle: Settle | None


class Sent(NamedTuple):
    """A batch under way: its messages by their numbers."""

    number: int
    route: Route
    entries: dict[int, Entry]


class Route:
    """The messages to one partition."""

    __slots__ = (
        "back", "batches", "interval", "is_stopped", "kind", "next", "not_before", "owner", "partition", "partitions",
        "progressed_at", "queue", "refusals", "repeat_at", "taking",
    )  # fmt: skip

    def __init__(self, kind: str, partition: int, partitions: int, first: int) -> None:
        """`first`: the number of its first message."""
        self.kind = kind
        self.partition = partition
        self.partitions = partitions
        self.queue: deque[Entry] = deque()
        self.batches: dict[int, Sent] = {}  # under way, by their numbers
        self.back: list[Entry] = []  # to be sent again, once nothing is under way
        self.taking = 0  # the number of the batch that is not taken yet
        self.next = first
        self.owner = ""  # the host that the batches under way went to
        self.is_stopped = False
        self.refusals = 0  # in a row
        self.not_before = -inf
        self.progressed_at = -inf  # when a host last took or handled a batch
        self.interval, self.repeat_at = REPEAT, inf

    @property
    def is_busy(self) -> bool:
        """Whether messages wait or are under way."""
        return bool(self.queue or self.batches or self.back)


class Outbox:
    """All routes of one endpoint. `hosts` gives the partitions and the hosts of a kind."""

    def __init__(self, statistics: Counter[str]) -> None:
        self.hosts: dict[str, tuple[int, set[str]]] = {}
        self.table: dict[tuple[str, int], str] = {}  # the owners that hosts told of
        self._routes: dict[str, list[Route]] = {}
        self._first: dict[str, int] = {}  # of kinds that had another number of partitions: the next message
        self._unplaced: dict[str, deque[Entry]] = {}  # of kinds that no host is known for
        self._batches: dict[int, Sent] = {}
        self._dirty: dict[Route, None] = {}
        self._number = 0
        self.count = 0
        self._statistics = statistics

    def put(
        self, kind: str, id: str, body: bytes, is_json: bool, until: float, within: float = 0.0,
        path: tuple[str, ...] = (), settle: Settle | None = None,
    ) -> bool:  # fmt: skip
        """Queue a message; returns whether `flush` has something to do.

        `until` is when it is given up (monotonic seconds), `within` the seconds of the sender's wait, 0 for no answer.
        """
        self.count += 1
        routes = self._routes.get(kind)
        if routes is None:
            routes = self._open(kind)
            if routes is None:
                waiting = self._unplaced.setdefault(kind, deque())
                waiting.append(Entry(0, id, body, is_json, until, within, path, settle))
                return False
        route = routes[partition_of(id, len(routes))]
        route.queue.append(Entry(route.next, id, body, is_json, until, within, path, settle))
        route.next += 1
        if route.taking or route.is_stopped:
            return False
        self._dirty[route] = None
        return True

    def _open(self, kind: str) -> list[Route] | None:
        known = self.hosts.get(kind)
        if known is None:
            return None
        first = self._first.get(kind, 1)
        found = self._routes[kind] = [Route(kind, partition, known[0], first) for partition in range(known[0])]
        return found

    def is_busy(self, kind: str, partition: int) -> bool:
        """Whether messages to a partition wait or are under way."""
        if kind in self._unplaced:
            return True
        routes = self._routes.get(kind)
        return routes is not None and routes[partition].is_busy

    def hosts_changed(self, kind: str) -> None:
        """The hosts of a kind have changed."""
        known, routes = self.hosts.get(kind), self._routes.get(kind)
        if known is None:
            return
        if routes is not None and len(routes) != known[0]:
            self._number_anew(kind, routes)
            routes = None
        for entry in self._unplaced.pop(kind, ()):
            self.count -= 1
            self.put(kind, entry.id, entry.body, entry.is_json, entry.until, entry.within, entry.path, entry.settle)
        for route in routes or ():
            route.not_before = -inf  # one with something to send is dirty all the while

    def _number_anew(self, kind: str, routes: list[Route]) -> None:
        """The kind has another number of partitions than before: its messages take other routes.

        They get higher numbers than before, as receivers remember those of this endpoint.
        """
        self._first[kind] = max(route.next for route in routes)
        del self._routes[kind]
        for route in routes:
            self._dirty.pop(route, None)
            if route.batches:
                self._recall(route)
                self._dirty.pop(route, None)
            self._unplaced.setdefault(kind, deque()).extend(route.queue)

    def flush(self, now: float) -> list[tuple[str, Sent]]:
        """The batches to send now, each with its host."""
        out = []
        for route in list(self._dirty):
            if route.not_before > now:
                continue
            del self._dirty[route]
            if route.taking or route.is_stopped or not route.queue:
                continue
            host = self._host(route)
            if not host:
                route.not_before = now + PAUSE
                self._dirty[route] = None
                continue
            out.append((host, self._batch(now, route, host)))
        return out

    def _host(self, route: Route) -> str:
        known = self.hosts.get(route.kind)
        if known is None:
            return ""
        told = self.table.get((route.kind, route.partition), "")
        return told if told in known[1] else choose(route.kind, route.partition, known[1])

    def _batch(self, now: float, route: Route, host: str) -> Sent:
        self._number += 1
        entries: dict[int, Entry] = {}
        queue, size = route.queue, 0
        while queue and len(entries) < BATCH_MESSAGES and size < BATCH_BYTES:
            entry = queue.popleft()
            if entry.within:
                entry = entry._replace(within=max(0.001, entry.until - now))
            entries[entry.seq] = entry
            size += len(entry.body) + len(entry.id) + 20
        route.taking, route.owner = self._number, host
        route.repeat_at = now + route.interval
        sent = self._batches[self._number] = route.batches[self._number] = Sent(self._number, route, entries)
        return sent

    @property
    def due(self) -> float:
        """When `flush` has something to do (monotonic seconds)."""
        return min([route.not_before for route in self._dirty], default=inf)

    # ---------------------------------------------------------------------------------------------- answers

    def report(self, now: float, host: str, report: Report) -> list[Callable[[], None]]:
        """Take what became of messages at a host; returns what to call outside of any lock."""
        calls: list[Callable[[], None]] = []
        here = set(report.taken)
        for number in report.taken:
            self._taken(now, number, host, here)
        for number, owner in report.moved:
            self._moved(now, number, host, owner)
        for number, seqs in report.done:
            sent = self._sent(now, number, host)
            if sent is not None:
                self._handled(sent, list(sent.entries) if seqs is None else seqs, HANDLED, calls)
        for number, result in report.results:
            sent = self._sent(now, number, host)
            if sent is None:
                continue
            if result.status != AGAIN:
                self._handled(sent, (result.seq,), result, calls)
                continue
            entry = sent.entries.pop(result.seq, None)
            if entry is not None:
                sent.route.back.append(entry)
                sent.route.not_before = now + PAUSE
                self._ended(sent)
                self._stop(sent.route)
        return calls

    def _sent(self, now: float, number: int, host: str) -> Sent | None:
        sent = self._batches.get(number)
        if sent is None or sent.route.owner != host:
            self._statistics["answers to unknown batches"] += 1
            return None
        sent.route.interval = REPEAT
        sent.route.repeat_at = now + REPEAT
        sent.route.progressed_at = now
        return sent

    def _handled(self, sent: Sent, seqs: object, result: Result, calls: list[Callable[[], None]]) -> None:
        for seq in seqs:  # type: ignore[attr-defined]
            entry = sent.entries.pop(seq, None)
            if entry is not None:
                self.count -= 1
                if entry.settle is not None:
                    calls.append(_call(entry.settle, result))
        self._ended(sent)
        if sent.route.is_stopped:
            self._stop(sent.route)

    def _ended(self, sent: Sent) -> None:
        """Forget a batch once it was taken, and nothing of it is under way."""
        if not sent.entries and sent.route.taking != sent.number:
            self._batches.pop(sent.number, None)
            sent.route.batches.pop(sent.number, None)

    def _taken(self, now: float, number: int, host: str, here: set[int]) -> None:
        """Note that a host has taken a batch, so the next may follow; or still has all batches of the route."""
        sent = self._batches.get(number)
        if sent is None or sent.route.owner != host:
            return
        route = sent.route
        if route.taking != number:
            if here.issuperset(one for one in route.batches if one != route.taking) and not route.taking:
                route.repeat_at = now + route.interval
            return
        route.taking = route.refusals = 0
        route.progressed_at = now
        route.repeat_at = now + route.interval
        self.table[route.kind, route.partition] = host
        self._ended(sent)
        if route.is_stopped:
            self._stop(route)
        elif route.queue:
            self._dirty[route] = None

    def _moved(self, now: float, number: int, host: str, owner: str) -> None:
        """Note that a host refused a batch, as it is not the owner; `owner` is the owner, "" if unknown."""
        sent = self._batches.get(number)
        if sent is None or sent.route.owner != host or sent.route.taking != number:
            self._statistics["answers to unknown batches"] += 1
            return
        route = sent.route
        self._statistics["batches to a host that is no owner"] += 1
        self.table.pop((route.kind, route.partition), None)
        route.refusals += 1
        is_named = bool(owner) and owner != host
        if is_named:
            self.table[route.kind, route.partition] = owner
        if not is_named or route.refusals > REFUSALS:  # hosts may name each other, until both know the owner
            route.not_before = now + min(PAUSE, PAUSE_FIRST * 2 ** min(route.refusals - 1, 8))
        route.taking = 0
        route.back += sent.entries.values()
        sent.entries.clear()
        self._ended(sent)
        self._stop(route)

    def _stop(self, route: Route) -> None:
        """Send again what was handed back, once nothing else of the route is under way."""
        if route.batches:
            route.is_stopped = True
            return
        route.is_stopped = False
        route.repeat_at = inf
        back, route.back = sorted(route.back, key=lambda entry: entry.seq), []
        self._statistics["messages to receivers sent again"] += len(back)
        route.queue.extendleft(reversed(back))
        if route.queue:
            self._dirty[route] = None

    def lost(self, host: str) -> None:
        """A host has left: everything under way to it goes to another one."""
        for key in [key for key, owner in self.table.items() if owner == host]:
            del self.table[key]
        for routes in self._routes.values():
            for route in routes:
                if route.owner == host and route.batches:
                    self._recall(route)

    def _recall(self, route: Route) -> None:
        """Send everything under way again, as its answers may be lost."""
        for sent in route.batches.values():
            route.back += sent.entries.values()
            self._batches.pop(sent.number, None)
        route.batches.clear()
        route.taking, route.owner = 0, ""
        self._stop(route)

    def expire(self, now: float) -> list[Callable[[], None]]:
        """Send unanswered batches again, and give up messages not taken in time; those under way may be handled."""
        calls: list[Callable[[], None]] = []
        for kind, waiting in list(self._unplaced.items()):
            self._unplaced[kind] = self._unexpired(now, waiting, calls)
            if not self._unplaced[kind]:
                del self._unplaced[kind]
        for routes in self._routes.values():
            for route in routes:
                if route.repeat_at <= now and route.batches:
                    route.interval = min(2 * route.interval, REPEAT_MOST)
                    self._recall(route)
                if route.queue:
                    route.queue = self._unexpired(now, route.queue, calls, route.progressed_at)
        return calls

    def _unexpired(
        self, now: float, queue: deque[Entry], calls: list[Callable[[], None]], progressed_at: float = -inf
    ) -> deque[Entry]:
        is_stuck = progressed_at + GIVE_UP <= now
        left: deque[Entry] = deque()
        for entry in queue:
            if entry.until > now or not (entry.within or is_stuck):
                left.append(entry)
                continue
            self.count -= 1
            self._statistics["messages to receivers given up"] += 1
            if entry.settle is not None:
                calls.append(_call(entry.settle, None))
        return left


def _call(settle: Settle, result: Result | None) -> Callable[[], None]:
    return lambda: settle(result)
