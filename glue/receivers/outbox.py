"""Messages that this endpoint sends to receivers: which host each goes to, and what is not answered yet.

A partition has a route. One batch of it at a time waits to be taken by the host; later messages gather meanwhile. If a
host refuses a batch, hands messages back, or is lost, the route stops until each message under way is settled, and then
sends all that were not handled again, in their order. So a receiver gets the messages of a sender in order, each at
least once; it knows repeated ones by their numbers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import inf

from glue.receivers.address import Address, choose, partition_of
from glue.receivers.wire import AGAIN, BATCH_MESSAGES, Item, Result

WAITING = 100_000
"""Messages that wait or are under way, of some 500 bytes and their payloads: 50 MB. More raise WouldBlockError."""
BATCH_BYTES = 256 << 10
PAUSE = 0.1
"""Seconds before a route that was refused is tried again, unless its hosts change before."""
REPEAT, REPEAT_MOST = 2.0, 30.0
"""Seconds without an answer after which what is under way is sent again: at first, then twice as long, and at most."""

Settle = Callable[[Result | None], None]
"""Called once with the result of a message; None: nobody took it in time."""


class Entry:
    """One message under way."""

    __slots__ = ("address", "batch", "item", "settle", "until")

    def __init__(self, address: Address, item: Item, until: float, settle: Settle | None) -> None:
        self.address = address
        self.item = item
        self.until = until
        self.settle = settle
        self.batch = 0


class Route:
    """The messages to one partition."""

    __slots__ = (
        "interval", "is_stopped", "kind", "next", "not_before", "owner", "partition", "queue", "repeat_at", "taking",
        "under_way",
    )  # fmt: skip

    def __init__(self, kind: str, partition: int) -> None:
        self.kind = kind
        self.partition = partition
        self.queue: deque[Entry] = deque()
        self.under_way: dict[int, Entry] = {}
        self.taking = 0  # the number of the batch that is not taken yet
        self.next = 1
        self.owner = ""  # the host that the batches under way went to
        self.is_stopped = False
        self.not_before = -inf
        self.interval, self.repeat_at = REPEAT, inf


class Outbox:
    """All routes of one endpoint. `hosts` gives the partitions and the hosts of a kind."""

    def __init__(self, statistics: Counter[str]) -> None:
        self.hosts: dict[str, tuple[int, set[str]]] = {}
        self.table: dict[tuple[str, int], str] = {}  # the owners that hosts told of
        self._routes: dict[tuple[str, int], Route] = {}
        self._unplaced: deque[Entry] = deque()  # of kinds that no host is known for
        self._batches: dict[int, Route] = {}
        self._dirty: dict[Route, None] = {}
        self._number = 0
        self.count = 0
        self._statistics = statistics

    def put(self, address: Address, body: bytes, is_json: bool, within: float, until: float,
            path: tuple[str, ...], settle: Settle | None) -> None:  # fmt: skip
        """Queue a message; `until` is when it is given up (monotonic seconds)."""
        self.count += 1
        entry = Entry(address, Item(0, address.id, body, is_json, within, path), until, settle)
        self._place(entry)

    def _place(self, entry: Entry) -> None:
        known = self.hosts.get(entry.address.kind)
        if known is None:
            self._unplaced.append(entry)
            return
        kind, partition = entry.address.kind, partition_of(entry.address.id, known[0])
        route = self._routes.get((kind, partition))
        if route is None:
            route = self._routes[kind, partition] = Route(kind, partition)
        entry.item = entry.item._replace(seq=route.next)
        route.next += 1
        route.queue.append(entry)
        self._dirty[route] = None

    def hosts_changed(self, kind: str) -> None:
        """The hosts of a kind have changed."""
        waiting, self._unplaced = self._unplaced, deque()
        for entry in waiting:
            self._place(entry)
        for route in self._routes.values():
            if route.kind == kind:
                route.not_before = -inf
                self._dirty[route] = None

    def flush(self, now: float) -> list[tuple[str, str, int, int, list[Item], int]]:
        """The batches to send now, as (host, kind, partition, partitions, items, number)."""
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
            out.append(self._batch(now, route, host))
        return out

    def _host(self, route: Route) -> str:
        known = self.hosts.get(route.kind)
        if known is None:
            return ""
        told = self.table.get((route.kind, route.partition), "")
        return told if told in known[1] else choose(route.kind, route.partition, known[1])

    def _batch(self, now: float, route: Route, host: str) -> tuple[str, str, int, int, list[Item], int]:
        self._number += 1
        items: list[Item] = []
        size = 0
        while route.queue and len(items) < BATCH_MESSAGES and size < BATCH_BYTES:
            entry = route.queue.popleft()
            entry.batch = self._number
            route.under_way[entry.item.seq] = entry
            items.append(entry.item)
            size += len(entry.item.body) + len(entry.item.id) + 20
        route.taking, route.owner = self._number, host
        route.repeat_at = now + route.interval
        self._batches[self._number] = route
        return host, route.kind, route.partition, self.hosts[route.kind][0], items, self._number

    @property
    def due(self) -> float:
        """When `flush` has something to do (monotonic seconds)."""
        return min([route.not_before for route in self._dirty], default=inf)

    # ---------------------------------------------------------------------------------------------- answers

    def taken(self, now: float, number: int, host: str) -> None:
        """A host has taken a batch: the next one may follow."""
        route = self._batches.get(number)
        if route is None or route.owner != host or route.taking != number:
            return
        route.taking = 0
        route.repeat_at = now + route.interval
        self.table[route.kind, route.partition] = host
        if not any(entry.batch == number for entry in route.under_way.values()):
            del self._batches[number]
        self._dirty[route] = None

    def moved(self, now: float, number: int, host: str, owner: str) -> None:
        """A host has refused a batch, as it does not own the partition; `owner` is who does, "" if unknown."""
        route = self._batches.get(number)
        if route is None or route.owner != host or route.taking != number:
            self._statistics["answers to unknown batches"] += 1
            return
        self._statistics["batches to a host that is no owner"] += 1
        self.table.pop((route.kind, route.partition), None)
        if owner and owner != host:
            self.table[route.kind, route.partition] = owner
        else:
            route.not_before = now + PAUSE
        for entry in [entry for entry in route.under_way.values() if entry.batch == number]:
            entry.batch = 0
        del self._batches[number]
        route.taking = 0
        self._stop(route)

    def results(self, now: float, number: int, host: str, results: list[Result]) -> list[Callable[[], None]]:
        """Take what became of messages; returns what to call outside of any lock."""
        route = self._batches.get(number)
        if route is None or route.owner != host:
            self._statistics["answers to unknown batches"] += 1
            return []
        calls: list[Callable[[], None]] = []
        is_again = False
        route.interval = REPEAT
        route.repeat_at = now + REPEAT
        for result in results:
            entry = route.under_way.get(result.seq)
            if entry is None or entry.batch != number:
                continue
            if result.status == AGAIN:
                entry.batch, is_again = 0, True
                continue
            del route.under_way[result.seq]
            self.count -= 1
            if entry.settle is not None:
                calls.append(_call(entry.settle, result))
        if route.taking != number and not any(entry.batch == number for entry in route.under_way.values()):
            del self._batches[number]
        if is_again:
            route.not_before = now + PAUSE
        if is_again or route.is_stopped:
            self._stop(route)
        return calls

    def _stop(self, route: Route) -> None:
        """Send again what was handed back, once nothing else of the route is under way."""
        if any(entry.batch for entry in route.under_way.values()):
            route.is_stopped = True
            return
        route.is_stopped = False
        back = sorted(route.under_way.values(), key=lambda entry: entry.item.seq)
        self._statistics["messages to receivers sent again"] += len(back)
        route.under_way.clear()
        route.queue.extendleft(reversed(back))
        self._dirty[route] = None

    def lost(self, host: str) -> None:
        """A host has left: everything under way to it goes to another one."""
        for key in [key for key, owner in self.table.items() if owner == host]:
            del self.table[key]
        for route in self._routes.values():
            if route.owner == host and route.under_way:
                self._recall(route)

    def _recall(self, route: Route) -> None:
        """Send everything under way again, as its answers may be lost."""
        for entry in route.under_way.values():
            self._batches.pop(entry.batch, None)
            entry.batch = 0
        self._batches.pop(route.taking, None)
        route.taking, route.owner, route.repeat_at = 0, "", inf
        self._stop(route)

    def expire(self, now: float) -> list[Callable[[], None]]:
        """Send again what has no answer, and give up what nobody took in time; what is under way may be handled."""
        calls: list[Callable[[], None]] = []
        for route in self._routes.values():
            if route.repeat_at <= now and route.under_way:
                route.interval = min(2 * route.interval, REPEAT_MOST)
                self._recall(route)
        for queue in [self._unplaced, *[route.queue for route in self._routes.values()]]:
            late = [entry for entry in queue if entry.until <= now]
            for entry in late:
                queue.remove(entry)
                self.count -= 1
                self._statistics["messages to receivers given up"] += 1
                if entry.settle is not None:
                    calls.append(_call(entry.settle, None))
        return calls


def _call(settle: Settle, result: Result | None) -> Callable[[], None]:
    return lambda: settle(result)
