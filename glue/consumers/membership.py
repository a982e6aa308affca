"""The side of a member: finds the home of its consumer, joins, and reports handled messages.

A member asks all keepers of its pattern for the home. Only once each keeper has answered that there is none, the
member asks the keeper selected by rendezvous hashing to begin. Messages from a home count as long as the membership
lasts. A fenced member forgets everything, and joins again under a new id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import inf
from typing import Any, NamedTuple

from glue.consumers.wire import ENTRIES, Done, ask_topic, encode, member_of
from glue.contract.hashing import blake2s
from glue.contract.heads import MalformedError, integer, rows
from glue.topics.bundle import MessageGroup

BEAT = 0.4
"""Seconds between two signs of life."""
ASK = 0.02
"""Seconds after which keepers are asked again; twice as long each time, up to ASK_LIMIT."""
ASK_LIMIT = 0.5
JOIN = 1.0
"""Seconds for which a member waits to be taken in before it asks again where the home is."""
SHARES = 16_384
"""Shares that a member has at once at most, twice what a home gives: one that gives more is left."""
REFUSED = 0.1
"""Seconds until a member looks again for a home after a keeper did not take it in: an election may be under way."""
LOST = 3.0
"""Seconds without an answer after which a home counts as lost: its keeper restarted, perhaps."""

Message = tuple[str, bytes]
"""A topic and a payload to publish."""


class Taken(NamedTuple):
    """A share: member, number, whether it may have been handled before, messages and publisher."""

    member: str
    number: int
    is_again: bool
    group: MessageGroup
    publisher_id: str
    publisher: str
    life: int


class Progress:
    """How far a share is: `next` of `count` messages; `later`: what is over out of order, and whether it is done."""

    __slots__ = ("count", "later", "next")

    def __init__(self, count: int) -> None:
        self.next = 1
        self.count = count
        self.later: dict[int, bool] = {}


class Membership:
    """One member of a consumer. `on_fenced` is called when all messages sent to it are void."""

    def __init__(
        self,
        name: str,
        pattern: str,
        me: tuple[str, int],
        next_number: Callable[[], int],
        start: Sequence[Any],
        ordered: bool,
        on_fenced: Callable[[], None],
    ) -> None:
        """`me` is the id and the life of the endpoint; `start` is where a new consumer begins."""
        self.name = name
        self.pattern = pattern
        self.member = ""
        self.home = ""
        self.is_joined = False
        self.deadline = -inf
        self._me = me
        self._next_number = next_number
        self._start = list(start)
        self._ordered = ordered
        self._on_fenced = on_fenced
        self._epoch = self._got = 0
        self._answers: dict[str, tuple[str, int, bool]] = {}  # home, epoch and whether it covers, by keeper
        self._pause = ASK
        self._lost_at = inf
        self._shares: dict[int, Progress] = {}
        self._owed: list[tuple[str, Done]] = []  # what is done, and what failed, to be told

    # ------------------------------------------------------------------------------------------- outgoing

    def _ask(self, keeper: str, ask: str, **more: Any) -> Message:
        head = {"ask": ask, "name": self.name, "pattern": self.pattern, **more}
        return ask_topic(keeper), encode(head)

    def advance(self, now: float, keepers: Sequence[str]) -> list[Message]:
        """Do what is due; `keepers` are the ids of those of the pattern."""
        found = self.flush()
        if now < self.deadline:
            return found
        if self.home and now >= self._lost_at:
            self._leave_home(now)
        if self.is_joined:
            self.deadline = now + BEAT
            found.append(self._ask(self.home, "here", member=self.member, epoch=self._epoch, got=self._got))
        elif not self.home:
            found += self._seek(now, keepers)
        else:
            self.deadline = self._lost_at
        return found

    def _seek(self, now: float, keepers: Sequence[str]) -> list[Message]:
        self.deadline = now + self._pause
        self._pause = min(2 * self._pause, ASK_LIMIT)
        self._answers = {keeper: answer for keeper, answer in self._answers.items() if keeper in keepers}
        homes = [(epoch, home) for home, epoch, _ in self._answers.values() if home and home in keepers]
        if homes:
            return [self._join(now, max(homes)[1], False)]
        missing = [keeper for keeper in keepers if keeper not in self._answers]
        if missing or not keepers:
            return [self._ask(keeper, "where") for keeper in missing]
        is_away = any(home for home, _, _ in self._answers.values())
        able = [keeper for keeper, (_, _, covers) in self._answers.items() if covers]
        self._answers.clear()  # so that they are asked again
        if is_away or not able:
            return []
        chosen = max(able, key=lambda keeper: blake2s(f"{keeper}/{self.name}/{self.pattern}".encode()).digest())
        return [self._join(now, chosen, True)]

    def _join(self, now: float, home: str, begin: bool) -> Message:
        id, life = self._me
        self.home, self.member = home, f"{id}-{life}-{self._next_number()}"
        self._lost_at = self.deadline = now + JOIN
        more: dict[str, Any] = {"begin": 1, "start": self._start, "ordered": int(self._ordered)} if begin else {}
        return self._ask(home, "join", member=self.member, **more)

    def flush(self) -> list[Message]:
        """Take the reports to the home on handled messages, in the order of handling."""
        found = []
        for kind, run in groupby(self._owed, key=lambda one: one[0]):
            shares = [entry for _, entry in run]
            for begin in range(0, len(shares), ENTRIES):
                part = shares[begin : begin + ENTRIES]
                found.append(self._ask(self.home, kind, member=self.member, epoch=self._epoch, shares=part))
        self._owed.clear()
        return found

    def leave(self) -> list[Message]:
        """End: others get what is not done."""
        found = self.flush()
        if self.is_joined:
            found.append(self._ask(self.home, "leave", member=self.member, epoch=self._epoch))
        self.home, self.is_joined, self.deadline = "", False, inf
        return found

    def _leave_home(self, now: float) -> None:
        """The home is lost, or has no place for this member: look for it again, under a new id."""
        was_joined = self.is_joined
        self.home, self.is_joined, self._lost_at = "", False, inf
        self._answers.clear()
        self._shares.clear()
        self._owed.clear()
        self.deadline, self._pause = now, ASK
        if was_joined:
            self._on_fenced()

    # --------------------------------------------------------------------------------------------- handled

    def finished(self, member: str, share: int, place: int, is_done: bool) -> None:
        """The program is done with a message, or its handler raised; nothing if the share is void.

        The home takes the messages of a share in order. What is done out of order waits for those before it.
        """
        progress = self._shares.get(share) if member == self.member and self.is_joined else None
        if progress is None or place < progress.next or place in progress.later:
            return
        progress.later[place] = is_done
        while progress.next in progress.later:
            self._owe(share, progress.next, progress.later.pop(progress.next))
            progress.next += 1
        if progress.next > progress.count:
            del self._shares[share]

    def _owe(self, share: int, place: int, is_done: bool) -> None:
        kind = "done" if is_done else "failed"
        if self._owed:
            last, (number, first, _) = self._owed[-1]
            if last == kind and number == share:  # messages of a share are told in order
                self._owed[-1] = kind, (share, first, place)
                return
        self._owed.append((kind, (share, place, place)))

    def is_over(self, share: int) -> bool:
        """Whether everything of a share is done, or it is void."""
        return share not in self._shares

    # -------------------------------------------------------------------------------------------- incoming

    def told(self, now: float, keeper: str, head: dict[str, Any], groups: Sequence[MessageGroup]) -> list[Taken]:
        """Take what a keeper tells of this consumer; returns new shares. Raises MalformedError."""
        tell = head.get("tell")
        if tell == "where":
            home, covers = head.get("home"), head.get("covers")
            if not isinstance(home, str) or len(home) > 16:
                raise MalformedError("home")
            is_refused = keeper == self.home and not self.is_joined  # it does not take this member in
            if is_refused:
                self._leave_home(now)
            self._answers[keeper] = home, integer(head.get("epoch")), bool(covers)
            self.deadline = now + REFUSED if is_refused else min(self.deadline, now)
            return []
        found: list[Taken] = []
        if keeper != self.home or member_of(head) != self.member:
            return []
        if tell == "joined":
            self._epoch, self._got, self.is_joined = integer(head.get("epoch")), 0, True
            self.deadline, self._pause = now, ASK
        elif tell == "fenced":
            self._leave_home(now)
        elif tell == "shares" and head.get("epoch") == self._epoch and self.is_joined:
            found = self._take(now, head, groups)
        if self.is_joined:
            self._lost_at = now + LOST
        return found

    def _take(self, now: float, head: dict[str, Any], groups: Sequence[MessageGroup]) -> list[Taken]:
        shares = rows(head.get("shares", []), 5, ENTRIES)
        if len(shares) != len(groups):
            raise MalformedError("shares")
        found = []
        for (share, again, origin, name, life), group in zip(shares, groups, strict=True):
            if integer(share) != self._got + 1:  # something was lost on the way for good
                self._leave_home(now)
                return []
            if not isinstance(origin, str) or not isinstance(name, str):
                raise MalformedError("shares")
            if len(self._shares) >= SHARES:
                self._leave_home(now)
                return []
            self._got += 1
            self._shares[share] = Progress(len(group.payloads))
            found.append(Taken(self.member, share, again == 1, group, origin, name, integer(life)))
        return found
