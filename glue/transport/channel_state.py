"""The state of the sending end of a channel, for the policies of the channel.

The policies are `slow_receivers`, `recovery` and `fec.policy`. `channel` calls these modules; they do not import
`channel`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable

from glue.contract import Flow, Outbound, advanced
from glue.transport.barrier import Barrier, PendingMessage
from glue.transport.fec.state import FecState
from glue.transport.flight import Flight, Flights
from glue.transport.member import Member
from glue.transport.outcomes import Awaited, Outcomes
from glue.transport.window import Window
from glue.transport.wire import DATA, GROUP, KEY, MAX_AGE_MS, MAX_ATTEMPT, WINDOW

PEER_ASLEEP, OWN_SLEEP = "peer asleep", "own sleep"
"""Why a channel is paused: its receiver sleeps, or this endpoint does."""

NEVER_HELD = 1 << 62  # bytes: more than any channel has

_PACK = {entry.kind: entry.packer("attempt", "age_ms", "channel", "sequence") for entry in (DATA, GROUP)}


class ChannelState:
    """Members, flights, the queue and the sequences of one channel."""

    __slots__ = (
        "_deadline", "_fresh", "_limit", "_queue", "_queued", "ahead", "attached", "awaited", "base", "destinations",
        "fec", "flights", "flow", "handed_over", "kind", "members", "needed", "next", "number", "outcomes", "paused",
        "peers", "scattered", "statistics", "transmissions", "unicast_only", "waits_for_some",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        flow: Flow,
        peers: tuple[str, ...],
        make_window: Callable[[int], Window],
        statistics: Counter[str],
        outcomes: Outcomes,
        parity: float | None = None,
    ) -> None:
        """Set up for `peers`: all peers of the flow, or one peer for the rest of another channel of the flow."""
        self.number = number
        self.flow = flow
        self.peers = peers
        self.kind = "data" if len(peers) == 1 else "group"
        self.members = {peer: Member(peer, make_window(flow[1]), len(peers) > 1) for peer in peers}
        self.attached = list(self.members.values())  # those that are served together
        self.statistics = statistics
        self.next = 0  # the next sequence to send
        self.base = 0  # every frame below is acknowledged by all attached members
        self.needed = 0  # every frame below is acknowledged by all members
        self.flights = Flights()
        self.outcomes = outcomes
        self.awaited: list[Awaited] = []  # by receipts
        self.unicast_only = False  # whether each member is served by unicast, so that no other peer listens
        self.scattered: Barrier | None = None  # before it lies what is for several, but came here for want of a group
        self.handed_over: dict[str, Barrier] = {}  # by peer that gets the rest on another channel: what had been sent
        self.fec = FecState(parity)
        self.destinations = [peers if len(peers) == 1 else ()]  # where frames for all attached members go
        self.transmissions = 0
        self.waits_for_some = False  # whether nothing new is sent until members that were silent have caught up
        self._deadline: float | None = math.inf  # no later than it is; None: to be found anew
        self._limit = WINDOW  # frames below this every attached member is ready to take, and maybe some beyond
        self._queue: deque[PendingMessage] = deque()
        self._queued = 0  # bytes
        self.ahead: list[Barrier] = []  # the next message waits for these, as one before it did that gave way
        self.paused = ""  # why nothing is sent; see `glue.transport.sleepers`
        self._fresh = NEVER_HELD  # bytes handed over since the receiver woke up

    @property
    def is_multicast(self) -> bool:
        """Whether new frames go to all by multicast."""
        return self.destinations == [()]

    @property
    def idle(self) -> bool:
        """Whether everything handed to the channel is done with."""
        return not self._queue and not self.flights

    @property
    def waiting(self) -> bool:
        """Whether anything waits to be sent for the first time."""
        return bool(self._queue)

    @property
    def backlog(self) -> int:
        """Bytes queued, or sent and not yet acknowledged by every attached member."""
        if self.paused == PEER_ASLEEP:
            return 0  # no publisher waits for what waits for it
        size = self._queued + self.flights.open_size
        return size if size < self._fresh else self._fresh

    @property
    def size(self) -> int:
        """Bytes queued, or sent and not yet acknowledged, whether a publisher waits for them or not."""
        return self._queued + self.flights.open_size

    @property
    def unfinished(self) -> int:
        """Messages queued or on their way, once for each member; none if the receiver sleeps."""
        return 0 if self.paused == PEER_ASLEEP else self.messages

    @property
    def messages(self) -> int:
        """Messages queued or on their way, once for each member, whether they are waited for or not."""
        members = len(self.members)
        sent = sum([flight.item.messages * (members - len(flight.forgone)) for flight in self.flights])
        return sent + members * sum([pending.item.messages for pending in self._queue])

    def arm(self) -> None:
        """Let the deadline be found anew; after anything that may move a member's timers."""
        self._deadline = None

    def regroup(self) -> None:
        """Bring all that depends on the set of attached members up to date."""
        self.attached = [member for member in self.members.values() if not member.detached]
        if self.unicast_only or len(self.attached) == 1:
            self.destinations = [(member.peer,) for member in self.attached]
        else:
            self.destinations = [()]
        self.renewed_limit()
        self.release()
        self.arm()

    def renewed_limit(self) -> int:
        """Recompute and return the limit; callers need this only when they reach the old limit."""
        self._limit = limit = min([member.limit for member in self.attached], default=self.next)
        return limit

    def release(self) -> None:
        """Let go of the frames that every member has."""
        base = needed = min([member.next for member in self.members.values()], default=self.next)
        if len(self.attached) < len(self.members):
            base = min([member.next for member in self.attached], default=self.next)
        if base > self.base or needed > self.needed:
            self.base, self.needed = base, needed
            flights = self.flights
            flights.release(base, needed, self.members)
            if flights.messages:
                self.outcomes.delivered(flights.messages, flights.repairs)
                flights.messages = flights.repairs = 0

    def frames(
        self, now: float, flight: Flight, skip: int, count: int, attempt: int, peers: tuple[str, ...]
    ) -> Outbound:
        """Some frames of a flight, ready to go to one peer, or (none given) to all by multicast."""
        item = flight.item
        bodies = item.bodies
        header = advanced(item.header, skip) if skip else dict(item.header)
        age = 0 if now <= flight.since else min(int((now - flight.since) * 1000), MAX_AGE_MS)
        if attempt > MAX_ATTEMPT:
            attempt = MAX_ATTEMPT
        header[KEY] = _PACK[self.kind](attempt, age, self.number, flight.first + skip)
        if skip or count < len(bodies):
            bodies = bodies[skip : skip + count]
        return Outbound(peers, bodies, header)
