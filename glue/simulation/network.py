"""A virtual LAN: every host reaches every other by unicast, and all of them, itself too, by multicast.

Each ordered pair of hosts is a `Link` with conditions and luck of its own, so that of one multicast each
receiver gets or misses what it would on its own cable. All of it is counted and can be watched: the network
knows the truth that the endpoints have to find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from glue.contract import Address, Train
from glue.errors import ConfigurationError
from glue.simulation.conditions import Conditions
from glue.simulation.host import Host
from glue.simulation.link import Link, Outcome, Port, split
from glue.simulation.machine import SimulationError
from glue.simulation.recorded import RecordedOutcomes
from glue.simulation.schedule import Schedule
from glue.simulation.trace import ARRIVED, SENT

DATAGRAM_SIZE = 1472
"""The largest datagram: Ethernet's 1,500 bytes less 20 of IPv4 and 8 of UDP."""

TRAIN_SIZE = 65_507
"""The most bytes that arrive as one train: the largest UDP payload, as with UDP_GRO."""

LOOPBACK = Conditions(delay=10e-6)
"""From a host to itself nothing is lost; the delay keeps one that answers itself from stopping the time."""

Rule = tuple[Host | None, Host | None]
"""For which links conditions are set: the source and the destination, None for any."""


class Crossing(NamedTuple):
    """One datagram whose outcome on one link is known.

    `time` is when (true time), `sent_at` when it was sent, `destination` the address it was sent to (None:
    the multicast group) and `receiver` the host at the end of this link.
    """

    time: float
    source: Address
    destination: Address | None
    receiver: Address
    data: bytes
    outcome: Outcome
    sent_at: float


class VirtualLan:
    """The network of a `World`: its conditions, its cuts, and what it counted.

    `observer`, if set, is called with a `Crossing` for each datagram on each link. While `carries_multicast` is
    False, multicast reaches nobody but its own sender, as in many clouds and guest networks.
    """

    datagram_size = DATAGRAM_SIZE

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self.observer: Callable[[Crossing], object] | None = None
        self.carries_multicast = True
        self._schedule = schedule
        self._seed = seed
        self._links: dict[Host, dict[Address, Link]] = {}
        self._rules: dict[Rule, Conditions] = {}
        self._ports: dict[Rule, Port] = {}
        self._groups: dict[Host, int] = {}
        self._to_unknown = 0

    def attach(self, host: Host) -> None:
        """Plug a host in; `World.add` does it."""
        self._links[host] = {}
        for other in self._links:
            self._connect(host, other)
            if other is not host:
                self._connect(other, host)

    def _connect(self, source: Host, destination: Host) -> None:
        link = self._links[source][destination.address] = Link(source, destination, self._seed)
        link.is_partitioned = self._groups.get(source) != self._groups.get(destination)
        self._obey_rules([link])

    # -------------------------------------------------------------------------------------------- conditions

    def set_conditions(
        self, conditions: Conditions, *, source: Host | None = None, destination: Host | None = None
    ) -> None:
        """Let all links be so, or those from `source`, or to `destination`, or the one between them.

        The most specific one set counts: of the pair, then of the source, then of the destination, then of
        all; from a host to itself `LOOPBACK` holds unless set for that pair. A `rate` limits the one link
        when set for a pair; all that the source sends together (a multicast counts once), or all that the
        destination is sent together; when set for all, each host's sending. What is on its way already is
        not touched.
        """
        self._rules[source, destination] = conditions
        sources = self._links if source is None else [source]
        if destination is None:
            self._obey_rules(link for sender in sources for link in self._links[sender].values())
        else:
            self._obey_rules(self.link(sender, destination) for sender in sources)

    def repeat(self, source: Host, destination: Host, outcomes: RecordedOutcomes) -> None:
        """Let the one link between them do what it did once; conditions do not count there any more."""
        self.link(source, destination).outcomes = outcomes

    def clear_conditions(self) -> None:
        """Forget all conditions set: every link is as `Conditions()` again."""
        self._rules.clear()
        self._obey_rules(self._all_links())

    def _obey_rules(self, links: Iterable[Link]) -> None:
        for link in links:
            sharers, conditions = self._rule(link.source, link.destination)
            link.set_conditions(conditions, self._port(sharers, conditions))

    def _rule(self, source: Host, destination: Host) -> tuple[Rule, Conditions]:
        """The conditions of a link, and which links share its port."""
        pair = (source, destination)
        if source is destination:
            return pair, self._rules.get(pair, LOOPBACK)
        for rule in (pair, (source, None), (None, destination)):
            if rule in self._rules:
                return rule, self._rules[rule]
        return (source, None), self._rules.get((None, None), Conditions())

    def _port(self, sharers: Rule, conditions: Conditions) -> Port | None:
        if conditions.rate is None:
            return None
        port = self._ports.get(sharers)
        if port is None or (port.rate, port.queue) != (conditions.rate, conditions.queue):
            port = self._ports[sharers] = Port(conditions.rate, conditions.queue)
        return port

    # -------------------------------------------------------------------------------------------------- cuts

    def partition(self, *groups: Sequence[Host]) -> None:
        """Let hosts reach only those in their own group; those not named are together in one more group.

        Replaces the partition before. It works at once: what is on its way across is lost. Raises
        ConfigurationError for a host in two groups.
        """
        members = {host: number for number, group in enumerate(groups) for host in group}
        if len(members) < sum(map(len, groups)):
            raise ConfigurationError(f"partition{groups!r}: expected each host in one group only")
        self._groups = members
        for link in self._all_links():
            link.is_partitioned = members.get(link.source) != members.get(link.destination)

    def block(self, source: Host, destination: Host) -> None:
        """Let nothing pass in this direction, whatever the partition; what is on its way is lost."""
        self.link(source, destination).is_blocked = True

    def unblock(self, source: Host, destination: Host) -> None:
        """Undo `block`."""
        self.link(source, destination).is_blocked = False

    def heal(self) -> None:
        """Undo the partition and every `block`; the conditions stay."""
        self.partition()
        for link in self._all_links():
            link.is_blocked = False

    # ------------------------------------------------------------------------------------------------ counts

    def link(self, source: Host, destination: Host) -> Link:
        """The link from one host to another; its `counts` are the truth about it."""
        return self._links[source][destination.address]

    def counters(self) -> dict[tuple[Address, Address], Counter[str]]:
        """A copy of the counts of every link, by source and destination; see `Link`."""
        return {(link.source.address, link.destination.address): Counter(link.counters) for link in self._all_links()}

    def totals(self) -> Counter[str]:
        """The counts of all links added up; datagrams to no host's address only as "unknown destination"."""
        totals: Counter[str] = Counter()
        for link in self._all_links():
            totals.update(link.counters)
        if self._to_unknown:
            totals["unknown destination"] = self._to_unknown
        return totals

    def _all_links(self) -> Iterator[Link]:
        return (link for links in self._links.values() for link in links.values())

    # ------------------------------------------------------------------------------------------- the traffic

    def transmit(self, source: Host, train: Train) -> None:
        """Send a host's train; `Host` does it.

        Raises SimulationError for a datagram larger than `datagram_size`, which IP would have to fragment.
        """
        data, segment = bytes(train.data), train.segment
        if segment < 1 or min(segment, len(data)) > DATAGRAM_SIZE:
            raise SimulationError(
                f"{source} sent {len(data)} bytes as datagrams of {segment}: expected 1 to {DATAGRAM_SIZE} each"
            )
        trace, now, links = self._schedule.trace, self._schedule.time, self._links[source]
        trace.record(SENT, now, source.index, not train.address, segment, data)
        to = train.address or None
        link = links.get(to) if to else None
        if to and link is None:
            self._lose_to_unknown(source, to, data, segment)
            return
        ways = tuple(links.values()) if link is None else (link,)
        size = max(1, TRAIN_SIZE // segment) * segment
        if len(data) <= size:
            self._send(ways, to, data, segment)
        else:
            for start in range(0, len(data), size):
                self._send(ways, to, data[start : start + size], segment)

    def _send(self, ways: Sequence[Link], to: Address | None, data: bytes, segment: int) -> None:
        now, call_at = self._schedule.time, self._schedule.call_at
        departures: dict[Port, list[float | None]] = {}  # a port shared by several receivers sends once for all
        count = _count(data, segment)
        for link in ways:
            link.counters["sent"] += count
            link.counters["sent bytes"] += len(data)
            if not link.source.is_up:
                self._finish(link, to, data, segment, "sender down", now)
                continue
            if link.is_cut or (to is None and not self.carries_multicast and link.source is not link.destination):
                self._finish(link, to, data, segment, "cut", now)
                continue
            port = link.port
            if port is not None and port not in departures:
                departures[port] = port.departures(now, data, segment)
            arrivals, missing = link.carry(now, data, segment, departures[port] if port else None)
            for time, part, part_segment in arrivals:
                call_at(time, self._arrive, link, to, part, part_segment, now)
            for datagram, outcome in missing:
                self._finish(link, to, datagram, segment, outcome, now)

    def _arrive(self, link: Link, to: Address | None, data: bytes, segment: int, sent_at: float) -> None:
        source, destination = link.source, link.destination
        outcome: Outcome = "arrived"
        if link.is_cut:
            outcome = "cut"
        elif not destination.is_listening:
            outcome = "receiver down"
        elif not destination.receive(source.address, data, segment, to is None):
            outcome = "buffer full"
        else:
            self._schedule.trace.record(ARRIVED, self._schedule.time, source.index, destination.index, len(data), data)
            link.counters["arrived bytes"] += len(data)
        self._finish(link, to, data, segment, outcome, sent_at)

    def _finish(
        self, link: Link, to: Address | None, data: bytes, segment: int, outcome: Outcome, sent_at: float
    ) -> None:
        """The outcome of these datagrams is known."""
        link.counters[outcome] += _count(data, segment)
        if self.observer is not None:
            self._show(link.source, to, link.destination.address, data, segment, outcome, sent_at)

    def _lose_to_unknown(self, source: Host, to: Address, data: bytes, segment: int) -> None:
        self._to_unknown += _count(data, segment)
        if self.observer is not None:
            self._show(source, to, to, data, segment, "unknown destination", self._schedule.time)

    def _show(
        self,
        source: Host,
        to: Address | None,
        receiver: Address,
        data: bytes,
        segment: int,
        outcome: Outcome,
        sent_at: float,
    ) -> None:
        assert self.observer is not None
        for datagram in split(data, segment):
            self.observer(Crossing(self._schedule.time, source.address, to, receiver, datagram, outcome, sent_at))


def _count(data: bytes, segment: int) -> int:
    return -(-len(data) // segment) or 1
