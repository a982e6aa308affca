"""One receiver in memory: its mailbox, and what handling a message means.

The steps are a generator. It yields what has to be waited for (`Load`, `Save`, `Await`), and a driver resumes it with
the result, so threads, asyncio and the simulator share them. What a handler sends and answers leaves after the state
that it changed was written.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Generator
from math import inf
from typing import Any, Protocol

from glue.errors import GlueError
from glue.receivers.context import Await, Context, Load, Mail, Save, Step, Timer
from glue.receivers.state import State
from glue.receivers.store import Document

SENDERS = 256
"""Senders of which a receiver remembers the last message, of some 100 bytes: 25 kB. The one heard longest ago goes."""
MAILBOX = 65_536
"""Messages that wait at one receiver at most."""
REMEMBERED = 1000
"""Bytes of an answer that is remembered, to be sent again."""


class Surroundings(Protocol):
    """What surrounds the receivers of one kind."""

    kind: str
    factory: Callable[[], Any]

    def now(self) -> float:
        """The time, in monotonic seconds."""

    def unix_time(self) -> float:
        """The time, in Unix seconds."""

    def send(self, address: str, payload: Any, path: tuple[str, ...]) -> None:
        """Send a message."""

    def request(self, address: str, payload: Any, timeout: float, path: tuple[str, ...]) -> Any:
        """Ask another receiver; to be awaited at an asyncio endpoint."""

    def arm(self, timer: Timer) -> None:
        """Let a timer's message come to its activation when it is due."""

    def failed(self, activation: Activation, mail: Mail, error: BaseException, policy: str) -> None:
        """A handler raised."""


class Activation:
    """A receiver in memory, or about to be."""

    __slots__ = (
        "context", "count", "epoch", "handler", "id", "is_scheduled", "is_stopping", "mailbox", "next_timer",
        "receiver", "seen", "state", "surroundings", "timers", "timers_changed", "used_at",
    )  # fmt: skip

    def __init__(self, surroundings: Surroundings, id: str) -> None:
        self.surroundings = surroundings
        self.id = id
        self.mailbox: deque[Mail] | None = None
        self.receiver: Any = None
        self.handler: Any = None
        self.context: Context | None = None
        self.state: State | None = None
        self.seen: dict[str, list[Any]] | None = None
        self.timers: dict[int, Timer] | None = None
        self.next_timer = 1
        self.timers_changed = False
        self.is_scheduled = False  # whether a driver runs it, or is about to
        self.is_stopping = False
        self.used_at = 0.0
        self.count = 0
        self.epoch = 0  # of the partition's owner when the state was loaded

    @property
    def address(self) -> str:
        """The full address."""
        return f"{self.surroundings.kind.removeprefix(':')}/{self.id}"

    def put(self, mail: Mail) -> bool:
        """Queue a message; false if the mailbox is full."""
        if self.mailbox is None:
            self.mailbox = deque()
        if len(self.mailbox) >= MAILBOX:
            return False
        self.mailbox.append(mail)
        return True

    # ---------------------------------------------------------------------------------------------- handling

    def handle(self, mail: Mail) -> Generator[Step, Any, None]:
        """Handle one message, and tell its sender. Raises AgainError or FencedError: it was not handled here."""
        if self.receiver is None:
            yield from self._activate()
        if mail.sender and self._is_repeated(mail):
            return
        self.used_at = self.surroundings.now()
        if mail.is_request and mail.until <= self.used_at:
            _settle(mail, None, None)
            return
        context = self.context
        assert context is not None
        context.begin(mail)
        error: BaseException | None = None
        answer: Any = None
        try:
            returned = self.handler(context, mail.payload)
            if returned is not None:
                if inspect.isawaitable(returned):
                    returned = yield Await(returned)
                if returned is not None and not context.has_answer:
                    context.reply(returned)
            answer = context.answer
        except Exception as raised:  # the receiver's own affair
            error = raised
        if error is None:
            yield from self.write(mail, answer)
            self._release(context)
        else:
            self._fail(mail, error)
        self.count += 1
        _settle(mail, error, answer)

    def _activate(self) -> Generator[Step, Any, None]:
        document = (yield Load()) or {}
        self.state = State(document.get("state"))
        self.seen = document.get("seen") or {}
        self.receiver = receiver = self.surroundings.factory()
        self.handler = receiver.receive
        self.context = context = Context(self)
        self.timers_changed = False
        for due, payload in document.get("timers") or ():
            self.add_timer(max(0.0, due - self.surroundings.unix_time()), payload, True)
        self.timers_changed = False
        self.used_at = self.surroundings.now()
        context.begin(Mail(None))
        activate = getattr(receiver, "activate", None)
        try:
            returned = None if activate is None else activate(context)
            if inspect.isawaitable(returned):
                yield Await(returned)
        except BaseException:
            self.forget()
            raise
        yield from self.write(Mail(None), None)
        self._release(context)

    def deactivate(self) -> Generator[Step, Any, None]:
        """Put the receiver away."""
        if self.receiver is None:
            return
        assert self.context is not None
        self.context.begin(Mail(None))
        deactivate = getattr(self.receiver, "deactivate", None)
        try:
            returned = None if deactivate is None else deactivate(self.context)
            if inspect.isawaitable(returned):
                yield Await(returned)
            yield from self.write(Mail(None), None)
            self._release(self.context)
        finally:
            self.forget()

    def write(self, mail: Mail, answer: Any) -> Generator[Step, Any, None]:
        """Write what changed, with what is needed to know this message again."""
        assert self.state is not None
        if mail.sender:
            self._remember(mail, answer)
        if not self.state.is_changed and not self.timers_changed:
            return
        timers = self.durable_timers()
        document: Document = {"state": self.state.all()}
        if self.seen:
            document["seen"] = self.seen
        if timers:
            document["timers"] = timers
        yield Save(document, bool(timers))
        self.state.is_changed = self.timers_changed = False

    def durable_timers(self) -> list[list[Any]]:
        """The timers that survive, each with its time (Unix seconds)."""
        ahead = self.surroundings.unix_time() - self.surroundings.now()
        timers = (self.timers or {}).values()
        return [[timer.due + ahead, timer.payload] for timer in timers if timer.is_durable and timer.due < inf]

    def _release(self, context: Context) -> None:
        sends, context.sends = context.sends, []
        for address, payload in sends:
            self.surroundings.send(address, payload, context.path)

    def _fail(self, mail: Mail, error: BaseException) -> None:
        policy = getattr(self.receiver, "on_error", "drop")
        assert self.context is not None
        assert self.state is not None
        self.context.sends = []
        if policy == "restart" or self.state.is_changed or self.timers_changed:
            self.forget()  # what is in memory may be half of a change
        self.surroundings.failed(self, mail, error, policy)

    def forget(self) -> None:
        """Drop what is in memory; the next message begins with what was written."""
        for timer in (self.timers or {}).values():
            timer.due = inf
        self.receiver = self.handler = self.context = self.state = self.seen = self.timers = None
        self.timers_changed = False

    # ------------------------------------------------------------------------------------ repeated messages

    def _is_repeated(self, mail: Mail) -> bool:
        """Whether a message was handled before; then its answer is given again, if it is remembered."""
        assert self.seen is not None
        last = self.seen.get(mail.sender)
        if last is None or mail.seq > last[0]:
            return False
        if mail.is_request and (mail.seq < last[0] or len(last) < 2):
            _settle(mail, GlueError("it handled this request before, and has forgotten the answer"), None)
        else:
            _settle(mail, None, last[1] if len(last) > 1 else None)
        return True

    def _remember(self, mail: Mail, answer: Any) -> None:
        assert self.seen is not None
        self.seen.pop(mail.sender, None)
        self.seen[mail.sender] = [mail.seq, answer] if _is_small(answer) else [mail.seq]
        while len(self.seen) > SENDERS:
            del self.seen[next(iter(self.seen))]

    # ------------------------------------------------------------------------------------------------ timers

    def add_timer(self, seconds: float, payload: Any, is_durable: bool) -> Timer:
        """Let a message come after so many seconds."""
        if self.timers is None:
            self.timers = {}
        timer = Timer(self, self.next_timer, self.surroundings.now() + seconds, payload, is_durable)
        self.next_timer += 1
        self.timer_changed(timer)
        return timer

    def timer_changed(self, timer: Timer) -> None:
        """A timer was set, or taken back."""
        if self.timers is None:
            return
        if timer.due < inf:
            self.timers[timer.number] = timer
            self.surroundings.arm(timer)
        else:
            self.timers.pop(timer.number, None)
        self.timers_changed = self.timers_changed or timer.is_durable

    def rung(self, timer: Timer) -> Mail | None:
        """The message of a timer that is due; None if it was taken back. A durable one goes once it was handled."""
        if self.timers is None or self.timers.pop(timer.number, None) is None:
            return None
        self.timers_changed = self.timers_changed or timer.is_durable
        return Mail(timer.payload)


def _is_small(answer: Any) -> bool:
    """Whether an answer is remembered: a JSON scalar of few characters, or a small collection."""
    if answer is None or isinstance(answer, (bool, int, float)):
        return True
    return not isinstance(answer, bytes) and len(repr(answer)) < REMEMBERED


def _settle(mail: Mail, error: BaseException | None, answer: Any) -> None:
    if mail.settle is not None:
        settle, mail.settle = mail.settle, None
        settle(error, answer)
