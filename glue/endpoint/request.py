"""A request as its handler sees it, and the answer: at once, or later from any thread or task."""

from __future__ import annotations

import reprlib
from contextvars import ContextVar
from typing import Any, Protocol

from glue.errors import GlueError, RequestError
from glue.requests.wire import Hop


class Answering(Protocol):
    """The sender of a responder's answers."""

    def answer(self, request: Request, value: Any) -> None:
        """Send an answer. Raises PayloadError or MessageTooLargeError for a value that cannot travel."""

    def answer_error(self, request: Request, error: BaseException) -> None:
        """Send an error in the place of an answer."""


class Request:
    """One request. A handler returns the answer, raises, or calls `later` and answers with `reply` or `fail`.

    `payload` is bytes or a JSON value; `caller` is the caller's name and `caller_id` its endpoint id.
    """

    __slots__ = (
        "_answering", "_is_open", "caller", "caller_id", "expires", "id", "incarnation", "is_later", "is_repeatable",
        "path", "payload", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        payload: Any,
        caller: str,
        caller_id: str,
        incarnation: int,
        id: int,
        expires: float,
        is_repeatable: bool,
        path: tuple[Hop, ...],
        answering: Answering,
    ) -> None:
        """`expires` is when the caller gives up (monotonic seconds); `path` includes the handler of this request."""
        self.topic = topic
        self.payload = payload
        self.caller = caller
        self.caller_id = caller_id
        self.incarnation = incarnation
        self.id = id
        self.expires = expires
        self.is_repeatable = is_repeatable
        self.path = path
        self.is_later = False
        self._answering = answering
        self._is_open = [True]  # a list, since only one of two threads can pop its item

    def later(self) -> None:
        """Answer after the handler has returned: what it returns is no answer then."""
        self.is_later = True

    def reply(self, value: Any) -> None:
        """Answer with bytes or a JSON value; from any thread, and once.

        Raises RequestError if it is answered already, PayloadError, MessageTooLargeError.
        """
        self.claim()
        try:
            self._answering.answer(self, value)
        except GlueError:
            self._is_open.append(True)  # another value may do
            raise

    def fail(self, error: BaseException | str) -> None:
        """Answer with an error, which is a RemoteError at the caller; as `reply`."""
        self.claim()
        self._answering.answer_error(self, error if isinstance(error, BaseException) else RequestError(error))

    def claim(self) -> None:
        """For the endpoint: take the right to answer. Raises RequestError if it is taken."""
        if not self.try_to_claim():
            raise RequestError(f"{self!r} is answered already; a request has one answer")

    def try_to_claim(self) -> bool:
        """For the endpoint: take the right to answer, if it is there."""
        try:
            return self._is_open.pop()
        except IndexError:
            return False

    def __repr__(self) -> str:
        return f"<Request {self.topic} from {self.caller}: {reprlib.repr(self.payload)}>"


CURRENT: ContextVar[Request | None] = ContextVar("glue_request", default=None)
"""The request that is being handled here: the requests of its handler continue its path and end with its deadline."""
