"""Results of messages to receivers: from a receiver's answer to a result on the wire, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from glue.endpoint.receiver_payloads import answer_of, body_of
from glue.errors import PayloadError, RemoteError, RequestCycleError, RequestRefusedError, RequestTimeoutError
from glue.receivers.activation import MAILS
from glue.receivers.context import AgainError, Call
from glue.receivers.outbox import GIVE_UP, Settle
from glue.receivers.store import FencedError
from glue.receivers.wire import AGAIN, ANSWER, FAILED, Result

Settled = Callable[[BaseException | None, Any], None]
"""Called once with an error or an answer."""


def result_of(seq: int, is_request: bool, error: BaseException | None, answer: Any) -> Result | None:
    """Return the result of a message; None if it was handled and is no request."""
    if isinstance(error, (AgainError, FencedError)):
        return Result(seq, AGAIN)
    if error is not None:
        return Result(seq, FAILED, orjson.dumps([type(error).__name__, _printable(str(error)[:2000])]), True)
    if not is_request:
        return None
    try:
        body, is_json = answer_of(answer)
    except PayloadError as wrong:
        return Result(seq, FAILED, orjson.dumps(["PayloadError", str(wrong)]), True)
    return Result(seq, ANSWER, body, is_json)


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def settled_by(address: str, settle: Settled | None, late: Callable[[], BaseException]) -> Settle | None:
    """Return the callback for the result of a message; `late` makes the error if it was not handled in time."""
    if settle is None:
        return None

    def take(result: Result | None) -> None:
        if result is None:
            settle(late(), None)
        elif result.status == FAILED:
            kind, message = _error_of(result)
            if kind == "RequestCycleError":
                settle(RequestCycleError(message, address), None)
                return
            if kind == "RequestRefusedError":
                settle(RequestRefusedError(message, address), None)
                return
            settle(RemoteError(address, kind, message), None)
        elif result.status == ANSWER:
            try:
                settle(None, orjson.loads(result.body) if result.is_json else result.body)
            except orjson.JSONDecodeError:
                settle(RemoteError(address, "MalformedError", "its answer is no JSON"), None)
        else:
            settle(None, None)

    return take


def local_answer(settle: Settled) -> Settled:
    """Wrap `settle`, so that an answer of this program is like an answer from elsewhere."""

    def take(error: BaseException | None, answer: Any) -> None:
        if error is None:
            try:
                body, is_json = (answer, False) if answer.__class__ is bytes else answer_of(answer)
                answer = orjson.loads(body) if is_json else body
            except PayloadError as wrong:
                error, answer = wrong, None
        settle(error, answer)

    return take


def _error_of(result: Result) -> tuple[str, str]:
    try:
        kind, message = orjson.loads(result.body)
    except (orjson.JSONDecodeError, ValueError, TypeError):
        return "Error", ""
    return str(kind), str(message)


GivenBack = tuple[bytes, bool, float, float, tuple[str, ...], Settle | None]


def given_back(item: Any, address: str, now: float) -> GivenBack:
    """A message of this program that was not handled, as it is sent again: what `Outbox.put` takes after the id."""
    payload = item.payload if item.__class__ in MAILS else item
    body, is_json = body_of(payload)
    if item.__class__ is not Call:
        return body, is_json, now + GIVE_UP, 0.0, (), None
    settle, item.settle = item.settle, None
    within = max(0.001, item.until - now) if item.is_request else 0.0
    taker = settled_by(address, settle, lambda: RequestTimeoutError(f"{address} did not answer in time", address))
    return body, is_json, now + (within or GIVE_UP), within, item.path, taker
