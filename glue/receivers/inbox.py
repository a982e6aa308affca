"""Messages from one life of another endpoint, and the reports to it.

Reports of taken batches, and answers, leave at once. Reports of handled messages leave when their whole batch was
handled, or with any other report. Messages are settled by any thread; the rest is done under one lock.

A message that is handed back comes again. What its sender had sent before it knew is handed back, too: a receiver takes
a message whose number is below the last one for repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glue.receivers.context import Call, Mail
from glue.receivers.wire import AGAIN, BATCH_MESSAGES, Report, Result

WAITING = 200_000
"""Messages of one sender that wait here at most, twice as many as it has under way: 60 MB. More are not taken."""
REPORT_BYTES = 256 << 10
"""Bytes of answers that leave together; one answer may have more."""
BEHIND = 60
"""Reminders, so half a minute, until messages that were handed back and did not come again are forgotten."""

Outcome = Callable[[int, bool, BaseException | None, Any], Result | None]
"""The result of a message, by its number, whether it is a request, its error and its answer; None: it was handled."""


class Incoming:
    """A taken batch; collects the results of its messages."""

    __slots__ = ("done", "inbox", "key", "mails", "number", "others", "sender", "told", "total")

    def __init__(self, inbox: Inbox, key: tuple[str, int], number: int, total: int) -> None:
        self.inbox = inbox
        self.key = key
        self.sender = inbox.sender
        self.number = number
        self.total = total
        self.mails: list[Mail] = []
        self.done: list[int] = []  # the numbers of the messages that were handled; `told` so many of them
        self.told = 0
        self.others = 0  # messages with a result of their own

    def settled(self, mail: Mail, error: BaseException | None, answer: Any) -> None:
        """Take what became of a message."""
        inbox = self.inbox
        is_request = mail.__class__ is Call and mail.is_request
        result = inbox.outcome(mail.seq, is_request, error, answer) if is_request or error is not None else None
        if result is None:
            self.done.append(mail.seq)
            if len(self.done) + self.others == self.total:
                inbox.tell()
            return
        if result.status == AGAIN:
            inbox.handed_back(self.key, mail.seq)
        inbox.results.append((self, result))
        inbox.tell()


class Inbox:
    """The batches of one sender. `tell` is called when something is to leave."""

    def __init__(self, peer: str, sender: str, outcome: Outcome, tell: Callable[[], None]) -> None:
        self.peer = peer
        self.sender = sender
        self.outcome = outcome
        self.tell = tell
        self.is_told = False  # for the driver: whether it is about to call `report`
        self.taken: list[int] = []
        self.moved: list[tuple[int, str]] = []
        self.results: list[tuple[Incoming, Result]] = []
        self._open: dict[tuple[str, int], list[Incoming]] = {}
        self._waiting = 0
        self._behind: dict[tuple[str, int], tuple[int, int]] = {}  # the highest number handed back, and reminders left
        self._is_cut = False  # whether the last report left out what was done

    @property
    def is_full(self) -> bool:
        """Whether more messages are not to be taken."""
        return self._waiting >= WAITING

    def open(self, key: tuple[str, int], number: int, total: int) -> Incoming:
        """Take a batch to a kind and partition."""
        incoming = Incoming(self, key, number, total)
        self._open.setdefault(key, []).append(incoming)
        self._waiting += total
        self.taken.append(number)
        return incoming

    def take_over(self, mail: Mail, former: Incoming, incoming: Incoming) -> None:
        """Let a message that came before, and still waits, belong to another batch: its result goes with that."""
        former.total -= 1
        self._waiting -= 1
        mail.batch = incoming
        incoming.mails.append(mail)

    def handed_back(self, key: tuple[str, int], seq: int) -> None:
        """A message is to be sent again. The caller holds the lock."""
        highest, _ = self._behind.get(key, (0, 0))
        self._behind[key] = max(highest, seq), BEHIND

    def is_ahead(self, key: tuple[str, int], first: int) -> bool:
        """Whether a batch with this first number was sent before its sender knew that earlier messages come back.

        It has to be sent again after these, or its receivers would take these for repeated ones. A sender that knows
        of them sends everything again in order, so that then the first number is one of theirs or a lower one.
        """
        highest, _ = self._behind.get(key, (0, 0))
        if 0 < highest < first:
            return True
        self._behind.pop(key, None)
        return False

    def waiting(self, key: tuple[str, int], first: int) -> dict[int, Mail]:
        """The messages from a number on that came before, and still wait or are being handled."""
        batches = self._open.get(key)
        if not batches:
            return {}
        return {
            mail.seq: mail
            for batch in batches
            if batch.mails and batch.mails[-1].seq >= first
            for mail in batch.mails
            if mail.batch is not None
        }

    def remind(self) -> None:
        """Report all unfinished batches again, so that none is sent again; called every half second."""
        self._behind = {key: (highest, left - 1) for key, (highest, left) in self._behind.items() if left > 1}
        told = set(self.taken)
        self.taken += [batch.number for batches in self._open.values() for batch in batches if batch.number not in told]

    def report(self) -> Report | None:
        """Take the report for now; None for nothing. The caller holds the lock."""
        taken, self.taken = self.taken[:BATCH_MESSAGES], self.taken[BATCH_MESSAGES:]
        moved, self.moved = self.moved[:BATCH_MESSAGES], self.moved[BATCH_MESSAGES:]
        count = self._few()
        results = self.results[:count]
        del self.results[:count]
        for batch, _ in results:
            batch.others += 1
        done: list[tuple[int, list[int] | None]] = []
        self._is_cut = False
        for key, batches in list(self._open.items()):
            for batch in batches:
                count = len(batch.done)
                if count > batch.told and len(done) >= BATCH_MESSAGES:
                    self._is_cut = True
                elif count > batch.told:
                    is_all = count == batch.total
                    done.append((batch.number, None if is_all else batch.done[batch.told : count]))
                    batch.told = count
            left = [batch for batch in batches if batch.told + batch.others < batch.total]
            self._waiting -= sum(batch.total for batch in batches if batch not in left) if left != batches else 0
            if left:
                self._open[key] = left
            else:
                del self._open[key]
        if not (taken or moved or done or results):
            return None
        return Report(taken, moved, done, [(batch.number, result) for batch, result in results])

    def _few(self) -> int:
        """How many results leave together."""
        size = 0
        for index, (_, result) in enumerate(self.results[:BATCH_MESSAGES]):
            size += len(result.body)
            if size > REPORT_BYTES and index:
                return index
        return min(len(self.results), BATCH_MESSAGES)

    @property
    def has_more(self) -> bool:
        """Whether more is to be told at once."""
        return bool(self.taken or self.moved or self.results or self._is_cut)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, is to come again, or is to be told."""
        return not (self._open or self.taken or self.moved or self.results or self._behind)
