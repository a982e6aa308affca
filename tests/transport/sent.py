"""The sending end of a channel alone, after it has sent so much."""

from __future__ import annotations

from collections import Counter

from glue.contract import NORMAL, Outbound
from glue.transport.channel import Channel
from glue.transport.member import Member
from glue.transport.outcomes import Outcomes
from glue.transport.window import Window
from glue.transport.wire import DATA, GROUP, KEY

NOW = 100.0


class Sent:
    """A channel to so many peers with flights of so many frames, sent a millisecond after each other up to NOW."""

    def __init__(self, peers: int, *flights: int) -> None:
        self.statistics: Counter[str] = Counter()
        self.ids = tuple(f"{number:016x}" for number in range(peers))
        outcomes = Outcomes(self.statistics)
        self.channel = Channel(7, (self.ids, NORMAL), self.ids, Window, self.statistics, outcomes)
        for place, count in enumerate(flights):
            at = NOW - (len(flights) - 1 - place) / 1000
            first = sum(flights[:place])
            bodies = [b"%05d" % number for number in range(first, first + count)]
            self.channel.launch(at, Outbound(self.ids, bodies, messages=1), 5 * count, at, True)

    def __getitem__(self, number: int) -> Member:
        return self.channel.members[self.ids[number]]

    def detach(self, number: int) -> None:
        self[number].detached = True
        self.channel.regroup()


class Held:
    """Frames of another channel that nobody has."""

    def holds_one(self, peer: str) -> bool:
        return True


def told(out: list[Outbound]) -> list[tuple[tuple[str, ...], list[int], int, int]]:
    """Of each item: its destination, its frames, their attempt, and the sequence of the first."""
    found = []
    for item in out:
        entry = item.header[KEY]
        fields = (GROUP if entry[0] == "group" else DATA).named(entry)
        found.append((item.peers, [int(bytes(body)) for body in item.bodies], fields["attempt"], fields["sequence"]))
    return found
