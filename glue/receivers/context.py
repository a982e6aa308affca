"""What the programmer of a receiver sees, and the messages and steps between a receiver and its driver."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from glue.errors import ConfigurationError, GlueError
from glue.receivers.state import State
from glue.receivers.store import Document


class Receiver:
    """The base of receivers; any class with these methods will do. At an asyncio endpoint they may be coroutines.

    `idle` is after how many seconds without a message a receiver is put away. `on_error` is what an exception in
    `receive` leads to: "drop" the message, "restart" the receiver from its saved state, or "park" the message on the
    dead-letter topic.
    """

    idle: float = 300.0
    on_error: str = "drop"

    def activate(self, context: Context) -> Any:
        """Called before the first message."""

    def receive(self, context: Context, message: Any) -> Any:
        """Called with each message, one at a time; what it returns, if not None, answers a request."""

    def deactivate(self, context: Context) -> Any:
        """Called before the receiver is put away."""


class FunctionReceiver(Receiver):
    """A receiver that is a plain function of context and message."""

    def __init__(self, function: Callable[[Context, Any], Any]) -> None:
        self.receive: Any = function


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
        self.due = self._activation.surroundings.now() + seconds
        self._activation.timer_changed(self)


class Mail:
    """One message in a mailbox. `settle` is called once with (error, answer); None: nobody asks."""

    __slots__ = ("is_request", "path", "payload", "sender", "seq", "settle", "until")

    def __init__(
        self,
        payload: Any,
        settle: Callable[[BaseException | None, Any], None] | None = None,
        *,
        is_request: bool = False,
        until: float = inf,
        sender: str = "",
        seq: int = 0,
        path: tuple[str, ...] = (),
    ) -> None:
        self.payload = payload
        self.settle = settle
        self.is_request = is_request
        self.until = until
        self.sender = sender
        self.seq = seq
        self.path = path


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
    """What a receiver sees while it handles a message.

    `id` and `address` are the receiver's; `state` has its durable values; `is_request` tells whether an answer is
    awaited.
    """

    __slots__ = ("_activation", "answer", "has_answer", "is_request", "path", "sends")

    def __init__(self, activation: Any) -> None:
        self._activation = activation
        self.sends: list[tuple[str, Any]] = []
        self.begin(Mail(None))

    def begin(self, mail: Mail) -> None:
        """For the driver: a message begins."""
        self.answer: Any = None
        self.has_answer = False
        self.is_request = mail.is_request
        self.path = mail.path

    @property
    def id(self) -> str:
        """The receiver's id."""
        id: str = self._activation.id
        return id

    @property
    def address(self) -> str:
        """The receiver's address."""
        address: str = self._activation.address
        return address

    @property
    def state(self) -> State:
        """The receiver's durable state. What changed is written before anything that was sent or answered leaves."""
        state: State = self._activation.state
        return state

    def reply(self, value: Any) -> None:
        """Answer the request that is being handled; bytes or a JSON value. The answer to a plain message is dropped."""
        self.answer = value
        self.has_answer = True

    def send(self, address: str, payload: Any) -> None:
        """Send a message to a receiver, once the state is written."""
        self.sends.append((address, payload))

    def request(self, address: str, payload: Any, timeout: float = 5.0) -> Any:
        """Ask another receiver and return its answer; to be awaited at an asyncio endpoint.

        This receiver handles nothing else meanwhile. Raises RequestCycleError if the other one waits for this one.
        """
        return self._activation.surroundings.request(address, payload, timeout, (*self.path, self.address))

    def become(self, handler: Callable[[Context, Any], Any]) -> None:
        """Handle the following messages with another function of context and message."""
        self._activation.handler = handler

    def after(self, seconds: float, payload: Any, *, durable: bool = False) -> Timer:
        """Send a message to this receiver after so many seconds; `durable`: also if its host dies meanwhile."""
        if not 0 <= seconds < 1e9:
            raise ConfigurationError(f"after({seconds!r}): expected seconds, 0 to 10^9")
        timer: Timer = self._activation.add_timer(seconds, payload, durable)
        return timer

    def stop(self) -> None:
        """Put this receiver away after this message; the next message brings it back."""
        self._activation.is_stopping = True
