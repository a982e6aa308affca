"""Messages between replicas about mergeable keys, as JSON arrays: the mark of the prefixes, then one of these.

    ["delta", DELTA]                    new writes, to all
    ["digest", asks, CONTEXT, mark]     the sender's state, to all; `asks`: the others' digests are wanted
    ["pull", CONTEXT]                   a request for what the sender lacks, to one
    ["answer", DELTA, mark]             the answer to a pull

    CONTEXT  {life: [first, after the last, first, after the last, ...], ...}
    DELTA    [CONTEXT, {key: [[life, number, content], ...], ...}, CONTEXT of what is kept]

The files of a replica hold deltas in the same form.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson

from glue.errors import ModelError
from glue.model.mergeable.context import Context, Dot
from glue.model.mergeable.prefixes import Prefixes
from glue.model.mergeable.store import CONTEXT_LIMIT, Delta
from glue.model.mergeable.values import BeyondError
from glue.model.state import check_key
from glue.model.storage.memory import LIFE_BITS

NUMBER_LIMIT = 1 << 40
"""Limit of the writes of one life, which lasts from a start to the next: 35,000 a second for a year.

A message that claims more for a life is refused, so no message can use up the numbers of a writer (see `Store.renew`).
"""

LIFE_LENGTH = LIFE_BITS // 4


class MalformedDeltasError(ValueError):
    """Raised for bytes that are no message. The receiver counts and drops them."""


class TooFarError(MalformedDeltasError):
    """Raised for numbers of writes, or stamps, that no honest replica reaches."""


class ForeignError(ValueError):
    """Raised for a message of a replica with other prefixes."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The state of the sender as context and mark. With `asks` it wants the digests of others."""

    asks: bool
    context: Context
    mark: int


@dataclass(frozen=True, slots=True)
class Pull:
    """A request for everything that is not in `context`."""

    context: Context


@dataclass(frozen=True, slots=True)
class Push:
    """A delta. The answer to a pull also has the sender's mark, and the sender's whole context."""

    delta: Delta
    mark: int | None = None


Message = Digest | Pull | Push


# --------------------------------------------------------------------------------------------- encoding


def encode(prefixes: Prefixes, message: Message) -> bytes:
    """Encode a message as JSON."""
    match message:
        case Digest(asks, context, mark):
            rest: list[Any] = ["digest", asks, context.bounds, _written(mark)]
        case Pull(context):
            rest = ["pull", context.bounds]
        case Push(delta, mark):
            told = _plain(prefixes, delta)
            rest = ["delta", told] if mark is None else ["answer", told, _written(mark)]
    return orjson.dumps([prefixes.mark, *rest])


def _plain(prefixes: Prefixes, delta: Delta) -> list[Any]:
    events = {}
    for key, found in delta.events.items():
        kind = prefixes.kind(key)
        assert kind is not None
        events[key] = [[life, number, kind.plain(content)] for (life, number), content in found]
    return [delta.context.bounds, events, delta.kept.bounds]


# --------------------------------------------------------------------------------------------- decoding


def decode(prefixes: Prefixes, data: bytes) -> Message:
    """Decode a message. Raises MalformedDeltasError, and ForeignError for a sender with other prefixes."""
    match _document(data):
        case [str(mark), *_] if mark != prefixes.mark:
            raise ForeignError
        case [_, "digest", bool(asks), context, mark]:
            return Digest(asks, _context(context), _read(mark))
        case [_, "pull", context]:
            return Pull(_context(context))
        case [_, "delta", delta]:
            return Push(_delta(prefixes, delta))
        case [_, "answer", delta, mark]:
            return Push(_delta(prefixes, delta), _read(mark))
    raise MalformedDeltasError("not a message")


def decode_stored(prefixes: Prefixes, data: bytes) -> Delta:
    """The inverse of `encode` for a delta that was kept. Raises MalformedDeltasError and ForeignError."""
    message = decode(prefixes, data)
    if not isinstance(message, Push):
        raise MalformedDeltasError("not a delta")
    return message.delta


def _document(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        raise MalformedDeltasError("not JSON") from None


def _written(mark: int) -> str:
    return f"{mark:0{LIFE_LENGTH}x}"


def _read(mark: Any) -> int:
    if isinstance(mark, str) and len(mark) == LIFE_LENGTH:
        with suppress(ValueError):
            return int(mark, 16)
    raise MalformedDeltasError("not a mark")


def _context(document: Any) -> Context:
    if not isinstance(document, dict):
        raise MalformedDeltasError("not a context")
    for life, bounds in document.items():
        if len(life) != LIFE_LENGTH or not isinstance(bounds, list) or not bounds or len(bounds) % 2:
            raise MalformedDeltasError("not intervals")
        if not all(bound.__class__ is int for bound in bounds) or not all(a < b for a, b in pairwise(bounds)):
            raise MalformedDeltasError("not ascending")
        if bounds[0] < 1:
            raise MalformedDeltasError("not numbers of writes")
        if bounds[-1] > NUMBER_LIMIT:
            raise TooFarError("more writes than a life can make")
    context = Context(document)
    if context.size > CONTEXT_LIMIT:
        raise MalformedDeltasError("too large a context")
    return context


def _delta(prefixes: Prefixes, document: Any) -> Delta:
    match document:
        case [context, dict(events), kept]:
            return Delta(
                _context(context), {key: _events(prefixes, key, events[key]) for key in events}, _context(kept)
            )
    raise MalformedDeltasError("not a delta")


def _events(prefixes: Prefixes, key: str, document: Any) -> list[tuple[Dot, Any]]:
    kind = prefixes.kind(key)
    if kind is None:
        raise MalformedDeltasError("not a mergeable key")
    try:
        check_key(key)
        found = [((life, number), kind.check(content)) for life, number, content in document]
    except BeyondError:
        raise TooFarError("a stamp too far ahead") from None
    except (ModelError, TypeError, ValueError):
        raise MalformedDeltasError("not events") from None
    for life, number in (dot for dot, _ in found):
        if life.__class__ is not str or number.__class__ is not int:
            raise MalformedDeltasError("not a dot")
    return found
