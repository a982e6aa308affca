"""A consumer that several keepers answer for: one of them is its home, elected by a majority, and the others copy it.

Each keeper of the consumer's pattern when the consumer begins is a *voter*. The home of an epoch was granted that epoch
by a majority, and by none that has more than it (as a leader of Raft, Ongaro 2014, section 3). It tells the others
which messages are done: first everything, then what changes. What a majority has on disk is committed, and every later
home has it. A home acts only while a majority has answered what it asked in the last LEASE seconds. A voter grants no
other home within PATIENCE seconds after it heard from one. So there are never two that act.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

from glue.consumers.wire import ENTRIES, text
from glue.contract.hashing import blake2s
from glue.contract.heads import MalformedError, integer, rows
from glue.contract.ranges import RangeSet
from glue.storage import Stream

BEAT = 0.5
"""Seconds between two signs of life of a home, and until what was not acknowledged is sent again."""
GATHER = 0.01
"""Seconds for which changes gather, so that they share a message and a sync."""
LEASE = 2.0
"""Seconds for which a home acts after it asked a majority that answered."""
PATIENCE = 2.5
"""Seconds after the last sign of life of a home in which a voter grants no other one: more than LEASE."""
STEP = 0.5
"""Seconds between the first and each next keeper that wants to be the home."""
CHANGES = 8192
"""Changes that are remembered for voters that are behind, 2 MB; one that is further behind gets everything."""
PART = 512 << 10
"""Bytes of entries in a message, about; a message has ENTRIES at most."""
STREAMS = 200_000
"""Streams of one consumer that are copied at most, as many as a log knows."""
VOTERS = 64
"""Voters of one consumer at most."""

VOTER, CANDIDATE, HOME = "voter", "candidate", "home"

Version = tuple[int, int]
"""An epoch, and how many changes of it were copied."""

Entry = tuple[Stream, int, int]
"""Messages of a stream that are done: from the first number to before the last."""


class Peer:
    """A voter as the home sees it."""

    __slots__ = ("acknowledged", "asked_at", "sent", "sent_at")

    def __init__(self) -> None:
        self.acknowledged = -1  # changes of this epoch that it has on disk; -1: it needs everything
        self.sent = -1
        self.sent_at = -inf
        self.asked_at = -inf  # when it was asked what it answered last


class Ballot:
    """One keeper's knowledge of one consumer. Messages go out by `out`: the keeper, what is asked, and more.

    Changes are to be stored before `out` is sent: `changed` are those of what is done, `is_changed` tells of the rest.
    """

    def __init__(self, me: str, voters: Sequence[str], now: float) -> None:
        self.me = me
        self.voters = [*voters]
        self.promise = 0  # the latest epoch that was granted, or copied
        self.home = ""  # of that epoch
        self.copied: Version = (0, 0)
        self.done: dict[Stream, RangeSet] = {}
        self.role = VOTER
        self.changed: list[Entry] = []
        self.is_changed = self.is_replaced = False
        self.out: list[tuple[str, str, dict[str, Any]]] = []
        self.is_stored = True
        self._heard_at = now  # a sign of life of a home
        self._patient_until = -inf  # it grants no other home before
        self._stand_at = inf
        self._votes: set[str] = set()
        self._peers: dict[str, Peer] = {}
        self._changes: deque[Entry] = deque()  # the latest ones of this epoch
        self._count = self._stored = 0  # changes of this epoch, and those of them that are on this disk
        self._arriving: dict[Stream, RangeSet] | None = None  # parts of everything
        self._parts = 0
        self._wait()

    # --------------------------------------------------------------------------------------------- state

    @property
    def others(self) -> list[str]:
        """The other voters."""
        return [voter for voter in self.voters if voter != self.me]

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def acts(self, now: float) -> bool:
        """Whether this keeper is the home, and a majority has all of before and was asked not long ago."""
        if self.role != HOME:
            return False
        ready = [peer for peer in self._peers.values() if peer.acknowledged >= 0 and peer.asked_at > now - LEASE]
        return len(ready) + 1 >= self.majority

    @property
    def committed(self) -> int:
        """How many changes of this epoch a majority has on disk."""
        have = sorted([self._stored, *(peer.acknowledged for peer in self._peers.values())], reverse=True)
        return have[self.majority - 1]

    def add(self, stream: Stream, first: int, stop: int) -> None:
        """The home is done with messages."""
        self._note(stream, first, stop)
        self._changes.append((stream, first, stop))
        self._count += 1
        self.copied = self.promise, self._count
        if len(self._changes) > CHANGES:
            self._changes.popleft()

    def replace(self, done: dict[Stream, RangeSet]) -> None:
        """The home goes on from another position: all voters get everything again."""
        self.done, self.changed = done, []
        self._count += 1
        self._changes.clear()
        self.copied = self.promise, self._count
        self.is_changed = self.is_replaced = True
        for peer in self._peers.values():
            peer.acknowledged = peer.sent = -1
            peer.sent_at = -inf

    def left(self, stream: Stream, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """The ranges of messages that are not done."""
        ranges = self.done.get(stream)
        return iter([(first, stop)]) if ranges is None else ranges.gaps(first, stop)

    def _note(self, stream: Stream, first: int, stop: int) -> None:
        ranges = self.done.get(stream)
        if ranges is None:
            if len(self.done) >= STREAMS:
                return
            ranges = self.done[stream] = RangeSet()
        ranges.add(first, stop)
        self.changed.append((stream, first, stop))

    def stored(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Everything is on disk; returns what may be sent now."""
        self.changed, self.is_changed, self.is_replaced = [], False, False
        self._stored = self._count
        found, self.out = self.out, []
        return found

    # ---------------------------------------------------------------------------------------------- time

    def _wait(self) -> None:
        """Stand for election if no home is heard of: in turns, by a hash of the epoch."""
        ranked = sorted(self.voters, key=lambda one: blake2s(f"{one}/{self.promise}".encode(), digest_size=8).digest())
        self._stand_at = self._heard_at + PATIENCE + STEP * (1 + ranked.index(self.me))

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds)."""
        if self.role != HOME:
            return self._stand_at
        return min(
            peer.sent_at + (GATHER if self._is_behind(peer) else BEAT) for peer in self._peers.values()
        )  # fmt: skip

    def _is_behind(self, peer: Peer) -> bool:
        """Whether there are changes for a voter that has acknowledged all that it was sent."""
        return 0 <= peer.acknowledged == peer.sent < self._count

    def advance(self, now: float) -> None:
        """Stand for election, or tell the voters what is due."""
        if self.role == HOME:
            for voter, peer in self._peers.items():
                if now >= peer.sent_at + (GATHER if self._is_behind(peer) else BEAT):
                    self._send(now, voter, peer)
        elif now >= self._stand_at + STEP:  # this keeper itself was away: it listens first
            self._heard_at = now
            self._wait()
        elif now >= self._stand_at:
            self.stand(now)

    def stand(self, now: float) -> None:
        """Ask the voters to be the home of the next epoch."""
        self.role, self._votes = CANDIDATE, {self.me}
        self.promise += 1
        self.home = self.me
        self.is_changed = True
        self._heard_at = now
        self._wait()  # if it comes to nothing
        for voter in self.others:
            self.out.append((voter, "stand", {"epoch": self.promise, "copied": [*self.copied]}))

    def _send(self, now: float, voter: str, peer: Peer) -> None:
        """Tell a voter what it has not acknowledged, at least that this home is alive."""
        head: dict[str, Any] = {"epoch": self.promise, "at": int(now * 1e6)}
        first = self._count - len(self._changes)
        peer.sent_at = now
        if peer.acknowledged < first:
            peer.sent = peer.acknowledged
            parts = _parts((stream, *one) for stream, ranges in self.done.items() for one in ranges)
            for place, part in enumerate(parts):
                more = {"part": [place, len(parts)], "to": self._count, "done": part}
                self.out.append((voter, "copy", {**head, **more}))
            return
        begin = peer.acknowledged
        done = _parts(self._changes[place - first] for place in range(begin, min(self._count, begin + ENTRIES)))[0]
        peer.sent = begin + len(done)
        self.out.append((voter, "copy", {**head, "from": begin, "to": peer.sent, "done": done}))

    # ---------------------------------------------------------------------------------------------- told

    def take(self, now: float, peer: str, asked: str, head: dict[str, Any]) -> None:
        """Take what another voter asks or tells. Raises MalformedError."""
        if peer not in self.voters or peer == self.me:
            return
        epoch = integer(head.get("epoch"))
        if asked == "stand":
            self._asked_to_vote(now, peer, epoch, _version(head.get("copied")))
        elif asked == "vote":
            self._voted(now, peer, epoch, head.get("granted") == 1, integer(head.get("promise", 0)))
        elif asked == "copy":
            self._copy(now, peer, epoch, head)
        elif asked == "copied":
            self._acknowledged(now, peer, epoch, head)

    def _asked_to_vote(self, now: float, peer: str, epoch: int, copied: Version) -> None:
        """Answer a candidate; stand as well, if this keeper has more than the candidate."""
        is_patient = now < self._patient_until and peer != self.home
        may_follow = epoch > self.promise and not is_patient and not self.acts(now)
        is_granted = may_follow and copied >= self.copied
        if is_granted:
            self._follow(now, peer, epoch)
        elif may_follow:  # this keeper has more: it stands, beyond it
            self.promise, self.home, self.role = epoch, "", VOTER
            self.is_changed = True
            self._stand_at = now + GATHER
        granted = is_granted or (epoch == self.promise and self.home == peer)
        self.out.append((peer, "vote", {"epoch": epoch, "granted": int(granted), "promise": self.promise}))

    def _follow(self, now: float, home: str, epoch: int) -> None:
        """Another keeper is the home of an epoch that is not older."""
        if (self.promise, self.home) != (epoch, home):
            self.promise, self.home = epoch, home
            self.is_changed = True
            self._arriving = None
        self.role = VOTER
        self._heard_at, self._patient_until = now, now + PATIENCE
        self._wait()

    def _voted(self, now: float, peer: str, epoch: int, is_granted: bool, promise: int) -> None:
        """Count a vote for this keeper; a majority makes it the home."""
        if self.role != CANDIDATE or epoch != self.promise:
            return
        if is_granted:
            self._votes.add(peer)
        elif promise > self.promise:  # the next try is beyond it
            self.promise, self.home, self.role = promise, "", VOTER
            self.is_changed = True
        if self.role == CANDIDATE and len(self._votes) >= self.majority:
            self._begin()

    def _begin(self) -> None:
        """Become the home of the epoch that the majority promised."""
        self.role = HOME
        self._peers = {voter: Peer() for voter in self.others}
        self._changes.clear()
        self._count = self._stored = 0
        self.copied = self.promise, 0
        self.is_changed = True

    def _copy(self, now: float, peer: str, epoch: int, head: dict[str, Any]) -> None:
        """Copy what the home of an epoch counts as done, and tell how far; of an older epoch, tell of the newer one."""
        if epoch < self.promise or (epoch == self.promise and self.role != VOTER):
            self._tell(peer, head)
            return
        self._follow(now, peer, epoch)
        done = [_entry(one) for one in rows(head.get("done", []), 5, ENTRIES)]
        to = integer(head.get("to"))
        if "part" in head:
            self._take_part(head["part"], epoch, to, done)
        elif self.copied == (epoch, integer(head.get("from"))):
            for one in done:
                self._note(*one)
            self.copied = epoch, to
            self.is_changed = True
        self._tell(peer, head)

    def _take_part(self, part: Any, epoch: int, to: int, done: list[Entry]) -> None:
        """Take a part of everything that counts as done; the last one puts it in the place of what is known here."""
        if not isinstance(part, list) or len(part) != 2 or integer(part[0]) >= integer(part[1]):
            raise MalformedError("part")
        if part[0] == 0:
            self._arriving, self._parts = {}, 0
        if self._arriving is None or part[0] != self._parts:
            self._arriving = None  # one is missing; they come again
            return
        self._parts += 1
        for stream, first, stop in done:
            if stream in self._arriving or len(self._arriving) < STREAMS:
                self._arriving.setdefault(stream, RangeSet()).add(first, stop)
        if self._parts == part[1]:
            self.done, self._arriving = self._arriving, None
            self.copied = epoch, to
            self.changed = []
            self.is_changed = self.is_replaced = True

    def _tell(self, home: str, head: dict[str, Any]) -> None:
        told = {
            "epoch": head["epoch"],
            "promise": self.promise,
            "copied": [*self.copied],
            "at": integer(head.get("at")),
        }
        self.out.append((home, "copied", told))

    def _acknowledged(self, now: float, peer: str, epoch: int, head: dict[str, Any]) -> None:
        """Note how far another keeper has copied; forget the changes that all have."""
        known = self._peers.get(peer)
        if self.role != HOME or epoch != self.promise or known is None:
            return
        promise, copied = integer(head.get("promise")), _version(head.get("copied"))
        if promise > self.promise:  # there is a newer home
            self.role, self.promise, self.home = VOTER, promise, ""
            self.is_changed, self._heard_at = True, now
            self._wait()
            return
        known.asked_at = max(known.asked_at, integer(head.get("at")) / 1e6)
        if copied[0] != epoch:  # it needs everything
            known.acknowledged = known.sent = -1
        elif copied[1] <= self._count:
            known.acknowledged = max(known.acknowledged, copied[1])
            known.sent = max(known.sent, known.acknowledged)
            least = min(one.acknowledged for one in self._peers.values())
            while self._changes and self._count - len(self._changes) < least:
                self._changes.popleft()

    # --------------------------------------------------------------------------------------------- stored

    def about(self) -> dict[str, Any]:
        """Return the state of the election, which is stored beside the positions."""
        return {"voters": self.voters, "promise": self.promise, "home": self.home, "copied": [*self.copied]}

    def restore(self, now: float, about: dict[str, Any]) -> None:
        """Take over what was stored: it may have granted a home just before. Raises MalformedError."""
        self._patient_until = now + PATIENCE
        self.promise, self.home = integer(about.get("promise")), str(about.get("home", ""))
        self.copied = _version(about.get("copied"))
        self._wait()


def _parts(done: Iterable[Entry]) -> list[list[list[Any]]]:
    """Cut entries into parts that each fit into a message; one part at least."""
    parts: list[list[list[Any]]] = [[]]
    size = 0
    for stream, first, stop in done:
        size += len(stream.topic.encode()) + 80
        if parts[-1] and (size > PART or len(parts[-1]) >= ENTRIES):
            parts.append([])
            size = len(stream.topic.encode()) + 80
        parts[-1].append([*stream, first, stop])
    return parts


def voters_of(head: dict[str, Any], me: str) -> list[str]:
    """The voters in a message; this keeper has to be one. Raises MalformedError."""
    found = head.get("voters")
    if not isinstance(found, list) or not 3 <= len(found) <= VOTERS or me not in found:
        raise MalformedError("voters")
    if any(not isinstance(one, str) or len(one) != 16 for one in found) or len({*found}) != len(found):
        raise MalformedError("voters")
    return found


def _version(value: Any) -> Version:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedError("version")
    return integer(value[0]), integer(value[1])


def _entry(value: list[Any]) -> Entry:
    head = {"origin": value[0], "topic": value[2]}
    first, stop = integer(value[3], 1), integer(value[4], 2)
    if first >= stop:
        raise MalformedError("range")
    return Stream(text(head, "origin", 16), integer(value[1]), text(head, "topic", 65_535)), first, stop
