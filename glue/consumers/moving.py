"""Homes that move: where three keepers or more have all topics of a consumer, they elect its home.

A `Home` with a `Ballot` for each such consumer. What the ballots promise and have copied is in a journal beside the
log, synced before anything is told. With fewer keepers, a consumer lives at the one at which it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

import orjson

from glue.consumers.home import COMMIT, CONSUMERS, RETRY, ConsumerAlert, Home, Message
from glue.consumers.position import Position
from glue.consumers.positions import Stored
from glue.consumers.voting import HOME, Ballot, voters_of
from glue.consumers.wire import Ask, ask_topic, encode, key_of
from glue.contract.heads import MalformedError, integer
from glue.contract.ranges import RangeSet
from glue.errors import StorageError
from glue.history.wire import EARLIEST
from glue.storage import Stream
from glue.storage.directory import Directory
from glue.storage.journal import Journal

NAME = "consumer-votes"
"""The name of the file."""
LEAST = 3
"""Voters at least: a majority of two would be both."""
SHARED = 256
"""Consumers with voters at one keeper at most: each costs some four messages a second."""
ASKS = ("stand", "vote", "copy", "copied")


class Facts(NamedTuple):
    """The name, the pattern and the order of a consumer, which never change."""

    name: str
    pattern: str
    ordered: int


class MovingHome(Home):
    """The consumers at one keeper, and those for which this keeper only votes."""

    def __init__(self, *parts: Any, directory: Directory, now: float, **more: Any) -> None:
        """As a `Home`; `directory` is that of the log. Raises StorageError."""
        self.ballots: dict[str, Ballot] = {}
        self._facts: dict[str, Facts] = {}
        self._journal = Journal(directory, NAME, self._snapshot)
        self._vote_at = inf  # when changes are synced
        positions = parts[2]
        for id in [id for id, stored in positions.stored.items() if "shared" in stored.about]:
            positions.forget(id)  # another keeper may be the home by now
        super().__init__(*parts, **more)
        for entry in self._journal.load():
            try:
                self._restore(now, orjson.loads(entry))
            except (MalformedError, ValueError, KeyError, TypeError):
                self._statistics["damaged votes for homes of consumers"] += 1
                break

    # -------------------------------------------------------------------------------------------- the file

    def _snapshot(self) -> Iterator[bytes]:
        for id, ballot in self.ballots.items():
            yield orjson.dumps(self._entry(id, ballot, True))

    def _entry(self, id: str, ballot: Ballot, is_whole: bool) -> dict[str, Any]:
        done: Iterable[Any] = ballot.changed
        if is_whole:
            done = [(stream, *one) for stream, ranges in ballot.done.items() for one in ranges]
        return {
            "id": id, "facts": [*self._facts[id]], "about": ballot.about(), "whole": int(is_whole),
            "done": [[*stream, first, stop] for stream, first, stop in done],
        }  # fmt: skip

    def _restore(self, now: float, entry: dict[str, Any]) -> None:
        """Take an entry of the journal."""
        id = entry["id"]
        if "about" not in entry:
            self.ballots.pop(id, None)
            return
        ballot = self.ballots.get(id)
        if ballot is None:
            self._facts[id] = Facts(*entry["facts"])
            ballot = self.ballots[id] = Ballot(self._me, entry["about"]["voters"], now)
        if entry["whole"]:
            ballot.done = {}
        for origin, life, topic, first, stop in entry["done"]:
            ballot.done.setdefault(Stream(origin, life, topic), RangeSet()).add(first, stop)
        ballot.restore(now, entry["about"])

    # ----------------------------------------------------------------------------------------------- asked

    def _take(self, ask: Ask) -> None:
        """Take a vote, or what any home is asked. Raises MalformedError."""
        if ask.head.get("ask") not in ASKS:
            super()._take(ask)
            return
        ballot = self.ballots.get(ask.id)
        if ask.peer not in self._others(ask.pattern):
            self._statistics["votes for homes of consumers that are no keeper's"] += 1
            return
        if ballot is None:
            is_known = ask.id in self._positions.stored
            if ask.head["ask"] not in ("stand", "copy") or is_known or not self._covers(ask.pattern):
                return
            facts = Facts(ask.name, ask.pattern, integer(ask.head.get("ordered", 0)))
            ballot = self._add(ask.now, ask.id, facts, voters_of(ask.head, self._me))
        if ballot is not None:
            ballot.take(ask.now, ask.peer, str(ask.head["ask"]), ask.head)

    def _add(self, now: float, id: str, facts: Facts, voters: Sequence[str]) -> Ballot | None:
        """Begin a ballot, if there are not too many."""
        if len(self.ballots) >= SHARED:
            self._statistics["consumers with votes refused: too many"] += 1
            return None
        self._facts[id] = facts
        ballot = self.ballots[id] = Ballot(self._me, voters, now)
        return ballot

    def _join(self, ask: Ask, member: str) -> None:
        """Take a member in, or begin to elect a home if there are keepers enough; then it asks again."""
        if ask.id not in self.consumers and not self._is_refused(ask.peer, ask.pattern):
            is_known = ask.id in self.ballots or ask.id in self._positions.stored
            if not is_known and ask.head.get("begin") and self._covers(ask.pattern):
                self._stand(ask)
            if ask.id in self.ballots:
                self._tell_where(ask)
                return
        super()._join(ask, member)

    def _stand(self, ask: Ask) -> None:
        """Stand for election as the home of a new consumer, if there are keepers enough."""
        voters = sorted([self._me, *self._others(ask.pattern)])
        if len(voters) < LEAST or len(self.consumers) >= CONSUMERS:
            return
        facts = Facts(ask.name, ask.pattern, int(bool(ask.head.get("ordered"))))
        ballot = self._add(ask.now, ask.id, facts, voters)
        if ballot is not None:
            ballot.done = self._done_before(ask.head.get("start"), ask.unix_time, ask.pattern)
            ballot.is_replaced = True
            ballot.stand(ask.now)

    def _is_refused(self, peer: str, pattern: str) -> bool:
        return self.may_read is not None and not self.may_read(peer, pattern)

    def _done_before(self, start: Any, unix_time: float, pattern: str) -> dict[Stream, RangeSet]:
        """The messages that count as done for a consumer that begins there."""
        offset = self._offset(start, unix_time)
        kind = start[0] if isinstance(start, list) and start else EARLIEST
        if kind == EARLIEST:
            return {}
        from glue.history.server import matcher

        wanted = matcher(pattern)
        first: dict[Stream, int] = {}
        while offset < self._log.durable:
            records, stop = self._log.read(wanted, offset)
            for _, record in records:
                first[record.stream] = min(first.get(record.stream, record.sequence), record.sequence)
            if stop <= offset:
                break
            offset = stop
        done: dict[Stream, RangeSet] = {}
        for stream, state in self._log.streams(wanted):
            end = first.get(stream, state.durable.stop)
            if end > 1:
                done.setdefault(stream, RangeSet()).add(1, end)
        return done

    def _tell_where(self, ask: Ask) -> None:
        """Tell where the elected home of a consumer is, or what any home tells."""
        ballot = self.ballots.get(ask.id)
        if ballot is None or ballot.role == HOME:
            super()._tell_where(ask)
        else:
            home = ballot.home if ballot.home != self._me else ""
            self._tell(ask.address, "where", ask.name, ask.pattern, home=home, epoch=ballot.promise, covers=1)

    def _member_says(self, ask: Ask, member: str) -> None:
        """Take what a member has done, unless this home may not act now."""
        asked = ask.head["ask"]
        if ask.id in self.consumers and not self._acts(ask.now, ask.id) and asked != "leave":
            if asked != "here":  # a member that is not answered looks for another home
                self._statistics["acknowledgements of members that are fenced"] += asked == "done"
                self._tell(ask.address, "fenced", ask.name, ask.pattern, member=member)
            return
        super()._member_says(ask, member)

    def _known(self, home: str, name: str, pattern: str, created: int) -> None:
        if key_of(name, pattern) not in self.ballots:
            super()._known(home, name, pattern, created)

    def _change(self, ask: Ask) -> None:
        """Move a consumer with a ballot to another position, or forget it with its ballot."""
        ballot, consumer = self.ballots.get(ask.id), self.consumers.get(ask.id)
        if ballot is not None and ask.head["ask"] == "seek":
            if consumer is not None:
                ballot.replace(self._done_before(ask.head.get("start"), ask.unix_time, ask.pattern))
                self._close_shared(ask.id)  # and it opens again at once, from there
            request = integer(ask.head.get("id"))
            self._tell(ask.address, "sought", ask.name, ask.pattern, id=request, done=consumer is not None)
            return
        if ballot is not None:
            del self.ballots[ask.id], self._facts[ask.id]
            self._journal.add(orjson.dumps({"id": ask.id}))
            self._vote_at = -inf
        super()._change(ask)

    # ---------------------------------------------------------------------------------------------- timers

    def _acts(self, now: float, id: str) -> bool:
        ballot = self.ballots.get(id)
        return ballot is None or (ballot.acts(now) and self._is_sound)

    @property
    def _is_sound(self) -> bool:
        """Whether the disk stores messages and votes; else another keeper is to be the home."""
        return not self._journal.failure and not self._log.failure

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds), -inf for now."""
        due = min(super().deadline, self._vote_at)
        return min([due, *(ballot.deadline for ballot in self.ballots.values())]) if self._is_sound else due

    def _turn(self, now: float) -> list[Message]:
        """Vote, store that, and then do what any home does."""
        for ballot in self.ballots.values():
            if ballot.deadline <= now and self._is_sound:
                ballot.advance(now)
        self._settle(now)
        return super()._turn(now)

    def _settle(self, now: float) -> None:
        """Store what the ballots changed, tell what they have to say, and be the home that they made this keeper."""
        is_due = now >= self._vote_at
        for ballot in self.ballots.values():
            if ballot.changed and not ballot.out and not ballot.is_changed:
                self._vote_at = min(self._vote_at, now + COMMIT)
            is_due |= bool(ballot.out or ballot.is_changed)
        if is_due:
            self._store(now)
        for id, ballot in self.ballots.items():
            if ballot.role == HOME and id not in self.consumers:
                self._open_shared(now, id, ballot)
            elif ballot.role != HOME and id in self.consumers:
                self._close_shared(id)

    def _store(self, now: float) -> None:
        """Store what the ballots changed; then send what they have to say."""
        self._vote_at = inf
        for id, ballot in self.ballots.items():
            if ballot.changed or ballot.is_changed or ballot.is_replaced:
                self._journal.add(orjson.dumps(self._entry(id, ballot, ballot.is_replaced)))
                ballot.changed, ballot.is_changed, ballot.is_replaced = [], False, False
        try:
            self._journal.sync()
        except StorageError as error:
            for id, ballot in self.ballots.items():
                ballot.out.clear()
                self._alert(ConsumerAlert("storage", self._facts[id].name, self._facts[id].pattern, str(error)))
            self._vote_at = inf if self._journal.failure else now + RETRY
            return
        for id, ballot in self.ballots.items():
            facts = self._facts[id]
            for keeper, ask, more in ballot.stored():
                head = {"ask": ask, "name": facts.name, "pattern": facts.pattern, **more}
                if ask in ("stand", "copy"):
                    head |= {"voters": ballot.voters, "ordered": facts.ordered}
                self._out.append((ask_topic(keeper), encode(head)))

    def _open_shared(self, now: float, id: str, ballot: Ballot) -> None:
        """Be the home of a consumer, from what a majority counts as done."""
        facts, log = self._facts[id], self._log
        about = {
            "name": facts.name, "pattern": facts.pattern, "epoch": ballot.promise, "created": 0,
            "ordered": facts.ordered, "shared": 1,
        }  # fmt: skip
        reach = 0 if ballot.promise == 1 else log.end  # a former home may have given away anything that is not done
        self._positions.put(id, Stored(Position(log.first), reach, about))
        consumer = self._open(id)
        consumer.left, consumer.on_done = ballot.left, ballot.add
        self._tick_at = min(self._tick_at, now)
        self._commit_at = -inf

    def _close_shared(self, id: str) -> None:
        """Be the home of a consumer no more."""
        self._fence(self.consumers.pop(id))
        self._positions.forget(id)
        self._commit_at = -inf

    def close(self, now: float) -> None:
        """Store everything, and end."""
        super().close(now)
        self._store(now)
