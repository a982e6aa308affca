"""The consumers at one home keeper: takes the messages of members, and says what to send.

Positions are synced at most COMMIT seconds after an acknowledgement. Each time the keeper opens its log, all epochs
grow, so that messages from before are refused. Each keeper tells the others of the consumers at its home, so that no
second home begins while the first is away. If both sides of a split began a home, the later home ends when they meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from glue.consumers.consumer import TICK, Consumer, Content
from glue.consumers.position import Position
from glue.consumers.positions import Positions, Stored
from glue.consumers.wire import (
    Ask,
    ask_topic,
    check_name,
    consumer_of,
    done_entries,
    encode,
    key_of,
    member_of,
    parse,
    tell_topic,
)  # fmt: skip
from glue.contract.heads import MalformedError, integer
from glue.errors import StorageError, StorageFullError
from glue.history.kept import group_of
from glue.history.wire import EARLIEST, LATEST, SINCE
from glue.storage import Log
from glue.topics.bundle import MessageGroup

COMMIT = 0.01
"""Seconds from an acknowledgement to the sync of the position."""
RETRY = 1.0
"""Seconds between two tries to store positions on a full disk."""
NOTICE = 5.0
"""Seconds between two notices to the other keepers."""
CONSUMERS = 4096
"""Consumers at one home at most, with some 2 kB each when nothing waits: 8 MB."""
SHARES, SHARES_SIZE = 256, 256 << 10
"""Shares, and bytes of payload, in one message to a member at most."""
STUCK = 60.0
"""Seconds without progress after which a consumer counts as stuck: the default of the setting `consumer_alert`."""


class ConsumerAlert(NamedTuple):
    """News that people should look at.

    `kind`: "stuck": nothing moved for long, although messages wait; "conflict": the consumer was begun at two keepers,
    and goes on at the other one; "storage": positions cannot be stored, so nothing is given away any more.
    """

    kind: str
    name: str
    pattern: str
    detail: str


Message = tuple[str, bytes]
"""A topic and a payload to publish."""


class Home:
    """The consumers at one keeper. Not thread-safe; `alert` is called with news."""

    def __init__(
        self, me: str, log: Log, positions: Positions, statistics: Counter[str], covers: Callable[[str], bool],
        others: Callable[[str], Iterable[str]], alert: Callable[[ConsumerAlert], None], limit: float = STUCK,
    ) -> None:  # fmt: skip
        """`covers`: whether all of a pattern is kept here. `others`: the other keepers of a pattern.

        `limit`: seconds without progress after which a consumer counts as stuck.
        """
        self.limit = limit
        self.may_read: Callable[[str, str], bool] | None = None  # where rules say what peers may have
        self.consumers: dict[str, Consumer] = {}
        self._me = me
        self._log = log
        self._positions = positions
        self._statistics = statistics
        self._covers = covers
        self._others = others
        self._alert = alert
        self._commit_at = self._tick_at = self._notice_at = inf
        self._retry_at = -inf
        self._out: list[Message] = []
        for id, stored in [*positions.stored.items()]:
            if "epoch" in stored.about:
                stored.about["epoch"] += 1
                positions.put(id, stored)
                self._open(id)
        if self.consumers:  # the first turn stores the new epochs, before it gives anything away
            self._commit_at = self._tick_at = self._notice_at = -inf

    def _open(self, id: str) -> Consumer:
        self.consumers[id] = Consumer(id, self._positions, self._log, self._statistics)
        return self.consumers[id]

    # ----------------------------------------------------------------------------------------------- asked

    def take(self, now: float, unix_time: float, peer: str, life: int, payload: Any) -> list[Message]:
        """Take what an endpoint asks; returns what to publish."""
        try:
            head, _ = parse(payload)
            asked = head.get("ask")
            if asked == "list":
                self._list(now, peer, life, integer(head.get("id")))
            else:
                name, pattern = consumer_of(head)
                self._take(Ask(now, unix_time, peer, life, head, name, pattern, key_of(name, pattern)))
        except MalformedError:
            self._statistics["malformed messages to the home of a consumer"] += 1
        return self._turn(now)

    def _take(self, ask: Ask) -> None:
        """Take what an endpoint asks about a consumer. Raises MalformedError."""
        asked = ask.head.get("ask")
        if asked == "where":
            self._tell_where(ask)
        elif asked == "known":
            self._known(ask.peer, ask.name, ask.pattern, integer(ask.head.get("created")))
        elif asked in ("seek", "forget"):
            self._change(ask)
        elif asked in ("join", "here", "leave", "done", "failed"):
            member = member_of(ask.head)
            if not member.startswith(f"{ask.peer}-{ask.life}-"):
                raise MalformedError("member")
            if asked == "join":
                self._join(ask, member)
            else:
                self._member_says(ask, member)
        else:
            raise MalformedError("ask")

    def _tell(self, address: tuple[str, int], tell: str, name: str, pattern: str, **more: Any) -> None:
        """Answer an endpoint in one of its lives."""
        head = {"tell": tell, "name": name, "pattern": pattern, **more}
        self._out.append((tell_topic(*address), encode(head)))

    def _tell_where(self, ask: Ask) -> None:
        """Tell where the home of a consumer is, as far as this keeper knows, and whether it could be here."""
        stored = self._positions.stored.get(ask.id)
        home, epoch = "", 0
        if stored is not None:
            home, epoch = stored.about.get("home", self._me), stored.about.get("epoch", 0)
        covers = 1 if self._covers(ask.pattern) and not self._positions.failure else 0
        self._tell(ask.address, "where", ask.name, ask.pattern, home=home, epoch=epoch, covers=covers)

    def _join(self, ask: Ask, member: str) -> None:
        """Take a member of a consumer in; begin the consumer here if the member asks for that and it may be."""
        known = None if self._positions.failure else self.consumers.get(ask.id)  # a failed disk gives nothing away
        consumer = known or self._begun(ask)
        if consumer is None:
            return
        if consumer.join(member, ask.address):
            consumer.here(member, 0)
            self._tell(ask.address, "joined", ask.name, ask.pattern, member=member, epoch=consumer.epoch)
        else:
            self._statistics["members of consumers refused: too many"] += 1

    def _begun(self, ask: Ask) -> Consumer | None:
        """Begin a consumer here, if that is asked for and may be; else tell why not, and return None."""
        if self.may_read is not None and not self.may_read(ask.peer, ask.pattern):
            self._statistics["members of consumers refused: no right"] += 1
            return None
        is_elsewhere = ask.id in self._positions.stored
        if is_elsewhere or not ask.head.get("begin") or not self._covers(ask.pattern) or self._positions.failure:
            self._tell_where(ask)
            return None
        if len(self.consumers) >= CONSUMERS:
            self._statistics["consumers refused: too many"] += 1
            return None
        about = {
            "name": ask.name, "pattern": ask.pattern, "epoch": 1, "created": int(ask.unix_time * 1000),
            "ordered": 1 if ask.head.get("ordered") else 0,
        }  # fmt: skip
        start = self._offset(ask.head.get("start"), ask.unix_time)
        self._positions.put(ask.id, Stored(Position(start), start, about))
        self._commit(ask.now)
        self._tick_at = min(self._tick_at, ask.now + TICK)
        self._notice_at = ask.now
        return self._open(ask.id)

    def _offset(self, start: Any, unix_time: float) -> int:
        """The offset at which a consumer begins."""
        kind, value = start if isinstance(start, list) and len(start) == 2 else (EARLIEST, 0)
        if kind == LATEST:
            return self._log.durable
        if kind == SINCE:
            return self._log.offset_at(integer(value) / 1e6)
        if kind != EARLIEST:
            raise MalformedError("start")
        return self._log.first

    def _member_says(self, ask: Ask, member: str) -> None:
        """Take what a member has done; who is no member of this epoch is told so."""
        consumer, asked = self.consumers.get(ask.id), ask.head["ask"]
        if consumer is None or ask.head.get("epoch") != consumer.epoch or member not in consumer.members:
            if asked != "leave":
                self._statistics["acknowledgements of members that are fenced"] += asked == "done"
                self._tell(ask.address, "fenced", ask.name, ask.pattern, member=member)
        elif asked == "leave":
            consumer.leave(member)
        elif asked == "here":
            consumer.here(member, integer(ask.head.get("got", 0)))
            self._tell(ask.address, "here", ask.name, ask.pattern, member=member)
        else:
            act = consumer.done if asked == "done" else consumer.failed
            for entry in done_entries(ask.head, "shares"):
                if not act(ask.now, member, *entry):
                    self._statistics["acknowledgements of shares that a member does not have"] += 1
            self._commit_at = min(self._commit_at, max(ask.now + COMMIT, self._retry_at))

    # ---------------------------------------------------------------------------------------------- people

    def _list(self, now: float, peer: str, life: int, request: int) -> None:
        found = [consumer.describe(now, self._me) for consumer in self.consumers.values()]
        head = {"tell": "list", "id": request, "consumers": found}
        self._out.append((tell_topic(peer, life), encode(head)))

    def _change(self, ask: Ask) -> None:
        """Move a consumer to another position, or forget it; all its members have to join again."""
        request = integer(ask.head.get("id"))
        consumer, is_forgotten = self.consumers.get(ask.id), ask.head["ask"] == "forget"
        if consumer is not None:
            self._fence(consumer)
            if is_forgotten:
                del self.consumers[ask.id]
                self._positions.forget(ask.id)
            else:
                offset = self._offset(ask.head.get("start"), ask.unix_time)
                about = {**consumer.stored.about, "epoch": consumer.epoch + 1}
                consumer.move(Stored(Position(offset), offset, about))
            self._commit_at = -inf
        elif is_forgotten and ask.id in self._positions.stored:  # its home is elsewhere
            self._positions.forget(ask.id)
            self._commit_at = -inf
        self._tell(ask.address, "sought", ask.name, ask.pattern, id=request, done=consumer is not None)

    def _fence(self, consumer: Consumer) -> None:
        """Tell all members that they are none any more."""
        for member, known in consumer.members.items():
            self._tell(known.address, "fenced", consumer.name, consumer.pattern, member=member)

    def _known(self, home: str, name: str, pattern: str, created: int) -> None:
        """Another keeper says that it is the home of a consumer."""
        id = key_of(name, pattern)
        stored = self._positions.stored.get(id)
        if stored is None and len(self._positions.stored) < 2 * CONSUMERS and check_name(name):
            self._positions.put(id, Stored(Position(), 0, {"name": name, "pattern": pattern, "home": home}))
            self._commit_at = -inf
        elif stored is not None and "home" in stored.about:
            if stored.about["home"] != home:
                stored.about["home"] = home
                self._positions.put(id, stored)
                self._commit_at = -inf
        elif stored is not None and (created, home) < (stored.about["created"], self._me):
            consumer = self.consumers.pop(id)
            self._fence(consumer)
            self._positions.put(id, Stored(Position(), 0, {"name": name, "pattern": pattern, "home": home}))
            self._commit_at = -inf
            self._alert(ConsumerAlert("conflict", name, pattern, f"it was begun at two keepers, and goes on at {home}"))

    # ---------------------------------------------------------------------------------------------- timers

    @property
    def deadline(self) -> float:
        """When `advance` is due (monotonic seconds), -inf for now."""
        due = min(self._commit_at, self._tick_at)
        return min([due, *(consumer.deadline for consumer in self.consumers.values())])

    def advance(self, now: float) -> list[Message]:
        """Do what is due; returns what to publish."""
        if now >= self._tick_at:
            self._tick_at = now + TICK if self.consumers else inf
            for consumer in self.consumers.values():
                for member in consumer.tick():
                    known = consumer.members[member]
                    self._tell(known.address, "fenced", consumer.name, consumer.pattern, member=member)
                    consumer.leave(member)
                    self._statistics["members of consumers removed: silent"] += 1
            if now >= self._notice_at:
                self._notice_at = now + NOTICE
                self._notify()
        return self._turn(now)

    def _notify(self) -> None:
        """Tell the other keepers of the consumers that have their home here."""
        for consumer in self.consumers.values():
            head = {
                "ask": "known", "name": consumer.name, "pattern": consumer.pattern,
                "created": consumer.stored.about["created"],
            }  # fmt: skip
            for keeper in self._others(consumer.pattern):
                self._out.append((ask_topic(keeper), encode(head)))

    def _commit(self, now: float) -> bool:
        """Store what changed; whether it is durable now."""
        self._commit_at = inf
        if not self._positions.is_dirty:
            return True
        if self._positions.failure or now < self._retry_at:
            self._commit_at = inf if self._positions.failure else self._retry_at
            return False
        try:
            self._positions.sync()
        except StorageError as error:
            if isinstance(error, StorageFullError):
                self._retry_at = self._commit_at = now + RETRY
            for consumer in self.consumers.values():
                self._alert(ConsumerAlert("storage", consumer.name, consumer.pattern, str(error)))
            return False
        return True

    def _turn(self, now: float) -> list[Message]:
        """Commit if that is due, give away what there is, and return what to publish."""
        if now >= self._commit_at:
            self._commit(now)
        self._give(now)
        for consumer in self.consumers.values():
            if consumer.look(now, self.limit):
                self._statistics["consumers stuck"] += 1
                oldest = consumer.oldest()
                detail = f"nothing moved for {self.limit:g} s; the oldest message is on {oldest[0] if oldest else '?'}"
                self._alert(ConsumerAlert("stuck", consumer.name, consumer.pattern, detail))
        found, self._out = self._out, []
        return found

    def _give(self, now: float) -> None:
        """Give messages to members, once what is given away is durable; else their members have to join again."""
        given: list[tuple[Consumer, str, list[tuple[int, Content]]]] = []
        may_store = not self._positions.failure and now >= self._retry_at
        for consumer in self.consumers.values():
            if not (may_store and self._acts(now, consumer.id) and self._feed(now, consumer)):
                consumer.rests = True
                continue
            reach = consumer.stored.reach
            by_member: dict[str, list[tuple[int, Content]]] = {}
            for member, share, content in consumer.assign(now):
                by_member.setdefault(member, []).append((share, content))
            if consumer.stored.reach != reach:
                self._commit_at = -inf
            given += [(consumer, member, shares) for member, shares in by_member.items()]
        if self._commit_at == -inf and not self._commit(now):
            for consumer, member, _ in given:  # nothing was sent
                self._tell(consumer.members[member].address, "fenced", consumer.name, consumer.pattern, member=member)
                consumer.leave(member)
            return
        for consumer, member, shares in given:
            self._send(consumer, member, shares)

    def _feed(self, now: float, consumer: Consumer) -> bool:
        """Have a consumer read what there is; returns whether it could. The others go on if it could not."""
        if now < consumer.retry_at:
            return False
        try:
            consumer.feed(now)
        except StorageError as error:
            self._statistics["logs that consumers could not read"] += 1
            self._alert(ConsumerAlert("storage", consumer.name, consumer.pattern, str(error)))
            consumer.retry_at = now + RETRY
            return False
        return True

    def _acts(self, now: float, id: str) -> bool:
        """Whether this home may give messages of a consumer away."""
        return True

    def _send(self, consumer: Consumer, member: str, shares: Sequence[tuple[int, Content]]) -> None:
        """Send a member its shares, in as few messages as may be."""
        entries: list[list[Any]] = []
        groups: list[MessageGroup] = []
        size = 0
        for place, (share, content) in enumerate(shares):
            record = content.record
            entries.append([share, int(content.is_again), record.origin, record.name, record.life])
            groups.append(group_of(record))
            size += content.size
            if len(entries) >= SHARES or size >= SHARES_SIZE or place + 1 == len(shares):
                head = {
                    "tell": "shares", "name": consumer.name, "pattern": consumer.pattern, "member": member,
                    "epoch": consumer.epoch, "shares": entries,
                }  # fmt: skip
                self._out.append((tell_topic(*consumer.members[member].address), encode(head, groups)))
                entries, groups, size = [], [], 0

    def close(self, now: float) -> None:
        """Store how far everything was given away, and end."""
        for consumer in self.consumers.values():
            self._fence(consumer)
            given = max(consumer.position.next, consumer.sent)
            if given < consumer.stored.reach:
                self._positions.reach(consumer.id, given)
        self._commit(now)
