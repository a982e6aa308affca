r"""Batches of messages to receivers, and reports on them.

A batch is a line of JSON, a line with the JSON payloads as an array, and the other payloads:

    {"batch":n,"kind":"subnet:kind","partition":p,"partitions":64,"seqs":[…],"ids":[…]}\n[payload,…]\nbytes…

`seqs` counts a sender's messages to one partition. `"bytes":[[i,size],…]` names the payloads that are bytes, with null
in the array. `"asks":[[i,within,path],…]` names messages with a waiting sender, `within` so many milliseconds;
`path` has the addresses that wait for the answer.

An answer tells what became of several batches: `"taken":[n,…]`; `"moved":[[n,"host id"],…]`, to be sent there;
`"done":[[n],[n,[seq,…]],…]`, whole batches or some messages were handled; `"results":[[n,seq,status,size,json],…]`,
with the results' bytes after the line. A question for counters is `{"status":n}`, and its answer `{"counters":n}` with
a JSON payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from glue.contract.heads import MalformedError, integer, loads, split
from glue.receivers.address import ADDRESS_LIMIT

TOPIC = "$glue/receivers/at/"
HEAD_LIMIT = 16 << 20
"""Bytes of the line before payloads: 4,096 messages with ids of 512 characters take 8 MB."""
BATCH_MESSAGES = 4096
SEQ_LIMIT = 1 << 53
ANSWER, FAILED, AGAIN = 1, 2, 3
"""What became of a message that was not just handled: an answer; its handler raised; to be sent again."""


class Message(Protocol):
    """A message as its sender has it."""

    @property
    def seq(self) -> int:
        """The number."""

    @property
    def id(self) -> str:
        """The receiver."""

    @property
    def body(self) -> bytes:
        """The payload."""

    @property
    def is_json(self) -> bool:
        """Whether the payload is JSON."""

    @property
    def within(self) -> float:
        """The seconds that its sender waits for an answer, 0 for none."""

    @property
    def path(self) -> tuple[str, ...]:
        """The addresses that wait for the answer."""


class Batch(NamedTuple):
    """A batch as it arrives. `asks`: by index, the seconds of the sender's wait and the waiting addresses."""

    number: int
    kind: str
    partition: int
    partitions: int
    seqs: list[int]
    ids: list[str]
    payloads: list[Any]
    asks: dict[int, tuple[float, tuple[str, ...]]]


class Result(NamedTuple):
    """The result of one message."""

    seq: int
    status: int
    body: bytes = b""
    is_json: bool = False


class Report(NamedTuple):
    """A report on batches by number; `done` with numbers of messages, None for all of the batch."""

    taken: Sequence[int] = ()
    moved: Sequence[tuple[int, str]] = ()
    done: Sequence[tuple[int, Sequence[int] | None]] = ()
    results: Sequence[tuple[int, Result]] = ()


def at_topic(endpoint_id: str) -> str:
    """The topic of everything to one endpoint."""
    return TOPIC + endpoint_id


def encode_batch(number: int, kind: str, partition: int, partitions: int, messages: Iterable[Message]) -> bytes:
    """A batch."""
    messages = list(messages)
    head: dict[str, Any] = {
        "batch": number, "kind": kind, "partition": partition, "partitions": partitions,
        "seqs": [one.seq for one in messages], "ids": [one.id for one in messages],
    }  # fmt: skip
    asks = [[i, max(1, int(one.within * 1000)), one.path] for i, one in enumerate(messages) if one.within]
    if asks:
        head["asks"] = asks
    others = [(i, one.body) for i, one in enumerate(messages) if not one.is_json]
    if others:
        head["bytes"] = [[i, len(body)] for i, body in others]
    line = b",".join([one.body if one.is_json else b"null" for one in messages])
    return b"".join([orjson.dumps(head), b"\n[", line, b"]\n", *[body for _, body in others]])


def encode_report(report: Report) -> bytes:
    """Encode a report."""
    head: dict[str, Any] = {}
    if report.taken:
        head["taken"] = report.taken
    if report.moved:
        head["moved"] = report.moved
    if report.done:
        head["done"] = [[number] if seqs is None else [number, seqs] for number, seqs in report.done]
    if report.results:
        head["results"] = [[n, one.seq, one.status, len(one.body), int(one.is_json)] for n, one in report.results]
    return b"".join([orjson.dumps(head), b"\n", *[one.body for _, one in report.results]])


def encode(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Any other payload."""
    return orjson.dumps(head) + b"\n" + body


def decode(payload: Any) -> tuple[dict[str, Any], bytes]:
    """The JSON object, and what follows. Raises MalformedError."""
    return split(payload, HEAD_LIMIT)


def decode_batch(head: dict[str, Any], body: bytes) -> Batch:
    """The messages of a batch. Raises MalformedError."""
    line, feed, rest = body.partition(b"\n")
    seqs, ids, payloads = _list(head.get("seqs"), int), _list(head.get("ids"), str), loads(line)
    if not feed or not isinstance(payloads, list) or not 0 < len(seqs) == len(ids) == len(payloads):
        raise MalformedError("messages")
    if not (min(seqs) > 0 and max(seqs) < SEQ_LIMIT and len(max(ids, key=len)) <= ADDRESS_LIMIT and min(ids)):
        raise MalformedError("message")
    start = 0
    for i, size in _rows(head.get("bytes", []), 2):
        index, size = integer(i, 0, len(ids) - 1), integer(size, 0, len(rest))
        payloads[index] = rest[start : start + size]
        start += size
    if start != len(rest):
        raise MalformedError("sizes")
    asks = {}
    for i, within, path in _rows(head.get("asks", []), 3):
        asks[integer(i, 0, len(ids) - 1)] = integer(within, 0, 10**9 - 1) / 1000, tuple(_list(path, str))
    numbers = [integer(head.get(name)) for name in ("batch", "partition", "partitions")]
    return Batch(numbers[0], str(head.get("kind")), numbers[1], numbers[2], seqs, ids, payloads, asks)


def decode_report(head: dict[str, Any], body: bytes) -> Report:
    """Decode a report. Raises MalformedError."""
    moved = [(integer(number), str(host)) for number, host in _rows(head.get("moved", []), 2)]
    done: list[tuple[int, Sequence[int] | None]] = []
    for row in _rows(head.get("done", [])):
        if len(row) not in (1, 2):
            raise MalformedError("done")
        done.append((integer(row[0]), _list(row[1], int) if len(row) == 2 else None))
    results, start = [], 0
    for number, seq, status, size, is_json in _rows(head.get("results", []), 5):
        size = integer(size, 0, len(body))
        if not ANSWER <= integer(status) <= AGAIN:
            raise MalformedError("status")
        results.append((integer(number), Result(integer(seq), status, body[start : start + size], is_json == 1)))
        start += size
    if start != len(body):
        raise MalformedError("sizes")
    return Report([integer(number) for number in _list(head.get("taken", []), int)], moved, done, results)


def _list(values: Any, kind: type) -> list[Any]:
    if values.__class__ is not list or len(values) > BATCH_MESSAGES or not {*map(type, values)} <= {kind}:
        raise MalformedError("list")
    return list(values)


def _rows(rows: Any, width: int = 0) -> list[list[Any]]:
    if any(width and len(row) != width for row in _list(rows, list)):
        raise MalformedError("rows")
    return list(rows)
