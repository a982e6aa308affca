"""Delayed messages at one keeper: the messages that it holds, and the time at which it releases each of them.

A publisher that is there publishes its messages itself. If it is gone (expired, closed, or in another life), the
keepers of the topic are ranked by a hash of the message. The first keeper publishes a message when it is due, and each
next keeper STEP later, unless the message has come by then. A keeper holds a message until it was cancelled, or is
durable in the log as a message of its topic, whichever endpoint published it. A keeper that was away at that moment,
and finds the message nowhere, publishes it later. Keepers that meet tell each other what they hold. So a keeper that
came late or was away gets all messages, and drops those that are over.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import NamedTuple, Protocol

from glue.contract.hashing import blake2s
from glue.contract.heads import MalformedError
from glue.delayed.wire import Id, Put, ask_topic, encode_ids, encode_puts, parse
from glue.errors import StorageError, StorageFullError
from glue.storage.directory import Directory
from glue.storage.journal import Journal

NAME = "delayed"
"""The name of the file."""
MESSAGES = 65_536
"""Messages that a keeper holds at most, with some 1 kB of bookkeeping each: 64 MB."""
SIZE = 64 << 20
"""Bytes of payload and properties that a keeper holds at most."""
ASK = 5.0
"""Seconds between two questions of a keeper whether a message is over that is due, and does not come."""
ENDED = 65_536
"""Messages that were released or cancelled, and are remembered at some 200 bytes: 13 MB."""
RECOVER = 3.0
"""Seconds from the news that a message was published until it is there: live, or fetched from another keeper."""
STEP = 0.3
"""Seconds between two ranks: some round trips."""
POLL = 0.5
"""Seconds until a message is looked at again that is due, while its publisher is there."""
COMMIT = 0.05
"""Seconds until the end of a message is on disk; if a crash comes before, receivers drop the second copy."""
RETRY = 1.0
"""Seconds between two tries to write to a full disk."""
SPARE = 1024
"""Times of messages that are over, which wait until they come or are more than those of messages that are held."""
OWNERS = 4096
"""Absent publishers that are remembered before those without a message are forgotten."""

Message = tuple[str, bytes]
"""A topic and a payload to publish."""


class Turn(NamedTuple):
    """A keeper's work to do: tell, release, and acknowledge what is on its disk, or refused."""

    told: list[Message]
    released: list[Put]
    held: list[Put]
    refused: list[tuple[Put, str]]


class Surroundings(Protocol):
    """The part of a keeper, and of its peers, that a store may see."""

    @property
    def me(self) -> str:
        """The id of this keeper."""

    def keepers(self, topic: str) -> Sequence[str]:
        """Return the ids of the keepers of a topic, this one too."""

    def is_present(self, publisher: str, life: int) -> bool:
        """Whether this life of a publisher is known."""

    def may_publish(self, peer: str, topic: str) -> bool:
        """Whether a peer may publish on a topic."""

    def may_keep(self, peer: str, topic: str) -> bool:
        """Whether a peer is a keeper of a topic."""


class Held:
    """One message; `due` is monotonic, `due_at` the wall clock of this keeper (seconds).

    * `is_out`: the publisher has published it.
    * `is_kept`: it is in the log, but perhaps not on disk.
    * `is_released`: it was published here.
    * `is_direct`: it came from the publisher in this life of the keeper, which knows when the publisher is there.
    """

    __slots__ = ("asked_at", "due", "due_at", "is_direct", "is_kept", "is_out", "is_released", "put")

    def __init__(self, put: Put, due: float, due_at: float) -> None:
        self.put = put
        self.due = due
        self.due_at = due_at
        self.is_out = self.is_kept = self.is_released = self.is_direct = False
        self.asked_at = -inf  # when the keepers of the topic were asked whether it is over


class DelayedStore:
    """The delayed messages at one keeper. Not thread-safe."""

    def __init__(self, around: Surroundings, statistics: Counter[str], ready_at: float) -> None:
        """Hold messages in memory, until `open`.

        `ready_at`: monotonic seconds from which all peers are known that are there. What another life or another
        keeper was given is not released before.
        """
        self.held: dict[Id, Held] = {}
        self.size = 0
        self.late: list[Held] = []  # came when they were due already, so that they may be in the log
        self._around = around
        self._statistics = statistics
        self._ready_at = ready_at
        self._ended: OrderedDict[Id, None] = OrderedDict()
        self._heap: list[tuple[float, Id]] = []
        self._absent: dict[tuple[str, int], float] = {}  # since when publishers are gone
        self._met: set[str] = set()
        self._told: list[Message] = []
        self._held: list[Put] = []  # to be acknowledged after the next sync
        self._kept: list[Id] = []  # in the log, but perhaps not on disk
        self._refused: list[tuple[Put, str]] = []
        self._sync_at = inf
        self._retry_at = -inf
        self._journal: Journal | None = None

    # --------------------------------------------------------------------------------------------- storing

    def open(self, directory: Directory, now: float, unix_time: float) -> None:
        """Store in a directory from now on, and hold what is stored there. Raises StorageError."""
        journal = self._journal = Journal(directory, NAME, self._snapshot)
        for entry in journal.load():
            try:
                told = parse(entry)
            except MalformedError:
                journal.damaged = True
                break
            for put in told.puts:  # `wait` is the wall clock there
                due_at = put.wait / 1000
                self._hold(put, now + max(0.0, due_at - unix_time), due_at)
            for id in told.gone:
                self._end(id)
        self.late = [held for held in self.held.values() if held.due_at <= unix_time]
        if journal.damaged:
            self._statistics["damaged files of delayed messages"] += 1

    def _snapshot(self) -> Iterator[bytes]:
        yield from encode_puts(_stored(one) for one in self.held.values())
        yield from encode_ids("gone", [*self._ended])

    def _hold(self, put: Put, due: float, due_at: float) -> None:
        self.held[put.id] = Held(put, due, due_at)
        self.size += put.size
        heappush(self._heap, (due, put.id))

    def _end(self, id: Id) -> bool:
        """A message is over; returns whether that is news."""
        if id in self._ended:
            return False
        self._ended[id] = None
        if len(self._ended) > ENDED:
            self._ended.popitem(last=False)
        held = self.held.pop(id, None)
        if held is not None:
            self.size -= held.put.size
            if len(self._heap) > 2 * len(self.held) + SPARE:
                self._heap = [(due, one) for due, one in self._heap if one in self.held]
                heapify(self._heap)
        return True

    def end(self, now: float, id: Id) -> None:
        """A message is over."""
        is_held = id in self.held
        if self._end(id) and is_held and self._journal is not None:
            for entry in encode_ids("gone", [id]):
                self._journal.add(entry)
            self._sync_at = min(self._sync_at, max(now + COMMIT, self._retry_at))

    def kept(self, now: float, id: Id) -> None:
        """A message was stored in the log as one of its topic; `synced` tells when it is durable."""
        held = self.held.get(id)
        if held is None:
            self._end(id)
        elif not held.is_kept:
            held.is_kept = True
            self._kept.append(id)

    def synced(self, now: float) -> None:
        """The log is durable: what is kept is over."""
        kept, self._kept = self._kept, []
        for id in kept:
            self.end(now, id)

    # ------------------------------------------------------------------------------------------------ told

    def take(self, now: float, unix_time: float, peer: str, payload: bytes, is_mine: Callable[[str], bool]) -> None:
        """Take what a publisher or another keeper tells; `is_mine`: whether a topic is kept in this place."""
        try:
            told = parse(payload)
        except MalformedError:
            self._statistics["malformed messages about delayed messages"] += 1
            return
        for put in told.puts:
            if is_mine(put.group.topic):
                self._put(now, unix_time, peer, put)
        for id in told.done:
            if (held := self.held.get(id)) is not None and peer == id.publisher and not held.is_out:
                held.is_out, held.due = True, now + RECOVER
                heappush(self._heap, (held.due, id))
        for id in told.gone:
            if self._may_end(peer, id):
                self.end(now, id)
        if told.have:
            self._tell(peer, encode_ids("gone", [id for id in told.have if id in self._ended]))
            self._tell(
                peer, encode_ids("want", [id for id in told.have if id not in self._ended and id not in self.held])
            )
        if told.want:
            self._tell(peer, encode_puts(self._again(now, id) for id in told.want if id in self.held))

    def _tell(self, keeper: str, payloads: Iterator[bytes]) -> None:
        self._told += [(ask_topic(keeper), payload) for payload in payloads]

    def _again(self, now: float, id: Id) -> Put:
        held = self.held[id]
        return held.put._replace(wait=max(0, ceil((held.due - now) * 1000)))

    def _may_end(self, peer: str, id: Id) -> bool:
        if peer == id.publisher or id not in self.held:
            return peer == id.publisher or peer in self._met
        return self._around.may_keep(peer, self.held[id].put.group.topic)

    def _put(self, now: float, unix_time: float, peer: str, put: Put) -> None:
        topic = put.group.topic
        may = self._around.may_publish if peer == put.id.publisher else self._around.may_keep
        if not may(peer, topic):
            self._statistics["delayed messages refused: no right"] += 1
        elif put.id in self._ended:
            self._tell(peer, encode_ids("gone", [put.id]))
        elif put.id in self.held:
            self._held.append(put)
            self._sync_at = -inf
        elif len(self.held) >= MESSAGES or self.size + put.size > SIZE:
            self._statistics["delayed messages refused: too many"] += 1
            self._refused.append((put, f"{len(self.held)} delayed messages of {self.size} bytes wait there already"))
        else:
            wait = put.wait / 1000
            self._hold(put, now + wait, unix_time + wait)
            held = self.held[put.id]
            held.is_direct = peer == put.id.publisher
            if not wait and not held.is_direct:
                self.late.append(held)
            if self._journal is not None:
                for entry in encode_puts([_stored(held)]):
                    self._journal.add(entry)
            self._held.append(put)
            self._sync_at = -inf

    def placed(self, keepers: Sequence[str]) -> None:
        """Set the other keepers; new ones are told what is held here."""
        for keeper in {*keepers} - self._met:
            self._tell(keeper, encode_ids("have", [*self.held]))
        self._met = {*keepers}

    # --------------------------------------------------------------------------------------------- in time

    @property
    def deadline(self) -> float:
        """When `turn` is due (monotonic seconds), -inf for now."""
        if self._told or self._refused:
            return -inf
        return min(self._sync_at, self._heap[0][0] if self._heap else inf)

    def turn(self, now: float) -> Turn:
        """Do what is due."""
        released = []
        while self._heap and self._heap[0][0] <= now:
            _, id = heappop(self._heap)
            held = self.held.get(id)
            if held is None or held.is_kept or held.is_released:
                continue
            when = self._release_at(now, held)
            if when > now:
                heappush(self._heap, (when, id))
                continue
            released.append(held.put)
            held.is_released = True
            if self._around.me not in self._around.keepers(held.put.group.topic):  # then it will not be in the log
                self.end(now, id)
        self._statistics["delayed messages released for their publishers"] += len(released)
        held_now = self._sync(now) if self._sync_at <= now else []
        result = Turn(self._told, released, held_now, self._refused)
        self._told, self._refused = [], []
        return result

    def _release_at(self, now: float, held: Held) -> float:
        """When this keeper releases a message that is due, as things are."""
        id = held.put.id
        owner = id.publisher, id.life
        keepers = self._around.keepers(held.put.group.topic)
        rank = self._rank(id, keepers)
        if self._around.me not in keepers and self._ask(now, held, keepers):
            return now + POLL  # the message does not come here as one of its topic
        ready_at = -inf if held.is_direct else self._ready_at
        if held.is_out:
            return max(held.due, ready_at) + STEP * rank
        if self._around.is_present(*owner):
            self._absent.pop(owner, None)
            if now >= held.due + ASK:  # its publisher may have told that it is over before it came here
                self._ask(now, held, keepers)
            return now + POLL
        if len(self._absent) > OWNERS:
            owners = {(one.publisher, one.life) for one in self.held}
            self._absent = {one: since for one, since in self._absent.items() if one in owners}
        since = self._absent.setdefault(owner, now)
        return max(held.due, since, ready_at) + STEP * rank

    def _ask(self, now: float, held: Held, keepers: Sequence[str]) -> bool:
        """Ask the other keepers of a topic whether a message is over; returns whether it is time to."""
        is_time = held.asked_at < now - ASK
        if is_time:
            held.asked_at = now
            for keeper in keepers:
                if keeper != self._around.me:
                    self._tell(keeper, encode_ids("have", [held.put.id]))
        return is_time

    def _rank(self, id: Id, keepers: Sequence[str]) -> int:
        """How many keepers release a message before this one. One that is not to keep the topic comes last."""

        def place(keeper: str) -> bytes:
            return blake2s(f"{keeper}/{id.tag}".encode(), digest_size=8).digest()

        ranked = sorted(keepers, key=place)
        return ranked.index(self._around.me) if self._around.me in ranked else len(ranked)

    def _sync(self, now: float) -> list[Put]:
        """Sync the journal; returns the messages that are on disk now."""
        waiting, self._held = self._held, []
        self._sync_at = inf
        if self._journal is None:
            return []
        try:
            if now < self._retry_at:
                raise StorageFullError("no room on the disk")
            self._journal.sync()
        except StorageError as error:
            if isinstance(error, StorageFullError):
                self._retry_at = max(self._retry_at, now + RETRY) if now >= self._retry_at else self._retry_at
                self._sync_at = self._retry_at
            self._refused += [(put, str(error)) for put in waiting]
            return []
        return waiting

    def close(self, now: float) -> None:
        """Sync a last time; what it returned is not acknowledged any more."""
        self._retry_at = -inf
        self._sync(now)


def _stored(held: Held) -> Put:
    return held.put._replace(wait=max(0, ceil(held.due_at * 1000)))
