"""What became of messages to receivers: from a receiver's answer to a result on the wire, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from glue.endpoint.encoding import encoded
from glue.errors import PayloadError, RemoteError, RequestCycleError, RequestTimeoutError
from glue.receivers.context import AgainError
from glue.receivers.store import FencedError
from glue.receivers.wire import AGAIN, ANSWER, DONE, FAILED, Item, MalformedError, Result


def check_local(payload: Any) -> None:
    """Raise PayloadError for what could not travel, where that is cheap to see."""
    if payload.__class__ not in PLAIN_TYPES:
        encoded(payload)


PLAIN_TYPES = frozenset({bytes, str, int, bool, type(None)})


def document(body: bytes) -> Any:
    """A JSON document. Raises MalformedError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MalformedError("json") from None


def settle_item(answers: Callable[[Result], None], item: Item, error: BaseException | None, answer: Any) -> None:
    """Answer a message of a batch."""
    answers(result_of(item, error, answer))


def result_of(item: Item, error: BaseException | None, answer: Any) -> Result:
    """What became of a message of a batch."""
    if isinstance(error, (AgainError, FencedError)):
        return Result(item.seq, AGAIN)
    if error is not None:
        return Result(item.seq, FAILED, orjson.dumps([type(error).__name__, str(error)[:2000]]), True)
    if not item.within:
        return Result(item.seq, DONE)
    try:
        body, is_json = encoded(answer)
    except PayloadError as wrong:
        return Result(item.seq, FAILED, orjson.dumps(["PayloadError", str(wrong)]), True)
    return Result(item.seq, ANSWER, body, is_json)


def settled_by(
    address: str, settle: Callable[[BaseException | None, Any], None] | None
) -> Callable[[Result | None], None] | None:
    """What to call with the result of a message to this address."""
    if settle is None:
        return None

    def take(result: Result | None) -> None:
        if result is None:
            settle(RequestTimeoutError(f"{address}: no host took the message in time", address), None)
        elif result.status == FAILED:
            kind, message = _error_of(result)
            if kind == "RequestCycleError":
                settle(RequestCycleError(message, address), None)
                return
            settle(RemoteError(address, kind, message), None)
        elif result.status == DONE:
            settle(None, None)
        else:
            try:
                settle(None, orjson.loads(result.body) if result.is_json else result.body)
            except orjson.JSONDecodeError:
                settle(RemoteError(address, "MalformedError", "its answer is no JSON"), None)

    return take


def _error_of(result: Result) -> tuple[str, str]:
    try:
        kind, message = orjson.loads(result.body)
    except (orjson.JSONDecodeError, ValueError, TypeError):
        return "Error", ""
    return str(kind), str(message)
