"""A model at an endpoint: the replica and its state, and the calls, watches and messages of this endpoint.

Mergeable keys are a part of their own, `Mergeable`, with topics of their own. Only reads and watches see both parts.

The group carries out the replica's `Output` (see `consensus/output.py`). If a turn has messages to send, the next turn
writes and syncs what is to be stored, once the messages have left. The leader's disk and the followers then work at the
same time, and everything that arrives while a disk is busy shares the next sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from random import Random

from glue.contract import Delivery, Options, Publication, Request, Subscribe, Unsubscribe
from glue.errors import ModelError, StorageError
from glue.model.calls import DISAGREEMENT, NO_MAJORITY, Calls, CommandCall, Settled
from glue.model.clock import LeaderClock
from glue.model.consensus import Kind, Outcome, Output, Replica, Resolution, Role, Snapshot, Status
from glue.model.consensus.messages import Append, InstallSnapshot, Message, Welcome, is_heartbeat
from glue.model.consensus.wire import encode
from glue.model.disk import Disk
from glue.model.incoming import is_state, messages_of
from glue.model.mergeable.part import Mergeable
from glue.model.names import Names, disagreement, missing
from glue.model.questions import (
    Found,
    Question,
    Read,
    Refused,
    Remove,
    Synchronize,
    Transfer,
    Unknown,
    Unwatch,
    WatchPattern,
    Write,
)
from glue.model.reading import READS, Reads
from glue.model.requests import PREFIX, Answer, Ask, OpenModel, Pending, StackEvent
from glue.model.state import Change, Pattern, State, encode_entry
from glue.model.watches import WATCHES, Watches, difference

MERGE = "merge"
"""The topic level of mergeable keys."""


class ModelGroup:
    """One model at one endpoint."""

    def __init__(
        self, opened: OpenModel, scope: str, peer: str, incarnation: int, rng: Random, now: float, names: Names
    ) -> None:
        name, options = opened.name, opened.options
        self.name = name
        self.statistics: Counter[str] = Counter()
        self.names = names
        self._peer = peer
        self._disk = Disk(name, options.storage, self.statistics)
        stored = options.stored
        self._settings = options.consensus
        self.replica = Replica(peer, scope, options.consensus, stored, rng, now, is_state)
        self.state = State() if stored.snapshot is None else State.restore(stored.snapshot.data)
        self._stirred_at = -inf  # the last time of a message or question other than a heartbeat
        self._received_at = -inf  # the last time a message of the leader arrived
        self._speakers: set[str] = set()  # peers that sent as a leader in this turn
        self._clock = LeaderClock()
        self._lifespan = options.consensus.election_timeout
        # By reliability. Unordered, so that an absent replica does not delay newer messages to the others.
        self._options = [Options(lifespan=self._lifespan, reliable=way, ordered=False) for way in (False, True)]
        self._rng = rng
        self._nonce = f"{peer}-{incarnation}"
        self._calls = self._new_calls()
        self._reads = Reads()
        self._changes: dict[int, Pending] = {}  # tokens of transfers and removals by ticket
        self._watches = Watches(name, peer, incarnation)
        self.mergeable: Mergeable | None = None
        if options.mergeable:
            self.mergeable = Mergeable(
                options.mergeable, options.delta_file, options.deltas, f"{PREFIX}/{name}/{MERGE}",
                self.statistics, rng, now, opened.at,
            )  # fmt: skip
        self._status = self.replica.status

    def _new_calls(self) -> Calls:
        return Calls(f"{self._nonce}-{self._rng.getrandbits(32):08x}")

    # -------------------------------------------------------------------------------------------------- topics

    @property
    def to_all(self) -> str:
        """The topic of all replicas: a message to it is one multicast."""
        return f"{PREFIX}/{self.name}/all"

    def to_one(self, peer: str) -> str:
        """The topic of one replica: a message to it is unicast."""
        return f"{PREFIX}/{self.name}/to/{peer}"

    @property
    def _topics(self) -> list[str]:
        """The topics of this replica."""
        topics = [self.to_all, self.to_one(self._peer)]
        return topics if self.mergeable is None else [*topics, *self.mergeable.topics(self._peer)]

    def open(self) -> list[Request]:
        """Subscribe to the topics of this replica."""
        return [Subscribe((self.name, n), topic) for n, topic in enumerate(self._topics)]

    def close(self) -> tuple[list[StackEvent], list[Request]]:
        """Unsubscribe and close the storage. Calls under way end as refused or unknown."""
        up = self._end("the model was closed")
        self._disk.close()
        return up, [Unsubscribe((self.name, n)) for n, _ in enumerate(self._topics)]

    def _end(self, reason: str) -> list[StackEvent]:
        """End all calls, reads and changes: as unknown if they may have had an effect, else as refused."""
        up = self._answers(self._calls.end(reason))
        up += [Answer(token, Refused(reason, unreachable=True)) for token in self._reads.end()]
        up += [Answer(token, Unknown(reason)) for token in self._changes.values()]
        self._changes.clear()
        return up if self.mergeable is None else up + self.mergeable.end(Unknown(reason))

    # ------------------------------------------------------------------------------------------------ turns

    @property
    def status(self) -> Status:
        """Role, term, leader and commit index of the replica."""
        return self.replica.status

    @property
    def deadline(self) -> float:
        """The time at which `receive` must be called even without messages."""
        if self._disk.failure:
            return self._disk.deadline
        if self._disk.unwritten:
            return -inf
        at = min(self.replica.deadline, self._calls.deadline, self._reads.deadline)
        if self._status.role is Role.LEADER:
            at = min(at, self._clock.due(self.state))
        return at if self.mergeable is None else min(at, self.mergeable.deadline)

    @property
    def backlog(self) -> int:
        """Estimated bytes of the calls that wait for their answers."""
        return 256 * len(self._calls)

    def receive(self, now: float, deliveries: Sequence[Delivery]) -> tuple[list[StackEvent], list[Request]]:
        """Take messages of other replicas, do what is due, and propose what this endpoint asked for."""
        up: list[StackEvent] = []
        down: list[Request] = []
        if self._disk.failure and not self._is_back(now, up, down):
            return up, down
        try:
            self._sync(now, up, down)
            if self.mergeable is not None:
                deliveries = self._merge(now, self.mergeable, deliveries, up, down)
            self._propose(now)
            self._obey(now, self.replica.receive(now, self._messages(now, deliveries)), up, down)
            if not down:  # without messages, nothing has to leave before the sync
                self._sync(now, up, down)
            if self._status.leader in self._speakers:
                self._received_at = now
            self._speakers.clear()
        except StorageError as error:
            self._fail(now, error, up)
            self._step_down(now, up, down)
        self._expire(now, up)
        return up, down

    def _sync(self, now: float, up: list[StackEvent], down: list[Request]) -> None:
        """Make the pending writes durable, and tell the replica."""
        if self._disk.unwritten:
            self._obey(now, self.replica.synced(now, self._disk.flush()), up, down)

    def _merge(
        self, now: float, part: Mergeable, deliveries: Sequence[Delivery], up: list[StackEvent], down: list[Request]
    ) -> Sequence[Delivery]:
        """Give the mergeable part its turn; returns the deliveries of the other part."""
        its = [delivery for delivery in deliveries if delivery.topic.startswith(part.topic)]
        others = [delivery for delivery in deliveries if not delivery.topic.startswith(part.topic)]
        if its or part.deadline <= now:
            changes, requests = part.receive(now, its, up)
            up += self._watches.tell(changes)
            down += requests
        return others

    def _fail(self, now: float, error: StorageError, up: list[StackEvent]) -> None:
        """Stop this replica after a failed write: until a full disk has room, else for good."""
        self._disk.fail(now, error)
        up += self._end(self._disk.failure)
        self._calls = self._new_calls()  # The calls so far have been answered; new ones may come once there is room.

    def _step_down(self, now: float, up: list[StackEvent], down: list[Request]) -> None:
        """Hand the leadership over, because a replica that cannot store must not lead."""
        if self._status.role is Role.LEADER:
            self._obey(now, self.replica.step_down(now), up, down)

    def _is_back(self, now: float, up: list[StackEvent], down: list[Request]) -> bool:
        """Whether a full disk has room again. Messages that arrive until then count as lost."""
        self._step_down(now, up, down)
        others = [] if self.mergeable is None else [self.mergeable.recover]
        number = self._disk.retry(now, others)
        if number:
            self._obey(now, self.replica.synced(now, number), up, down)
        return number is not None

    def _messages(self, now: float, deliveries: Sequence[Delivery]) -> list[tuple[str, Message]]:
        messages = messages_of(deliveries, self.names, self.statistics)
        for sender, message in messages:
            if message.__class__ in (Append, InstallSnapshot):
                self._speakers.add(sender)
            if not is_heartbeat(message):
                self._stirred_at = now
        return messages

    # ---------------------------------------------------------------------------------- output of the replica

    def _obey(self, now: float, output: Output, up: list[StackEvent], down: list[Request]) -> None:
        """Carry out an output: messages, then the state, then the tickets, and the disk last. Its module tells why."""
        for receiver, message in output.messages:
            if not is_heartbeat(message):
                self._stirred_at = now
            topic = self.to_all if receiver is None else self.to_one(receiver)
            is_rest = now - self._stirred_at > self._lifespan
            down.append(Publication(topic, [encode(message)], 0.0, options=self._options[not is_rest]))
            if message.__class__ is Welcome and receiver is not None:
                told = self.names.told(self.replica.configuration.voters)
                down.append(Publication(topic, [told], 0.0, options=self._options[True]))
        if output.status is not None:
            self._follow(output.status)
            self._clock.role(now, output.status.role is Role.LEADER, self.state.time_ms)
        if output.restore is not None:
            self._restore(output.restore, up)
        for entry in output.committed:
            if entry.kind == Kind.COMMAND:
                applied = self.state.apply(entry.index, entry.data)
                up += self._answers(self._calls.take(applied))
                up += self._watches.tell(applied.changes)
        for resolution in output.resolved:
            self._settle(now, resolution, up)
        if output.write is not None:
            self._disk.unwritten.append(output.write)
        if output.wants_snapshot:
            commit_index = self.replica.status.commit_index
            self._obey(now, self.replica.take_snapshot(now, commit_index, self.state.snapshot()), up, down)

    def _follow(self, status: Status) -> None:
        """Note a new status; if the leader is new, ask it for everything that is under way."""
        if status.leader and (status.leader, status.term) != (self._status.leader, self._status.term):
            self._calls.repeat()
            self._reads.repeat()
        self._status = status

    def _restore(self, snapshot: Snapshot, up: list[StackEvent]) -> None:
        """Replace the state by a leader's snapshot, and settle the calls with results in it."""
        before, self.state = self.state, State.restore(snapshot.data)
        for session, serial in self._calls.results():
            result = self.state.sessions.result(session, serial)
            if result is not None:
                up += self._answers(self._calls.found(serial, result))
        self._calls.unblock()
        if len(self._watches):
            up += self._watches.tell(difference(before, self.state))

    def _settle(self, now: float, resolution: Resolution, up: list[StackEvent]) -> None:
        ticket, outcome = resolution.ticket, resolution.outcome
        reads = self._reads.take(ticket)
        if reads is not None:
            if outcome is Outcome.READABLE:
                up += [Answer(token, Found(self._match(pattern))) for _, token, pattern in reads]
            else:
                self._reads.again(reads, now + self._lifespan / 20)
        elif ticket in self._changes:
            answer = Found([]) if outcome in (Outcome.COMMITTED, Outcome.READABLE) else Refused(resolution.reason)
            up.append(Answer(self._changes.pop(ticket), answer))
        elif outcome is Outcome.COMMITTED:
            self._calls.committed(ticket)
        else:
            self._calls.settle(now, ticket, outcome is Outcome.REFUSED)

    @staticmethod
    def _answers(settled: Settled) -> list[StackEvent]:
        return [Answer(token, ending) for token, ending in settled]

    # ---------------------------------------------------------------------------------------------- questions

    def ask(self, now: float, asked: Ask) -> list[StackEvent]:
        """Take a question; its answer is returned here or comes from a later `receive`."""
        up: list[StackEvent] = []
        self._stirred_at = now
        token, question, deadline = asked.token, asked.question, now + asked.timeout
        if self._disk.failure:
            return [Answer(token, Refused(self._disk.failure, unreachable=True))]
        try:
            if self.mergeable is None or not self.mergeable.concerns(question):
                return self._take(now, token, question, deadline)
            up, changes = self.mergeable.ask(now, asked.at, token, question, deadline)
            return up + self._watches.tell(changes)
        except ModelError as error:
            return [Answer(token, Refused(str(error)))]
        except StorageError as error:
            self._fail(now, error, up)
            return [*up, Answer(token, Unknown(self._disk.failure))]

    def _take(self, now: float, token: Pending, question: Question, deadline: float) -> list[StackEvent]:
        match question:
            case Write(operations, patient):
                return self._answers(self._calls.add(CommandCall(token, operations, deadline, patient)))
            case Read(pattern):
                if len(self._reads) >= READS:
                    return [Answer(token, Refused(f"more than {READS} reads wait"))]
                self._reads.add(deadline, token, Pattern(pattern))
            case WatchPattern(watcher, text):
                if len(self._watches) >= WATCHES:
                    return [Answer(token, Refused(f"more than {WATCHES} watches of one model"))]
                wanted = Pattern(text)
                first = self._watches.add(watcher, wanted, self._match(wanted))
                self._note_watches()
                return [*first, Answer(token, Found([]))]
            case Unwatch(watcher):
                self._watches.remove(watcher)
                self._note_watches()
                return [Answer(token, Found([]))]
            case Synchronize():
                return [Answer(token, Refused("no keys of the model are mergeable"))]
            case Transfer(peer):
                self._changes[self.replica.transfer(now, peer)] = token
            case Remove(peer):
                self._changes[self.replica.remove(now, peer)] = token
        return []

    def _propose(self, now: float) -> None:
        """Pass all waiting commands and reads to the replica, in as few entries as possible."""
        leads = self._status.role is Role.LEADER
        for commands, calls in self._calls.batches(now):
            stamp = self._clock.stamp(now) if leads else 0
            self._calls.proposed(self.replica.propose(now, encode_entry(stamp, commands)), calls)
        if leads and self._clock.due(self.state) <= now:
            self.replica.propose(now, encode_entry(self._clock.stamp(now), []))
        if self._reads.are_due(now):
            self._reads.asked(self.replica.read(now))

    def _match(self, pattern: Pattern) -> list[Change]:
        """All keys of both parts that match, in order of key."""
        found = self.state.match(pattern)
        if self.mergeable is not None:
            found = sorted(found + self.mergeable.match(pattern), key=lambda change: change.key)
        return found

    def _note_watches(self) -> None:
        if self.mergeable is not None:
            self.mergeable.store.is_watched = len(self._watches) > 0

    def _expire(self, now: float, up: list[StackEvent]) -> None:
        if self._calls.deadline <= now:
            up += self._answers(self._calls.expired(now, self._trouble(now)))
        up += [Answer(token, Refused(self._trouble(now), unreachable=True)) for token in self._reads.expired(now)]

    def _trouble(self, now: float) -> str:
        """Describe why nothing is committed now, as far as this replica knows."""
        if self._status.role is Role.FOUNDING:
            reason = f"the model {self.name!r} is not founded yet, or not in reach: too few of its voters are found"
            trouble = self.failure(now) or missing(self._settings, self.replica.found, self.names)
            return f"{reason}; {trouble}" if trouble else reason
        return f"{NO_MAJORITY} of model {self.name!r}; reads with stale=True still work"

    def failure(self, now: float) -> str:
        """Describe why this replica, or another one, takes no part; "" if all is well."""
        if self._disk.failure:
            return self._disk.failure
        if self.replica.is_among_strangers:
            return DISAGREEMENT
        return disagreement(self._settings, self.replica.differing(now), self.names)

    # ----------------------------------------------------------------------------------------- stale reads

    def age(self, now: float) -> float:
        """Seconds since a leader's message arrived, which bounds the age of the local state; 0 at the leader itself."""
        return 0.0 if self._status.role is Role.LEADER else now - self._received_at

    def local(self, pattern: str) -> list[Change]:
        """Return the local entries, however old. Raises ModelError for a malformed pattern."""
        return self._match(Pattern(pattern))

    @property
    def size(self) -> int:
        """The number of keys with a value."""
        return len(self.state) + (0 if self.mergeable is None else len(self.mergeable.store))

    @property
    def is_voter(self) -> bool:
        """Whether this replica has a vote."""
        return self._peer in self.replica.configuration.voters
