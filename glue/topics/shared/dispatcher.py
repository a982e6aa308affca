"""The dispatcher of one group at one publisher: gives each message to one member, and redelivers where needed.

A job waits in the queue until a member has credit; the member with the most credit left gets it. A member acknowledges
the messages that its handler has finished. When a member leaves, its unacknowledged jobs go to the front of the queue,
in their old order and marked. A job with a key goes to the member of the last job with this key. A new key goes to the
member with the highest hash of key and member, so that several publishers choose the same member.

Without members, jobs wait for PATIENCE seconds. The dispatcher forgets only jobs that are acknowledged or expired.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator
from math import inf
from typing import Final

from glue.contract.hashing import blake2s
from glue.topics.shared.credit import Credit
from glue.topics.shared.jobs import Content, Job

PATIENCE: Final = 30.0
"""Seconds for which a group without members is remembered: ten times what an endpoint takes to start again."""
KEYS: Final = 65_536
"""Keys whose member is remembered, 15 MB; beyond, the key not used for longest may move while its member lives."""


SKIPS: Final = 5
"""How often a message is sent again after a member skipped it, as unreadable or given up by the transport."""


class Member:
    """One member: the credit, the jobs sent by lane, and the jobs of a key that wait for this member."""

    __slots__ = ("credit", "keyed", "lanes", "turn")

    def __init__(self) -> None:
        self.credit = Credit()
        self.lanes: dict[Hashable, deque[Job]] = {}
        self.keyed: deque[Job] = deque()
        self.turn = 0  # counts up: of members with the same credit, the one with the lowest turn is next


class Dispatcher:
    """Members, and the jobs that no member has acknowledged; `count` messages of `size` bytes.

    The caller bounds the jobs: it stops offering while `size` is too large.
    """

    __slots__ = ("_empty_since", "_keys", "_order", "_queue", "_statistics", "_turn", "count", "members", "size")

    def __init__(self, statistics: Counter[str]) -> None:
        self.members: dict[str, Member] = {}
        self._queue: deque[Job] = deque()
        self._keys: OrderedDict[str, str] = OrderedDict()  # members by key, the latest used last
        self._order = self._turn = 0
        self._empty_since = inf
        self._statistics = statistics
        self.count = self.size = 0

    @property
    def deadline(self) -> float:
        """When the group is given up, unless a member joins."""
        return self._empty_since + PATIENCE

    # --------------------------------------------------------------------------------------------- members

    def join(self, member: str) -> None:
        """Add a member; has no effect on a known member."""
        self.members.setdefault(member, Member())
        self._empty_since = inf

    def leave(self, member: str) -> None:
        """Remove a member; its unacknowledged jobs go to the front of the queue."""
        gone = self.members.pop(member, None)
        if gone is None:
            return
        had = sorted((job for lane in gone.lanes.values() for job in lane), key=lambda job: (job.order, job.first))
        for job in had:
            job.is_again = True
            self._statistics["shared messages to be redelivered"] += job.count
        self._queue.extendleft(reversed([*had, *gone.keyed]))

    def give_up(self) -> int:
        """Forget all jobs; returns the number of messages."""
        lost = self.count
        self._queue.clear()
        self.count = self.size = 0
        return lost

    # ------------------------------------------------------------------------------------------------ jobs

    def offer(self, content: Content, count: int, key: str | None = None, expires: float = inf) -> None:
        """Take messages to be handled; each of several with a key is a job of its own."""
        self._order += 1
        self.count += count
        self.size += content.size
        job = Job(content, count, key, expires, self._order)
        while key is not None and job.count > 1:
            self._queue.append(job.split(1))
        self._queue.append(job)

    def assign(self, now: float) -> Iterator[tuple[str, Job]]:
        """Return the messages to send to members now; the caller calls `sent` for each before it asks for the next."""
        if not self.members:
            self._empty_since = min(self._empty_since, now)
            return
        while self._queue:
            job = self._queue[0]
            if job.expires < now:
                self._drop(self._queue.popleft(), "shared messages expired")
            elif job.key is not None:
                self.members[self._owner(job.key)].keyed.append(self._queue.popleft())
            else:
                name, member = max(self.members.items(), key=lambda one: (one[1].credit.room, -one[1].turn))
                room = member.credit.room
                if room <= 0:
                    break
                share = min(room, -(-job.count // len(self.members)))
                if share >= job.count:
                    self._queue.popleft()
                else:
                    job = job.split(share)
                yield name, job
        for name, member in self.members.items():
            while member.keyed and member.credit.room > 0:
                job = member.keyed.popleft()
                if job.expires < now:
                    self._drop(job, "shared messages expired")
                else:
                    yield name, job

    def sent(self, now: float, member: str, lane: Hashable, first: int, job: Job) -> None:
        """Note that a job was sent to a member; `first` is the number of the first message, and grows within a lane."""
        job.first, job.sent_at = first, now
        known = self.members[member]
        job.ahead = known.credit.count
        known.credit.use(job.count, job.size)
        self._turn += 1
        known.turn = self._turn
        known.lanes.setdefault(lane, deque()).append(job)

    def acknowledge(self, now: float, member: str, lane: Hashable, first: int, last: int) -> None:
        """Note that a member has handled the messages `first` to `last` of a lane.

        A member handles a lane in order. Therefore it never got the earlier messages that are not acknowledged. These
        go to the front of the queue.
        """
        known = self.members.get(member)
        jobs = known.lanes.get(lane) if known is not None else None
        if known is None or jobs is None:
            return
        skipped: list[Job] = []
        while jobs and jobs[0].first <= last:
            job = jobs.popleft()
            if job.last > last:
                jobs.appendleft(job)
                job = job.split(last + 1 - job.first)
            if job.first < first:
                lost = job if job.last < first else job.split(first - job.first)
                known.credit.release(lost.count, lost.size)
                skipped.append(lost)
                if lost is job:
                    continue
            known.credit.release(job.count, job.size)
            known.credit.learn(now - job.sent_at, job.ahead + job.count)
            self._drop(job, "shared messages acknowledged")
        if not jobs:
            del known.lanes[lane]
        self._queue.extendleft(reversed([job for job in skipped if self._is_tried_again(job)]))

    def _is_tried_again(self, job: Job) -> bool:
        """Whether a skipped job goes to a member again; else no member can read it, and it is dropped."""
        job.skips += 1
        if job.skips > SKIPS:
            self._drop(job, "shared messages lost: unreadable")
            return False
        job.is_again = True
        self._statistics["shared messages to be redelivered"] += job.count
        return True

    def _drop(self, job: Job, outcome: str) -> None:
        self._statistics[outcome] += job.count
        self.count -= job.count
        self.size -= job.size

    def _owner(self, key: str) -> str:
        """The member that gets the messages of a key, as long as it is there."""
        owner = self._keys.get(key)
        if owner is None or owner not in self.members:
            owner = max(self.members, key=lambda member: blake2s(f"{member}/{key}".encode(), digest_size=8).digest())
            self._keys[key] = owner
            if len(self._keys) > KEYS:
                self._keys.popitem(last=False)
        self._keys.move_to_end(key)
        return owner
