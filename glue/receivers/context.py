"""The programmer's view of a receiver, and the messages and steps between a receiver and its driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, ClassVar, Protocol

from glue.errors import ConfigurationError, GlueError
from glue.receivers.state import State
from glue.receivers.store import Document

POLICIES = ("drop", "restart", "park")
"""What `on_error` may be."""


class Receiver:
    """The base of receivers; any class with these methods, or coroutines at an asyncio endpoint, will do.

    After `idle` seconds without a message a receiver is put away. `on_error` is the response to an exception in
    `receive`: "drop" the message, "restart" the receiver from its saved state, or "park" the message on the
    dead-letter topic. `messages` lists the types of messages, such as dataclasses.
    """

    __slots__ = ()  # a class that needs little memory may have slots, too

    idle: float = 300.0
    on_error: str = "drop"
    messages: ClassVar[Sequence[type]] = ()

    def activate(self, context: Context) -> Any:
        """Called before the first message."""

    def receive(self, context: Context, message: Any) -> Any:
        """Called with each message, one at a time; what it returns, if not None, answers a request."""

    def deactivate(self, context: Context) -> Any:
        """Called before the receiver is put away."""


class FunctionReceiver:
    """A receiver that is a plain function of context and message."""

    __slots__ = ("receive",)

    def __init__(self, function: Callable[[Context, Any], Any]) -> None:
        self.receive: Any = function


def factory_of(factory: Any) -> Callable[[], Any]:
    """Return the maker of receivers: the class, or one object for all receivers of a function, without state.

    Raises ConfigurationError for what is neither, and for wrong attributes of the class.
    """
    if not callable(factory):
        raise ConfigurationError(f"factory={factory!r}: expected a class with receive, or a function")
    if isinstance(factory, type):
        if not callable(getattr(factory, "receive", None)):
            raise ConfigurationError(f"factory={factory!r}: the class has no method receive(context, message)")
        policy, idle = getattr(factory, "on_error", "drop"), getattr(factory, "idle", 0.0)
        if policy not in POLICIES:
            raise ConfigurationError(f"on_error = {policy!r} of {factory!r}: expected one of {', '.join(POLICIES)}")
        if isinstance(idle, int | float) and not idle >= 0:
            raise ConfigurationError(f"idle = {idle!r} of {factory!r}: expected seconds, 0 or more")
        return factory
    shared = FunctionReceiver(factory)
    return lambda: shared


class Timer:
    """A message to come; `stop` takes it back, `reset` lets it come after so many seconds from now."""

    __slots__ = ("_activation", "due", "is_durable", "number", "payload")

    def __init__(self, activation: Any, number: int, due: float, payload: Any, is_durable: bool) -> None:
        """`due` in monotonic seconds."""
        self._activation = activation
        self.number = number
        self.due = due
        self.payload = payload
        self.is_durable = is_durable

    def stop(self) -> None:
        """Take the message back; a second time does nothing."""
        self.due = inf
        self._activation.timer_changed(self)

    def reset(self, seconds: float) -> None:
        """Let the message come after so many seconds from now."""
        self.due = self._activation.surroundings.now() + check_seconds(seconds)
        self._activation.timer_changed(self)


def check_seconds(seconds: float) -> float:
    """Return the seconds until a timer is due. Raises ConfigurationError."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e9:
        raise ConfigurationError(f"a timer after {seconds!r:.80}: expected seconds, 0 to 10^9")
    return seconds


class Batch(Protocol):
    """Takes what became of the messages that came together from another endpoint."""

    sender: str
    """The endpoint's life."""

    def settled(self, mail: Mail, error: BaseException | None, answer: Any) -> None:
        """Take what became of a message."""


class Mail:
    """A message in a mailbox. A local message that is not waited for has no Mail."""

    __slots__ = ("batch", "payload", "seq")

    def __init__(self, payload: Any, batch: Batch | None = None, seq: int = 0) -> None:
        """`batch` takes what became of it, and is None afterwards; `seq` is the sender's number."""
        self.payload = payload
        self.batch = batch
        self.seq = seq


class Call(Mail):
    """A message with a waiting sender: `settle` is called once with (error, answer), unless `batch` is told."""

    __slots__ = ("is_request", "path", "settle", "until")

    def __init__(
        self,
        payload: Any,
        settle: Callable[[BaseException | None, Any], None] | None = None,
        *,
        is_request: bool = True,
        until: float = inf,
        path: tuple[str, ...] = (),
        batch: Batch | None = None,
        seq: int = 0,
    ) -> None:
        """`until`: when the sender waits no more (monotonic seconds); `path`: the addresses that wait for it."""
        super().__init__(payload, batch, seq)
        self.settle = settle
        self.is_request = is_request
        self.until = until
        self.path = path


class TimerMail(Mail):
    """The message of a timer."""

    __slots__ = ("due", "timer")

    def __init__(self, timer: Timer) -> None:
        super().__init__(timer.payload)
        self.timer = timer
        self.due = timer.due


class Wake(Mail):
    """Only brings a receiver into memory."""

    __slots__ = ()


class AgainError(GlueError):
    """A message was not handled here, and is to be sent again."""


class Load:
    """Wait for the receiver's document."""


class Save:
    """Wait until the document is written."""

    def __init__(self, document: Document, has_timers: bool) -> None:
        self.document = document
        self.has_timers = has_timers


class Await:
    """Wait for what a coroutine function returned."""

    def __init__(self, awaitable: Any) -> None:
        self.awaitable = awaitable


Step = Load | Save | Await


class Context:
    """A receiver's context while it handles a message. It ends with the message: keep values, not the context.

    `is_request` tells whether an answer is awaited.
    """

    __slots__ = ("_activation", "answer", "has_answer", "is_request", "is_touched", "path", "sends")

    def __init__(self, activation: Any) -> None:
        self._activation = activation
        self.sends: Sequence[tuple[str, Any]] = ()
        self.answer: Any = None
        self.has_answer = self.is_request = self.is_touched = False
        self.path: tuple[str, ...] = ()

    def begin(self, mail: Any) -> None:
        """For the driver: a message begins."""
        self.answer = None
        self.has_answer = False
        self.is_touched = mail.__class__ is Call  # so that the next message begins anew
        self.is_request, self.path = (mail.is_request, mail.path) if self.is_touched else (False, ())

    def end(self) -> None:
        """For the driver: the message was handled."""
        self._activation = None

    def _active(self) -> Any:
        if self._activation is None:
            raise GlueError("this context belongs to a message that was handled; each message brings its own")
        return self._activation

    @property
    def id(self) -> str:
        """The receiver's id."""
        id: str = self._active().id
        return id

    @property
    def address(self) -> str:
        """The receiver's address."""
        address: str = self._active().address
        return address

    @property
    def state(self) -> State:
        """The receiver's durable state. What changed is written before anything that was sent or answered leaves."""
        self.is_touched = True
        state: State = self._active().open_state()
        return state

    def reply(self, value: Any) -> None:
        """Answer the request that is being handled; bytes or a JSON value. The answer to a plain message is dropped."""
        self._active()
        self.answer = value
        self.has_answer = self.is_touched = True

    def send(self, address: str, payload: Any) -> None:
        """Send a message to a receiver, once the state is written.

        Raises ConfigurationError, PayloadError, and WouldBlockError while too many messages wait there.
        """
        surroundings = self._active().surroundings
        self.sends = [*self.sends, surroundings.check_send(address, payload)]
        self.is_touched = True

    def request(self, address: str, payload: Any, timeout: float = 5.0) -> Any:
        """Ask another receiver and return its answer; to be awaited at an asyncio endpoint.

        This receiver handles nothing else meanwhile. Raises RequestCycleError if the other one waits for this one.
        """
        activation = self._active()
        return activation.surroundings.request(address, payload, timeout, (*self.path, activation.address))

    def become(self, handler: Callable[[Context, Any], Any]) -> None:
        """Handle the following messages with another function of context and message. Raises ConfigurationError."""
        if not callable(handler):
            raise ConfigurationError(f"become({handler!r}): expected a function of context and message")
        self._active().become(handler)

    def after(self, seconds: float, payload: Any, *, durable: bool = False) -> Timer:
        """Send a message to this receiver after so many seconds; `durable`: also if its host dies meanwhile."""
        activation = self._active()
        timer: Timer = activation.add_timer(check_seconds(seconds), activation.surroundings.plain(payload), durable)
        self.is_touched = True
        return timer

    def stop(self) -> None:
        """Put this receiver away after this message; the next message brings it back."""
        self._active().is_stopping = True
        self.is_touched = True
