"""Messages as bytes: one JSON array and a newline, then commands, snapshots and configurations as raw bytes.

    ["append","1/plant/5d…","8c…",7,12,41,7,40,[7,0,[5,9]]]⏎{"a":1}…

The array holds the kind of message and its fields in order. For raw bytes in the body the array holds their length.
Entries are three columns: terms, kinds and lengths. A column of equal values is one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from glue.model.consensus.configuration import Configuration
from glue.model.consensus.items import Kind, LogEntry
from glue.model.consensus.messages import (
    Accepted,
    Append,
    Appended,
    Forward,
    Forwarded,
    InstallSnapshot,
    Message,
    Offer,
    Prepare,
    Promise,
    Propose,
    RequestVote,
    SnapshotReceived,
    TimeoutNow,
    Vote,
    Welcome,
)

TEXT_LIMIT = 255
"""Characters of an id, a life or a group."""

NUMBER_LIMIT = 1 << 62
"""Indices, terms and rounds stay below this: at a million a second it takes 146,000 years."""


class MalformedMessageError(ValueError):
    """Raised for bytes that are no message."""


class Body:
    """The bytes after the array, taken from the front."""

    __slots__ = ("_data", "_next")

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._next = start

    def take(self, length: Any) -> bytes:
        """Return the next `length` bytes."""
        end = self._next + _number(length)
        if end > len(self._data):
            raise MalformedMessageError("cut short")
        piece = self._data[self._next : end]
        self._next = end
        return piece

    @property
    def is_empty(self) -> bool:
        """Whether all bytes were taken."""
        return self._next == len(self._data)


# ------------------------------------------------------------------------------------------------------- fields


def _same(value: Any, bodies: list[bytes]) -> Any:
    return value


def _sized(value: bytes, bodies: list[bytes]) -> int:
    bodies.append(value)
    return len(value)


def _sized_or_null(values: Sequence[bytes | None], bodies: list[bytes]) -> list[int | None]:
    return [None if value is None else _sized(value, bodies) for value in values]


def _columns(entries: Sequence[LogEntry], bodies: list[bytes]) -> list[Any]:
    if not entries:
        return []
    bodies += [entry.data for entry in entries]
    terms = [entry.term for entry in entries]
    kinds = [int(entry.kind) for entry in entries]
    return [_column(terms), _column(kinds), [len(entry.data) for entry in entries]]


def _column(values: list[int]) -> int | list[int]:
    return values[0] if len(set(values)) == 1 else values


def _number(value: Any) -> int:
    if value.__class__ is not int or not 0 <= value < NUMBER_LIMIT:
        raise MalformedMessageError("not a number")
    number: int = value
    return number


def _text(value: Any) -> str:
    if value.__class__ is not str or len(value) > TEXT_LIMIT:
        raise MalformedMessageError("not a text")
    text: str = value
    return text


def _read_number(value: Any, body: Body) -> int:
    return _number(value)


def _read_text(value: Any, body: Body) -> str:
    return _text(value)


def _read_flag(value: Any, body: Body) -> bool:
    if value.__class__ is not bool:
        raise MalformedMessageError("not true or false")
    flag: bool = value
    return flag


def _read_ballot(value: Any, body: Body) -> tuple[int, str]:
    round, founder = _listed(value)
    return _number(round), _text(founder)


def _read_numbers(value: Any, body: Body) -> tuple[int, ...]:
    return tuple(map(_number, _listed(value)))


def _read_bytes(value: Any, body: Body) -> bytes:
    return body.take(value)


def _read_configuration(value: Any, body: Body) -> bytes:
    data = body.take(value)
    if data:
        Configuration.decode(data)
    return data


def _read_commands(value: Any, body: Body) -> tuple[bytes | None, ...]:
    return tuple(None if length is None else body.take(length) for length in _listed(value))


def _read_entries(value: Any, body: Body) -> tuple[tuple[int, int, bytes], ...]:
    """Decode terms, kinds and data of entries; their indices follow from the message."""
    if value == []:
        return ()
    terms, kinds, lengths = _listed(value)
    count = len(_listed(lengths))
    return tuple(
        (_number(term), Kind(kind), body.take(length))
        for term, kind, length in zip(_spread(terms, count), _spread(kinds, count), lengths, strict=True)
    )


def _spread(column: Any, count: int) -> list[Any]:
    return [column] * count if column.__class__ is int else _listed(column)


def _listed(value: Any) -> list[Any]:
    if value.__class__ is not list:
        raise MalformedMessageError("not a list")
    items: list[Any] = value
    return items


Pack = Callable[[Any, list[bytes]], Any]
Unpack = Callable[[Any, Body], Any]
Field = tuple[str, Pack, Unpack]

NUMBER, TEXT, FLAG = (_same, _read_number), (_same, _read_text), (_same, _read_flag)
BALLOT, NUMBERS = (_same, _read_ballot), (_same, _read_numbers)
BYTES, CONFIGURATION = (_sized, _read_bytes), (_sized, _read_configuration)
COMMANDS, ENTRIES = (_sized_or_null, _read_commands), (_columns, _read_entries)

GROUP = {"group": TEXT, "life": TEXT, "term": NUMBER}
SCOPE = {"scope": TEXT, "life": TEXT}

FORMS: dict[str, tuple[type, dict[str, tuple[Any, Any]]]] = {
    "vote?": (RequestVote, {**GROUP, "pre": FLAG, "transfer": FLAG, "last_index": NUMBER, "last_term": NUMBER}),
    "vote": (Vote, {**GROUP, "pre": FLAG, "granted": FLAG}),
    "append": (
        Append,
        {
            **GROUP, "round": NUMBER, "previous_index": NUMBER, "previous_term": NUMBER, "commit_index": NUMBER,
            "entries": ENTRIES,
        },
    ),
    "appended": (
        Appended,
        {**GROUP, "round": NUMBER, "matches": FLAG, "index": NUMBER, "index_term": NUMBER, "refused": NUMBER},
    ),
    "snapshot": (
        InstallSnapshot,
        {
            **GROUP, "round": NUMBER, "index": NUMBER, "index_term": NUMBER, "configuration": CONFIGURATION,
            "size": NUMBER, "offset": NUMBER, "data": BYTES,
        },
    ),
    "received": (SnapshotReceived, {**GROUP, "round": NUMBER, "index": NUMBER, "offset": NUMBER}),
    "lead": (TimeoutNow, GROUP),
    "forward": (Forward, {**GROUP, "tickets": NUMBERS, "commands": COMMANDS}),
    "forwarded": (
        Forwarded, {**GROUP, "tickets": NUMBERS, "indices": NUMBERS, "is_read": FLAG, "refusal": TEXT},
    ),
    "offer": (Offer, {**SCOPE, "seats": NUMBER}),
    "welcome": (Welcome, {**SCOPE, "value": CONFIGURATION}),
    "prepare": (Prepare, {**SCOPE, "ballot": BALLOT}),
    "promise": (Promise, {**SCOPE, "ballot": BALLOT, "accepted": BALLOT, "value": CONFIGURATION}),
    "propose": (Propose, {**SCOPE, "ballot": BALLOT, "value": CONFIGURATION}),
    "accepted": (Accepted, {**SCOPE, "ballot": BALLOT}),
}  # fmt: skip

PACKERS: dict[type, tuple[str, list[tuple[str, Pack]]]] = {
    form: (kind, [(name, pack) for name, (pack, _) in fields.items()]) for kind, (form, fields) in FORMS.items()
}
UNPACKERS: dict[str, tuple[Callable[..., Message], list[Unpack]]] = {
    kind: (form, [unpack for _, unpack in fields.values()]) for kind, (form, fields) in FORMS.items()
}


# ------------------------------------------------------------------------------------------------- messages


def encode(message: Message) -> bytes:
    """Encode a message."""
    kind, fields = PACKERS[message.__class__]
    bodies: list[bytes] = []
    head = orjson.dumps([kind, *(pack(getattr(message, name), bodies) for name, pack in fields)])
    return b"".join([head, b"\n", *bodies])


def decode(data: bytes) -> Message:
    """Decode a message. Raises MalformedMessageError for anything else."""
    end = data.find(b"\n")
    try:
        kind, *values = _listed(orjson.loads(data[:end] if end >= 0 else b""))
        form, fields = UNPACKERS[_text(kind)]
        body = Body(data, end + 1)
        message = form(*(unpack(value, body) for unpack, value in zip(fields, values, strict=True)))
        _check(message)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedMessageError(f"not a message: {error}") from error
    if not body.is_empty:
        raise MalformedMessageError("bytes behind the message")
    return message


def _check(message: Message) -> None:
    """Check the fields of a message against one another."""
    match message:
        case Append():
            message.entries = tuple(
                LogEntry(index, *fields)  # type: ignore[misc]  # until here without their index
                for index, fields in enumerate(message.entries, message.previous_index + 1)
            )
            _check_entries(message)
        case InstallSnapshot() if not message.configuration or not _is_piece(message):
            raise MalformedMessageError("not a piece of a snapshot")
        case RequestVote() if message.last_term > message.term:
            raise MalformedMessageError("an entry of a term that is yet to come")
        case Welcome() | Propose() if not message.value or not Configuration.decode(message.value).voters:
            raise MalformedMessageError("nobody to vote")
        case Forward() if len(message.tickets) != len(message.commands) or not message.tickets:
            raise MalformedMessageError("not as many commands as tickets")
        case Forwarded() if len(message.tickets) != len(message.indices):
            raise MalformedMessageError("not as many indices as tickets")


def _is_piece(piece: InstallSnapshot) -> bool:
    return (
        piece.index >= 1
        and piece.index_term <= piece.term
        and piece.offset + len(piece.data) <= piece.size
        and bool(Configuration.decode(piece.configuration).voters)
    )


def _check_entries(append: Append) -> None:
    term = append.previous_term
    if term > append.term:
        raise MalformedMessageError("an entry of a term that is yet to come")
    for entry in append.entries:
        if not term <= entry.term <= append.term:
            raise MalformedMessageError("entries of terms that cannot follow one another")
        term = entry.term
        if entry.kind == Kind.CONFIGURATION and not Configuration.decode(entry.data).voters:
            raise MalformedMessageError("nobody to vote")
