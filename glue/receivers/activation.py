"""One receiver in memory: its mailbox, and what handling a message means.

`take` handles a message at once if nothing has to be waited for. Otherwise it returns a generator of the remaining
steps. The generator yields each step to wait for (`Load`, `Save`, `Await`), and a driver resumes it with the result.
Therefore threads, asyncio and the simulator share the steps. Messages and answers of a handler leave after the state
was written. A receiver that waits for messages keeps little: no mailbox, no context, no state if it has none.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from math import inf
from typing import Any

from glue.errors import RequestRefusedError
from glue.receivers.context import Await, Call, Context, Load, Mail, Save, Step, Timer, TimerMail, Wake
from glue.receivers.state import State
from glue.receivers.store import Document
from glue.receivers.surroundings import Decode, Surroundings

SENDERS = 256
"""Senders of which a receiver remembers the last message, of some 100 bytes: 25 kB. The one heard longest ago goes."""
UNORDERED = 128
"""Senders up to which their order need not be kept."""
REMEMBERED = 1000
"""Bytes of an answer that is remembered, to be sent again."""
MAILS: frozenset[Any] = frozenset({Mail, Call, TimerMail, Wake})


class Timers:
    """The timers of one receiver."""

    __slots__ = ("by_number", "is_changed", "is_moved", "next")

    def __init__(self) -> None:
        self.by_number: dict[int, Timer] = {}
        self.next = 1
        self.is_changed = False  # whether a durable one came or went since the last write
        self.is_moved = False  # whether one that was written was stopped or reset since then


class Activation:
    """A receiver in memory, or about to be."""

    __slots__ = (
        "context", "epoch", "handler", "id", "is_direct", "is_scheduled", "is_stopping", "mailbox", "partition",
        "receiver", "seen", "state", "surroundings", "timers", "unarmed", "used_at",
    )  # fmt: skip

    def __init__(self, surroundings: Surroundings, id: str, partition: int, now: float) -> None:
        self.surroundings = surroundings
        self.id = id
        self.partition = partition
        self.mailbox: deque[Any] | None = None
        self.receiver: Any = None
        self.handler: Any = None  # after `become`; else `receive`
        self.context: Context | None = None  # while it handles messages
        self.state: State | None = None  # None: empty
        self.seen: dict[str, list[Any]] | None = None
        self.timers: Timers | None = None
        self.unarmed = inf  # seconds until the first durable timer is due, of a receiver that could not begin
        self.is_direct = False  # whether messages of this program may come without a detour
        self.is_scheduled = False  # whether a driver runs it, or is about to
        self.is_stopping = False
        self.used_at = now
        self.epoch = 0  # of the partition's owner when the state was loaded

    @property
    def address(self) -> str:
        """The full address."""
        return f"{self.surroundings.kind.removeprefix(':')}/{self.id}"

    # ---------------------------------------------------------------------------------------------- handling

    def take(self, mail: Any) -> Generator[Step, Any, None] | None:
        """Handle one message; returns the steps that are left, None if none is.

        Their end may be AgainError or FencedError: it was not handled here.
        """
        kind = mail.__class__
        if self.receiver is None or self.surroundings.types or (kind in MAILS and kind is not Mail):
            return self.handle(mail)
        last: list[Any] | None = None
        payload = mail
        if kind is Mail:
            payload = mail.payload
            seen = self.seen
            if seen is not None:
                last = seen.get(mail.batch.sender)
            if last is None or mail.seq <= last[0] or len(seen or ()) > UNORDERED:
                return self.handle(mail)
        context = self.context
        if context is None:
            context = self.context = Context(self)
        elif context.is_touched:
            context.begin(mail)
        try:
            returned = (self.handler or self.receiver.receive)(context, payload)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit, or the result of a task that was cancelled
            return self._failed(mail, error)
        if returned is not None or context.is_touched:
            return self._rest(mail, returned)
        if last is not None:
            last[:] = (mail.seq, None)
            batch, mail.batch = mail.batch, None
            batch.settled(mail, None, None)
        return None

    def handle(self, mail: Any) -> Generator[Step, Any, None]:
        """Handle one message, in steps."""
        if self.receiver is None:
            yield from self._activate()
        kind = mail.__class__
        if kind is Wake:
            return
        if kind in MAILS:
            if mail.batch is not None and self._is_repeated(mail):
                return
            if kind is TimerMail and self._is_over(mail):
                return
            if kind is Call and mail.until <= self.surroundings.now():
                settle(mail, None, None)
                return
        context = self._begin(mail)
        try:
            payload = mail.payload if kind in MAILS else mail
            if self.surroundings.types:
                payload = typed(payload, self.surroundings.types)
            returned = (self.handler or self.receiver.receive)(context, payload)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as above
            yield from self._failed(mail, error)
        else:
            yield from self._rest(mail, returned)

    def _begin(self, mail: Any) -> Context:
        context = self.context
        if context is None:
            context = self.context = Context(self)
        context.begin(mail)
        return context

    def _rest(self, mail: Any, returned: Any) -> Generator[Step, Any, None]:
        """Continue after the handler returned."""
        context = self.context
        assert context is not None
        if returned is not None:
            if inspect.isawaitable(returned):
                try:
                    returned = yield Await(returned)
                except (Exception, SystemExit) as error:
                    yield from self._failed(mail, error)
                    return
            if returned is not None and not context.has_answer:
                context.reply(returned)
        answer = context.answer
        yield from self.write(mail, answer)
        self._release(context)
        if mail.__class__ in MAILS:
            settle(mail, None, answer)

    def _activate(self) -> Generator[Step, Any, None]:
        document = (yield Load()) or {}
        values = document.get("state")
        self.state = State(values) if values else None
        self.seen = document.get("seen")
        durable = document.get("timers") or ()
        self.unarmed = min([due for due, _ in durable], default=inf) - self.surroundings.unix_time()
        self.receiver = receiver = self.surroundings.factory()
        context = self._begin(None)
        activate = getattr(receiver, "activate", None)
        try:
            returned = None if activate is None else activate(context)
            if returned is not None and inspect.isawaitable(returned):
                yield Await(returned)
            self._arm(durable)
            if context.is_touched:
                yield from self.write(None, None)
                self._release(context)
        except BaseException:
            self.forget()
            raise

    def _arm(self, durable: Sequence[tuple[float, Any]]) -> None:
        """Set the timers that were read, each with its time (Unix seconds), which is no change."""
        is_changed = self.timers is not None and self.timers.is_changed
        for due, payload in durable:
            self.add_timer(max(0.0, due - self.surroundings.unix_time()), payload, True)
        if self.timers is not None:
            self.timers.is_changed = is_changed
        self.unarmed = inf

    def deactivate(self) -> Generator[Step, Any, None]:
        """Put the receiver away."""
        self.is_stopping = False
        if self.receiver is None:
            return
        context = self._begin(None)
        deactivate = getattr(self.receiver, "deactivate", None)
        try:
            returned = None if deactivate is None else deactivate(context)
            if returned is not None and inspect.isawaitable(returned):
                yield Await(returned)
            yield from self.write(None, None)
            self._release(context)
        finally:
            self.forget()

    def write(self, mail: Any, answer: Any) -> Generator[Step, Any, None]:
        """Write what changed, with what is needed to know this message again."""
        if mail.__class__ in MAILS and mail.batch is not None:
            self._remember(mail, answer)
        state, timers = self.state, self.timers
        if not (state is not None and state.is_changed) and not (timers is not None and timers.is_changed):
            return
        durable = self.durable_timers()
        document: Document = {"state": {} if state is None else state.all()}
        if self.seen:
            document["seen"] = self.seen
        if durable:
            document["timers"] = durable
        yield Save(document, bool(durable))
        if state is not None:
            state.is_changed = False
        if timers is not None:
            timers.is_changed = timers.is_moved = False

    def durable_timers(self) -> list[list[Any]]:
        """The timers that survive, each with its time (Unix seconds)."""
        if self.timers is None:
            return []
        ahead = self.surroundings.unix_time() - self.surroundings.now()
        timers = self.timers.by_number.values()
        return [[timer.due + ahead, timer.payload] for timer in timers if timer.is_durable and timer.due < inf]

    def _release(self, context: Context) -> None:
        if context.sends:
            sends, context.sends = context.sends, ()
            for address, payload in sends:
                self.surroundings.send(address, payload)

    def _failed(self, mail: Any, error: BaseException) -> Generator[Step, Any, None]:
        """Continue after the handler raised."""
        policy = getattr(self.receiver, "on_error", "drop")
        context, state, timers = self.context, self.state, self.timers
        assert context is not None
        context.sends = ()
        is_mail = mail.__class__ in MAILS
        self.surroundings.failed(self, mail.payload if is_mail else mail, error, policy)
        is_changed = (state is not None and state.is_changed) or (timers is not None and timers.is_changed)
        if policy == "restart" or is_changed:
            self.forget()  # what is in memory may be half of a change
        elif is_mail and mail.batch is not None:
            self._remember(mail, None, False)
        if mail.__class__ is TimerMail and mail.timer.is_durable:
            yield from self._drop_timer(mail.timer)
        if is_mail:
            settle(mail, error, None)
        if timers is not None and timers.is_moved and self.timers is None:
            self.surroundings.wake(self.id)  # a durable timer that was stopped or reset is due as before

    def _drop_timer(self, timer: Timer) -> Generator[Step, Any, None]:
        """Take a durable timer out of the document, since its message failed, and has had its turn."""
        document = (yield Load()) or {}
        timers = document.get("timers") or []
        found = min([one for one in timers if one[1] == timer.payload], key=lambda one: one[0], default=None)
        if found is not None:
            left = [one for one in timers if one is not found]
            yield Save({**document, "timers": left}, bool(left))

    def become(self, handler: Any) -> None:
        """Handle the following messages with another function."""
        self.handler = handler

    def open_state(self) -> State:
        """The state, also if it is empty."""
        if self.state is None:
            self.state = State()
        return self.state

    def rest(self) -> None:
        """Keep only what is needed until the next message; none waits now."""
        self.mailbox = None
        context = self.context
        if context is not None:
            self.context = context._activation = None
        if self.state is not None and self.state.is_empty and not self.state.is_changed:
            self.state = None

    def forget(self) -> None:
        """Drop what is in memory; the next message begins with what was written."""
        self.receiver = self.handler = self.state = self.seen = self.timers = None
        if self.context is not None:
            self.context.end()
            self.context = None

    # ------------------------------------------------------------------------------------ repeated messages

    def _is_repeated(self, mail: Mail) -> bool:
        """Whether a message was handled before; then its answer is given again, if it is remembered."""
        assert mail.batch is not None
        last = self.seen.get(mail.batch.sender) if self.seen else None
        if last is None or mail.seq > last[0]:
            return False
        if mail.__class__ is Call and (mail.seq < last[0] or len(last) < 2):
            settle(mail, RequestRefusedError("it handled this request before, and has forgotten the answer"), None)
        else:
            settle(mail, None, last[1] if len(last) > 1 else None)
        return True

    def _remember(self, mail: Mail, answer: Any, is_answered: bool = True) -> None:
        assert mail.batch is not None
        if self.seen is None:
            self.seen = {}
        sender = mail.batch.sender
        self.seen.pop(sender, None)
        self.seen[sender] = [mail.seq, answer] if is_answered and _is_small(answer) else [mail.seq]
        while len(self.seen) > SENDERS:
            del self.seen[next(iter(self.seen))]

    # ------------------------------------------------------------------------------------------------ timers

    def add_timer(self, seconds: float, payload: Any, is_durable: bool) -> Timer:
        """Let a message come after so many seconds."""
        if self.timers is None:
            self.timers = Timers()
        timer = Timer(self, self.timers.next, self.surroundings.now() + seconds, payload, is_durable)
        self.timers.next += 1
        self.timer_changed(timer)
        return timer

    def timer_changed(self, timer: Timer) -> None:
        """A timer was set, or taken back."""
        timers = self.timers
        if timers is None or timers.by_number.get(timer.number, timer) is not timer:
            return  # it was put away since
        was_there = timer.number in timers.by_number
        if timer.due < inf:
            timers.by_number[timer.number] = timer
            self.surroundings.arm(timer)
        else:
            timers.by_number.pop(timer.number, None)
        if timer.is_durable:
            timers.is_changed, timers.is_moved = True, timers.is_moved or was_there
            if self.context is not None:
                self.context.is_touched = True

    def rung(self, timer: Timer) -> TimerMail | None:
        """The message of a timer that is due; None if it was taken back. A durable one goes once it was handled."""
        if self.timers is None or self.timers.by_number.get(timer.number) is not timer:
            return None
        return TimerMail(timer)

    def _is_over(self, mail: TimerMail) -> bool:
        """Whether a timer was stopped or reset while its message waited; else it goes with this message."""
        timers, timer = self.timers, mail.timer
        if timers is None or timer.due != mail.due or timers.by_number.get(timer.number) is not timer:
            return True
        del timers.by_number[timer.number]
        timers.is_changed = timers.is_changed or timer.is_durable
        return False


def typed(payload: Any, types: Mapping[str, Decode]) -> Any:
    """The value of a typed message; any other payload as it is. Raises what the type raises."""
    if payload.__class__ is dict and len(payload) == 1:
        ((name, fields),) = payload.items()
        decode = types.get(name)
        if decode is not None:
            return decode(fields)
    return payload


def settle(mail: Mail, error: BaseException | None, answer: Any) -> None:
    """Tell the sender of a message what became of it, once."""
    batch = mail.batch
    if batch is not None:
        mail.batch = None
        batch.settled(mail, error, answer)
    elif mail.__class__ is Call and mail.settle is not None:
        call, mail.settle = mail.settle, None
        call(error, answer)


def _is_small(answer: Any) -> bool:
    """Whether an answer is remembered: a JSON scalar of few characters, or a small collection."""
    if answer is None or isinstance(answer, (bool, int, float)):
        return True
    return not isinstance(answer, bytes) and len(repr(answer)) < REMEMBERED
