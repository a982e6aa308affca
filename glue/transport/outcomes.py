"""Outcomes of messages, for each receiver: counted, and reported where a receipt was asked for.

Every message handed to transport for a peer ends there as delivered, repaired (delivered after a part of it was sent
again), or lost for a cause; a best-effort one as unconfirmed. Delivered means that the peer's transport has
acknowledged all of it, in order. Nothing is done for each message: flights carry how many end with them, and are
counted when they are let go of, once for all members. Receipts cost where they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf

from glue.contract import Outbound, Receipted, Undelivered, Upward
from glue.transport.flight import Flights
from glue.transport.member import Member


class Awaited:
    """Receipts for what ends before the frame `stop`, and the peers that have not acknowledged it."""

    __slots__ = ("peers", "receipts", "stop")

    def __init__(self, stop: int, receipts: Sequence[Hashable], peers: Iterable[str]) -> None:
        self.stop = stop
        self.receipts = receipts
        self.peers = dict.fromkeys(peers)


class Outcomes:
    """The accounting of one endpoint's transport; `news` has the events to hand up in the next turn."""

    __slots__ = ("news", "statistics")

    def __init__(self, statistics: Counter[str]) -> None:
        self.statistics = statistics
        self.news: list[Upward] = []

    def delivered(self, count: int, repaired: int) -> None:
        """Count delivered messages, `repaired` of them delivered only after a resend."""
        self.statistics["messages delivered"] += count - repaired
        if repaired:
            self.statistics["messages repaired"] += repaired

    def lost(self, peer: str, count: int, cause: str, receipts: Iterable[Hashable] = ()) -> None:
        """Count and report `count` messages that a peer will not get, and fail their receipts."""
        if count:
            self.statistics[f"messages lost: {cause}"] += count
            self.news.append(Undelivered(peer, count, cause))
        self.news += [Receipted(receipt, peer, cause) for receipt in receipts]

    def given_up(self, flights: Flights, awaited: Iterable[Awaited], member: Member, before: int, cause: str) -> None:
        """Count the messages that a member, which stood at frame `before`, was told to skip."""
        count = 0
        for flight in flights:
            if before < flight.stop <= member.skip:
                count += flight.item.messages
                flight.forgone |= {member.peer}
                flight.repaired -= {member.peer}
        self.lost(member.peer, count, cause, _forgotten(awaited, member.peer, member.skip))

    def expired(self, peers: Iterable[str], item: Outbound) -> None:
        """Count a message as expired for these peers: it was too old to be sent at all."""
        for peer in peers:
            self.lost(peer, item.messages, "expired", item.receipts)

    def removed(
        self,
        flights: Flights,
        awaited: Iterable[Awaited],
        unsent: Iterable[Outbound],
        member: Member,
        cause: str | None,
    ) -> None:
        """Count the messages of a member to be removed; without a cause, another channel sends the missing ones."""
        peer = member.peer
        had = [flight for flight in flights if flight.stop <= member.next and peer not in flight.forgone]
        repaired = sum([flight.item.messages for flight in had if peer in flight.repaired])
        self.delivered(sum([flight.item.messages for flight in had]), repaired)
        receipts = _forgotten(awaited, peer)
        if cause is not None:
            missing = [flight.item for flight in flights if flight.stop > member.next]
            receipts += [receipt for item in unsent for receipt in item.receipts]
            self.lost(peer, sum([item.messages for item in (*missing, *unsent)]), cause, receipts)

    def acknowledged(self, awaited: list[Awaited], members: Mapping[str, Member]) -> None:
        """Report the receipts of messages that have arrived; keep the other receipts in `awaited`."""
        for one in awaited:
            for peer in [peer for peer in one.peers if members[peer].next >= one.stop]:
                del one.peers[peer]
                self.news += [Receipted(receipt, peer) for receipt in one.receipts]
        awaited[:] = [one for one in awaited if one.peers]


def _forgotten(awaited: Iterable[Awaited], peer: str, upto: float = inf) -> list[Hashable]:
    """Remove this peer from the receipts of frames up to `upto`; return these receipts."""
    found: list[Hashable] = []
    for one in awaited:
        if one.stop <= upto and peer in one.peers:
            del one.peers[peer]
            found += one.receipts
    return found
