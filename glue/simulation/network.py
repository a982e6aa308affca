"""A virtual LAN: unicast between any two hosts, and multicast from each host to all hosts, itself included.

Each ordered pair of hosts is a `Link` with its own conditions and random numbers. Therefore each receiver of a
multicast loses datagrams independently. All datagrams are counted and can be observed, so tests can compare an
endpoint's view with the truth.
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
"""Largest datagram in bytes: Ethernet's 1,500 less 20 of IPv4 and 8 of UDP."""

TRAIN_SIZE = 65_507
"""Most bytes of an arriving train: the largest UDP payload, as with UDP_GRO."""

LOOPBACK = Conditions(delay=10e-6)
"""Conditions from a host to itself: no loss. The delay lets time pass when an endpoint answers itself."""

Rule = tuple[Host | None, Host | None]
"""Links that conditions apply to: source and destination, None for any."""


class Crossing(NamedTuple):
    """The known outcome of a datagram on a link.

    - `time`, `sent_at`: true times in seconds of the outcome, and of sending the datagram.
    - `destination`: address to which the datagram was sent, None for the multicast group.
    - `receiver`: address of the host at the end of the link.
    """

    time: float
    source: Address
    destination: Address | None
    receiver: Address
    data: bytes
    outcome: Outcome
    sent_at: float


class VirtualLan:
    """Network of a `World`: its links, conditions, cuts and counts.

    `observer`, if set, is called with a `Crossing` for each datagram on each link. While `carries_multicast` is False,
    multicast reaches only the sender itself, as in many clouds and guest networks.
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
        """Connect a host. `World.add` calls this method."""
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
        """Set the conditions of all links, of links from `source` or to `destination`, or of one link.

        The most specific setting applies: pair, then source, then destination, then all. A link from a host to itself
        has `LOOPBACK` unless this pair is set. Datagrams on their way keep the old conditions.

        The meaning of `rate` depends on the setting:

        - for a pair, the rate of this link;
        - for a source, the rate of all sending of this host, where a multicast counts once;
        - for a destination, the rate of all datagrams to this host;
        - for all, the rate of the sending of each host.
        """
        self._rules[source, destination] = conditions
        sources = self._links if source is None else [source]
        if destination is None:
            self._obey_rules(link for sender in sources for link in self._links[sender].values())
        else:
            self._obey_rules(self.link(sender, destination) for sender in sources)

    def repeat(self, source: Host, destination: Host, outcomes: RecordedOutcomes) -> None:
        """Give datagrams on one link the recorded fates. Conditions no longer apply to this link."""
        self.link(source, destination).outcomes = outcomes

    def clear_conditions(self) -> None:
        """Remove all conditions set. Every link is as `Conditions()` again."""
        self._rules.clear()
        self._obey_rules(self._all_links())

    def _obey_rules(self, links: Iterable[Link]) -> None:
        for link in links:
            sharers, conditions = self._rule(link.source, link.destination)
            link.set_conditions(conditions, self._port(sharers, conditions))

    def _rule(self, source: Host, destination: Host) -> tuple[Rule, Conditions]:
        """Return the links that share the link's port, and the link's conditions."""
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
        """Let hosts reach only hosts of their own group. Hosts that are not named form one more group.

        The call replaces an earlier partition and takes effect at once: datagrams on their way to another group are
        lost. Raises ConfigurationError for a host in two groups.
        """
        members = {host: number for number, group in enumerate(groups) for host in group}
        if len(members) < sum(map(len, groups)):
            raise ConfigurationError(f"partition{groups!r}: expected each host in one group only")
        self._groups = members
        for link in self._all_links():
            link.is_partitioned = members.get(link.source) != members.get(link.destination)

    def block(self, source: Host, destination: Host) -> None:
        """Cut this direction, in addition to any partition. Datagrams on their way are lost."""
        self.link(source, destination).is_blocked = True

    def unblock(self, source: Host, destination: Host) -> None:
        """Undo `block`."""
        self.link(source, destination).is_blocked = False

    def heal(self) -> None:
        """Undo the partition and every `block`. Conditions stay."""
        self.partition()
        for link in self._all_links():
            link.is_blocked = False

    # ------------------------------------------------------------------------------------------------ counts

    def link(self, source: Host, destination: Host) -> Link:
        """Return the link from one host to another. Its `counts` are the truth about its datagrams."""
        return self._links[source][destination.address]

    def counters(self) -> dict[tuple[Address, Address], Counter[str]]:
        """Return a copy of the counts of every link, by source and destination; see `Link`."""
        return {(link.source.address, link.destination.address): Counter(link.counters) for link in self._all_links()}

    def totals(self) -> Counter[str]:
        """Return the sum of all links' counts. Datagrams to no host's address count only as "unknown destination"."""
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
        """Send a host's train. `Host` calls this method.

        Raises SimulationError for a datagram larger than `datagram_size`, which IP would fragment.
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
        departures: dict[Port, list[float | None]] = {}  # a port that several receivers share sends once for all
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
        """Count the outcome of these datagrams at the link, and report them to the observer, if there is one."""
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
